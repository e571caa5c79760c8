"""Paths and payloads of Kafka 3.9's znodes (``kafka.zk.ZkData``).

Payloads are JSON in UTF-8 without blanks; readers look keys up by name and accept the older versions that
Kafka's readers accept. A payload that cannot be read raises UnreadableZnodeError, for any mistake in it;
`unreadable.readable` says so in the log, and what is done without that znode.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_plus

from barnabas.cluster.brokers import SECURITY_PROTOCOLS, Broker
from barnabas.cluster.leadership import (
    LeaderAndIsr,
    LeaderRecoveryState,
    PartitionLeadership,
    ReplicaAssignment,
    TopicAssignment,
)
from barnabas.cluster.store.contract import Stat
from barnabas.cluster.store.payload import (
    INT_MAX,
    UnreadableZnodeError,
    broker_ids,
    decode_json,
    encode_json,
    field,
    number_field,
    number_of_text,
    typed,
)
from barnabas.core.config import LONG_MAX
from barnabas.core.ids import NO_LEADER, TopicPartition, Uuid, uuid_from_text, uuid_text
from barnabas.network.endpoints import Endpoint

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
DELETE_TOPICS: Final = "/admin/delete_topics"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
CLUSTER_ID: Final = "/cluster/id"
FEATURE: Final = "/feature"
CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
BYTES_MAX: Final = 1_000_000
"""ZooKeeper ends the connection on which a larger znode comes (``jute.maxbuffer``), and each that it is sent
again on. What clients want to have stored is bounded by it.
"""
DEFAULT_ENTITY: Final = "<default>"

PERSISTENT_PATHS: Final = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"/config/{kind}" for kind in CONFIG_TYPES),
)
"""What a broker makes sure of when it starts (``ZkData.PersistentZkPaths``)."""

PRODUCER_ID_BLOCK_SIZE: Final = 1000


def ancestors(path: str) -> list[str]:
    """The paths above a path, outermost first, without the root."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


# ------------------------------------------------------------------------------------------- paths


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    """Where a topic's assignment is."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def partition_state_path(tp: TopicPartition) -> str:
    """Where leader and ISR of a partition are."""
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_type: str, entity: str) -> str:
    """Where the configuration of an entity is; the entity as `sanitize` made it."""
    return f"/config/{entity_type}/{entity}"


def sanitize(name: str) -> str:
    """A name that may be a part of a path (``Sanitizer``): Java's URL encoding with %20 and %2A."""
    return quote(name, safe=".-_").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The inverse of `sanitize`."""
    return unquote_plus(name)


# ------------------------------------------------------------------------ controller, cluster, features


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    """/controller."""
    return encode_json(
        {"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes | None) -> int:
    """The broker id in /controller."""
    return number_field(decode_json(data), "brokerid")


def encode_controller_epoch(epoch: int) -> bytes:
    """/controller_epoch, which is no JSON."""
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int:
    """The epoch of the last controller; below the greatest number, as the next one is greater."""
    return number_of_text((data or b"").decode("latin-1"), "it", most=INT_MAX - 1)


def encode_cluster_id(cluster_id: str) -> bytes:
    """/cluster/id; its version is a string."""
    return encode_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    cluster_id = field(decode_json(data), "id", str)
    if not cluster_id:
        raise UnreadableZnodeError("id is empty")
    return cluster_id


def encode_feature(levels: Mapping[str, int] | None = None) -> bytes:
    """/feature with the finalized levels: enabled (status 1), as any IBP >= 2.7 writes it."""
    features = {name: {"max_version_level": level} for name, level in (levels or {}).items()}
    return encode_json({"features": features, "version": 2, "status": 1})


def decode_feature_enabled(data: bytes | None) -> bool:
    """Whether /feature says that features may be finalized."""
    return _decode_feature(data)[1] == 1


def decode_features(data: bytes | None) -> dict[str, int] | None:
    """The features of /feature with their levels; None while they may not be finalized."""
    features, status = _decode_feature(data)
    levels = {
        name: number_field(typed(each, dict, name), "max_version_level") for name, each in features.items()
    }
    return levels if status == 1 else None


def _decode_feature(data: bytes | None) -> tuple[dict[str, Any], int]:
    value = decode_json(data)
    version, status = number_field(value, "version"), number_field(value, "status")
    if version not in (1, 2):
        raise UnreadableZnodeError(f"version is {version}, and only 1 and 2 are known")
    return field(value, "features", dict), status


def encode_producer_ids(broker_id: int, first: int) -> bytes:
    """/latest_producer_id_block: the ids from `first` belong to a broker."""
    end = first + PRODUCER_ID_BLOCK_SIZE - 1
    return encode_json({"version": 1, "broker": broker_id, "block_start": str(first), "block_end": str(end)})


def decode_producer_ids_end(data: bytes | None) -> int:
    """The last id of the latest block; -1 before the first."""
    if not data:
        return -1
    return number_of_text(field(decode_json(data), "block_end", str), "block_end", most=LONG_MAX)


# ---------------------------------------------------------------------------------------- brokers


def encode_broker(broker: Broker, now_ms: int, jmx_port: int = -1) -> bytes:
    """/brokers/ids/<id>. The legacy host and port are those of the first PLAINTEXT endpoint."""
    plain = next((end for end in broker.endpoints if end.security_protocol == "PLAINTEXT"), None)
    value: dict[str, Any] = {
        "version": 5,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": jmx_port,
        "timestamp": str(now_ms),
        "endpoints": [str(endpoint) for endpoint in broker.endpoints],
        "listener_security_protocol_map": {end.name: end.security_protocol for end in broker.endpoints},
        "features": dict(broker.features),
    }
    if broker.rack is not None:
        value["rack"] = broker.rack
    if broker.cordoned:
        # Kafka 4 tells its controller so by heartbeats; a broker of 3.9 passes over the name.
        value["cordoned"] = True
    return encode_json(value)


def decode_broker(broker_id: int, data: bytes | None) -> Broker:
    """The broker in /brokers/ids/<id>, versions 1 to 5."""
    value = decode_json(data)
    version = number_field(value, "version")
    if not 1 <= version <= 5:
        raise UnreadableZnodeError(f"version is {version}, and only 1 to 5 are known")
    if version == 1:
        port = number_field(value, "port")
        return Broker(broker_id, (Endpoint("PLAINTEXT", field(value, "host", str), port),))
    protocols = field(value, "listener_security_protocol_map", dict, {})
    endpoints = tuple(
        _endpoint(typed(text, str, "an endpoint"), protocols) for text in field(value, "endpoints", list)
    )
    rack = value.get("rack")
    if rack is not None:
        rack = typed(rack, str, "rack")
    features = field(value, "features", dict, {})
    return Broker(broker_id, endpoints, rack, features, cordoned=value.get("cordoned") is True)


def _endpoint(text: str, protocols: Mapping[str, Any]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    protocol = typed(protocols.get(listener, listener), str, f"the protocol of {listener}")
    if protocol not in SECURITY_PROTOCOLS:
        raise UnreadableZnodeError(f"listener {listener} has the unknown security protocol {protocol}")
    return Endpoint(listener, host.strip("[]"), number_of_text(port, f"the port of {listener}"), protocol)


def numbered(names: Iterable[str]) -> list[int]:
    """Names below a znode that are numbers, of brokers or of partitions; others are nobody's."""
    return sorted(
        int(name)
        for name in names
        if name.isascii() and name.isdigit() and len(name) <= len(str(INT_MAX)) and int(name) <= INT_MAX
    )


# ----------------------------------------------------------------------------------------- topics


def encode_topic(assignment: TopicAssignment) -> bytes:
    """/brokers/topics/<topic>."""
    partitions = assignment.partitions.items()
    value: dict[str, Any] = {
        "partitions": {str(partition): list(replicas.replicas) for partition, replicas in partitions},
        "adding_replicas": {str(p): list(replicas.adding) for p, replicas in partitions if replicas.adding},
        "removing_replicas": {
            str(p): list(replicas.removing) for p, replicas in partitions if replicas.removing
        },
        "version": 3,
    }
    if assignment.topic_id is not None:
        value["topic_id"] = uuid_text(assignment.topic_id)
    return encode_json(value)


def decode_topic(data: bytes | None) -> TopicAssignment:
    """The assignment in /brokers/topics/<topic>, versions 1 to 3."""
    value = decode_json(data)
    adding = field(value, "adding_replicas", dict, {})
    removing = field(value, "removing_replicas", dict, {})
    partitions = {
        number_of_text(partition, "a partition"): ReplicaAssignment(
            broker_ids(replicas, f"partition {partition}"),
            broker_ids(adding.get(partition, []), "adding_replicas"),
            broker_ids(removing.get(partition, []), "removing_replicas"),
        )
        for partition, replicas in field(value, "partitions", dict).items()
    }
    topic_id: Uuid | None = None
    if "topic_id" in value:
        try:
            topic_id = uuid_from_text(field(value, "topic_id", str))
        except ValueError as error:
            raise UnreadableZnodeError(f"topic_id is no id: {error}") from error
    return TopicAssignment(topic_id, dict(sorted(partitions.items())))


def encode_partition_state(leadership: PartitionLeadership) -> bytes:
    """/brokers/topics/<topic>/partitions/<partition>/state."""
    state = leadership.leader_and_isr
    value: dict[str, Any] = {
        "version": 1,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "controller_epoch": leadership.controller_epoch,
        "isr": list(state.isr),
    }
    if state.recovery_state is LeaderRecoveryState.RECOVERING:
        value["leader_recovery_state"] = int(state.recovery_state)
    return encode_json(value)


def decode_partition_state(data: bytes | None, stat: Stat) -> PartitionLeadership:
    """Leader and ISR of a partition; the partition epoch is the znode's version."""
    value = decode_json(data)
    recovery_state = number_field(value, "leader_recovery_state", 0, most=max(LeaderRecoveryState))
    state = LeaderAndIsr(
        number_field(value, "leader", least=NO_LEADER),
        broker_ids(field(value, "isr", list), "isr"),
        number_field(value, "leader_epoch"),
        LeaderRecoveryState(recovery_state),
        stat.version,
    )
    return PartitionLeadership(state, number_field(value, "controller_epoch"))


# ------------------------------------------------------------------------- config and administration


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What a notice in /config/changes names: a topic, broker, user, ..."""

    entity_type: str
    entity: str


def encode_config(values: Mapping[str, str]) -> bytes:
    """/config/<type>/<entity>."""
    return encode_json({"version": 1, "config": dict(values)})


def decode_config(data: bytes | None) -> dict[str, str]:
    """The settings in /config/<type>/<entity>; none where there is no data."""
    if not data:
        return {}
    config = field(decode_json(data), "config", dict)
    return {name: typed(value, str, f"the value of {name}") for name, value in config.items()}


def encode_config_change(change: ConfigChange) -> bytes:
    """/config/changes/config_change_<number>."""
    return encode_json({"version": 2, "entity_path": f"{change.entity_type}/{change.entity}"})


def decode_config_change(data: bytes | None) -> ConfigChange:
    """The entity that a notice names, versions 1 and 2."""
    value = decode_json(data)
    version = number_field(value, "version")
    if version == 1:
        return ConfigChange(field(value, "entity_type", str), field(value, "entity_name", str))
    if version != 2:
        raise UnreadableZnodeError(f"version is {version}, and only 1 and 2 are known")
    entity_type, separator, entity = field(value, "entity_path", str).partition("/")
    if not (entity_type and separator and entity):
        raise UnreadableZnodeError("entity_path names no entity")
    return ConfigChange(entity_type, entity)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """/admin/preferred_replica_election and /isr_change_notification/isr_change_<number>."""
    listed = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return encode_json({"version": 1, "partitions": listed})


def decode_partitions(data: bytes | None) -> list[TopicPartition]:
    """The partitions that `encode_partitions` wrote."""
    return [_partition(each) for each in field(decode_json(data), "partitions", list)]


def _partition(value: Any) -> TopicPartition:
    fields = typed(value, dict, "a partition")
    return TopicPartition(field(fields, "topic", str), number_field(fields, "partition"))


def encode_reassignment(partitions: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """/admin/reassign_partitions: the brokers that each partition is to be on."""
    listed = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in partitions.items()
    ]
    return encode_json({"version": 1, "partitions": listed})


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """The partitions and brokers that `encode_reassignment` wrote."""
    return {
        _partition(each): broker_ids(each.get("replicas"), "replicas")
        for each in field(decode_json(data), "partitions", list)
    }


def encode_log_dir_event(broker_id: int) -> bytes:
    """/log_dir_event_notification/log_dir_event_<number>: a log directory of the broker failed."""
    return encode_json({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes | None) -> int:
    """The broker that a log directory failed on."""
    return number_field(decode_json(data), "broker")

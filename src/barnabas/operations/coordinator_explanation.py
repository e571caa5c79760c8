"""The stations of `coordinator_stations` in words: as lines, and as values for programs."""

from collections.abc import Sequence
from typing import Any, Final

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import java_abs
from barnabas.operations.coordinator_stations import KINDS, Agreement, Stations

Line = tuple[str, str]
"""A station and what is there."""

_ADVICE: Final = {
    Agreement.AGREE: "metadata and answer agree: clients of {kind} {key!r} connect to {endpoint}.",
    Agreement.DIFFER: (
        "metadata and answer differ: the brokers do not know the same yet, or the leader has just moved. "
        "Run this again; if it stays so, the broker that answers is behind its controller."
    ),
    Agreement.NOT_CREATED: (
        "{topic} does not exist yet, so no broker was asked: the first FindCoordinator creates it"
        " ({config}{count}). Let a client join, or run this command with --create."
    ),
}
_NOT_SEEN: Final = (
    "clients of {kind} {key!r} connect to {endpoint}; metadata of {topic} could not be looked at."
)
_BEING_MADE: Final = (
    "{topic} is being created: clients try again. If it stays so, fewer brokers live than "
    "{replication} asks for."
)
_JUST_MADE: Final = "the answer made {topic} come into being: run this command again to compare."
_RETRIED: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "the partition has no leader that lives: clients try again. If it stays so, see which brokers are "
        "down: barnabas topics --describe --topic {topic}"
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the coordinator is reading {topic}: clients try again.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "your principal may not describe this group: it needs DESCRIBE.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "your principal may not describe this transactional id: it needs DESCRIBE."
    ),
}


def lines(stations: Stations) -> Sequence[Line]:
    """The stations in the order in which a client's request passes them."""
    return [
        (stations.type.name.lower(), stations.key),
        ("hash", f"String.hashCode = {stations.hash}, Kafka's abs of it = {java_abs(stations.hash)}"),
        ("internal topic", _topic(stations)),
        ("partition", _partition(stations)),
        ("leader", _leader(stations)),
        ("endpoint", _endpoint(stations)),
        ("FindCoordinator", _answer(stations)),
        ("verdict", _verdict(stations)),
    ]


def _topic(stations: Stations) -> str:
    if not stations.exists:
        return f"{stations.topic} does not exist yet"
    if stations.obstacle:
        return f"{stations.topic}: {stations.obstacle.name} ({stations.obstacle.message})"
    return f"{stations.topic}, {stations.partition_count} partitions"


def _partition(stations: Stations) -> str:
    if stations.partition is None:
        return "not known without the number of partitions"
    sum_ = f"{java_abs(stations.hash)} mod {stations.partition_count} = {stations.partition}"
    return sum_ if stations.exists else f"{sum_}, once it exists"


def _leader(stations: Stations) -> str:
    metadata = stations.metadata
    if metadata is None:
        return "not known"
    if metadata.leader < 0:
        return (
            f"none at the moment (replicas {_numbers(metadata.replicas)}, in sync {_numbers(metadata.isr)})"
        )
    epoch = f"epoch {metadata.leader_epoch}" if metadata.leader_epoch >= 0 else "epoch not known"
    gone = "" if stations.leader else ", a broker that is not alive"
    return (
        f"broker {metadata.leader}{gone}, {epoch} (replicas {_numbers(metadata.replicas)},"
        f" in sync {_numbers(metadata.isr)})"
    )


def _numbers(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _endpoint(stations: Stations) -> str:
    if stations.leader is None:
        return "not known"
    return f"{stations.leader.host}:{stations.leader.port}, on the listener that was asked"


def _answer(stations: Stations) -> str:
    answer = stations.answer
    if answer is None:
        return "not asked: it would create the topic"
    if answer.error:
        return f"{answer.error.name}: {answer.message or answer.error.message}"
    return f"broker {answer.node_id} at {answer.host}:{answer.port}"


def _verdict(stations: Stations) -> str:
    answer, verdict = stations.answer, stations.verdict
    if verdict is Agreement.REFUSED and answer is not None:
        other = "clients of this {kind} cannot go on: see the broker's log."
        text = _RETRIED.get(answer.error, other)
        if answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE and not stations.exists:
            text = _BEING_MADE
    elif verdict is Agreement.NOT_COMPARED:
        text = _NOT_SEEN if stations.exists else _JUST_MADE
    else:
        text = _ADVICE[verdict]
    count = stations.partition_count
    return text.format(
        kind=stations.type.name.lower(),
        key=stations.key,
        topic=stations.topic,
        endpoint=f"{answer.host}:{answer.port}" if answer else "",
        config=KINDS[stations.type].partitions_key,
        replication=KINDS[stations.type].replication_key,
        count=f"={count}" if count else "",
    )


def as_dict(stations: Stations) -> dict[str, Any]:
    metadata, leader, answer = stations.metadata, stations.leader, stations.answer
    return {
        "key": stations.key,
        "type": stations.type.name.lower(),
        "hash": stations.hash,
        "topic": stations.topic,
        "topic_exists": stations.exists,
        "topic_error": stations.obstacle.name if stations.obstacle else None,
        "partition_count": stations.partition_count,
        "partition": stations.partition,
        "leader": metadata.leader if metadata else None,
        "leader_epoch": metadata.leader_epoch if metadata else None,
        "replicas": list(metadata.replicas) if metadata else None,
        "isr": list(metadata.isr) if metadata else None,
        "endpoint": f"{leader.host}:{leader.port}" if leader else None,
        "find_coordinator": None
        if answer is None
        else {
            "node_id": answer.node_id,
            "host": answer.host,
            "port": answer.port,
            "error": answer.error.name,
            "error_message": answer.message,
        },
        "verdict": stations.verdict.value,
        "explanation": _verdict(stations),
    }

"""More partitions for a topic that exists (``ZkAdminManager.createPartitions``).

Which brokers get them is checked or decided here, and the topic's znode written. The controller watches that
znode and does the rest.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from barnabas.cluster.leadership import ReplicaAssignment, TopicAssignment
from barnabas.cluster.metadata.cordoned import all_cordoned, cordoned_error
from barnabas.cluster.metadata.placement import BrokerRack, assign_replicas
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import BadVersionError, MetadataStore, NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import is_topic_name
from barnabas.core.pending import Steps, steps

_events: Final = EventLog("cluster.topics")


@steps
def create_partitions(
    store: MetadataStore,
    brokers: Sequence[BrokerRack],
    cordoned: Collection[int],
    topic: str,
    total: int,
    assignments: Sequence[Sequence[int]] | None,
    *,
    validate_only: bool,
    count: Callable[[int], None],
) -> Steps[int]:
    """Has a topic grow to `total` partitions; how many it has then. `brokers` are the live ones in order of
    their ids, those that get no new replicas are `cordoned`; `count` is called with how many are about to be
    added, and may refuse them.

    `assignments` are the replicas of each new partition, None to have them placed. Raises KafkaError with
    Kafka's words.
    """
    counted = False
    while True:
        existing, version = yield _read(store, topic)
        added = _new_assignment(brokers, cordoned, topic, existing.partitions, total, assignments)
        if validate_only:
            return total
        if not counted:
            count(len(added))
            counted = True
        payload = topic_payload(TopicAssignment(existing.topic_id, {**existing.partitions, **added}))
        try:
            yield store.set(znodes.topic_path(topic), payload, version)
        except BadVersionError:
            continue  # another client changed the topic meanwhile: judge again by its present assignment
        except NoNodeError as error:
            raise _unknown(topic) from error
        _events.info("partitions_written", topic=topic, partitions=total)
        return total


def topic_payload(topic: TopicAssignment, *, beside: int = 0) -> bytes:
    """The data of a topic's znode, which is written with `beside` bytes in one transaction.

    Raises KafkaError INVALID_REPLICA_ASSIGNMENT for more than ZooKeeper takes.
    """
    payload = znodes.encode_topic(topic)
    if len(payload) + beside > znodes.BYTES_MAX:
        raise _invalid(
            f"The replica assignment is larger than the {znodes.BYTES_MAX} bytes that can be stored of a "
            "topic."
        )
    return payload


@steps
def _read(store: MetadataStore, topic: str) -> Steps[tuple[TopicAssignment, int]]:
    if not is_topic_name(topic):
        raise _unknown(topic)
    try:
        data, stat = yield store.get(znodes.topic_path(topic))
    except NoNodeError as error:
        raise _unknown(topic) from error
    assignment = readable(store, znodes.topic_path(topic), znodes.decode_topic, data)
    if assignment is None:
        raise _unknown(topic)
    if any(each.being_reassigned for each in assignment.partitions.values()):
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{topic}'.",
        )
    if not assignment.partitions:
        raise _unknown(topic)
    return assignment, stat.version


def _new_assignment(
    brokers: Sequence[BrokerRack],
    cordoned: Collection[int],
    topic: str,
    existing: Mapping[int, ReplicaAssignment],
    count: int,
    assignments: Sequence[Sequence[int]] | None,
) -> dict[int, ReplicaAssignment]:
    increment = count - len(existing)
    if increment < 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {len(existing)} partitions, which is higher than the requested {count}.",
        )
    if increment == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {len(existing)} partitions.")
    live = [broker.id for broker in brokers]
    if assignments is not None:
        unknown = dict.fromkeys(each for replicas in assignments for each in replicas if each not in live)
        if unknown:
            raise _invalid(f"Unknown broker(s) in replica assignment: {_listed(unknown)}.")
        for replicas in assignments:
            if error := cordoned_error(replicas, cordoned):
                raise error
        if len(assignments) != increment:
            raise _invalid(
                f"Increasing the number of partitions by {increment} but {len(assignments)} assignments "
                "provided."
            )
    first = existing.get(0)
    if first is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Unexpected existing replica assignment for topic '{topic}', partition id 0 is missing.",
        )
    if assignments is not None:
        placed = dict(enumerate(map(tuple, assignments), len(existing)))
        _validate(placed, len(first.replicas))
    else:
        brokers = [broker for broker in brokers if broker.id not in cordoned]
        live = [broker.id for broker in brokers]
        if cordoned and not brokers:
            raise all_cordoned(len(first.replicas))
        # The new ones are placed from the first partition's leader on, as if they had been made with the
        # topic.
        at_or_after = (index for index, broker in enumerate(live) if broker >= first.replicas[0])
        placed = assign_replicas(
            brokers,
            partitions=increment,
            replication_factor=len(first.replicas),
            start_index=next(at_or_after, 0),
            start_partition=len(existing),
        )
    return {partition: ReplicaAssignment(replicas) for partition, replicas in placed.items()}


def _validate(placed: Mapping[int, tuple[int, ...]], replication_factor: int) -> None:
    """``validateReplicaAssignment``; that the brokers live is known by now."""
    for partition, replicas in placed.items():
        if not replicas:
            raise _invalid(f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(replicas) != len(set(replicas)):
            raise _invalid(
                f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} for partition id "
                f"{partition}."
            )
    odd = {partition: len(each) for partition, each in placed.items() if len(each) != replication_factor}
    if odd:
        raise _invalid(
            f"Inconsistent replication factor between partitions, partition 0 has {replication_factor} while "
            f"partitions [{_listed(odd)}] have replication factors [{_listed(odd.values())}], respectively."
        )


def _listed(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _unknown(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")

"""Placement of replicas: Kafka's ``AdminUtils.assignReplicasToBrokers``, exactly.

Leaders go round the brokers from a random start. The other replicas of a partition are shifted against its
leader by an amount that grows each time the leaders have gone round, so that the replicas of one broker's
partitions spread over all others. With racks, brokers are listed alternating by rack first, and a rack gets
a second replica of a partition only when every rack has one.
"""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.core.errors import ErrorCode, KafkaError


class BrokerRack(NamedTuple):
    """A broker that may get replicas."""

    id: int
    rack: str | None = None


def assign_replicas(
    brokers: Iterable[BrokerRack],
    *,
    partitions: int,
    replication_factor: int,
    chooser: random.Random | None = None,
    start_index: int = -1,
    start_partition: int = -1,
) -> dict[int, tuple[int, ...]]:
    """The brokers of each partition, the leader first.

    Start and shift are `start_index`, or drawn from `chooser` where that is negative. `start_partition` is
    the first number where partitions are added to a topic. Raises KafkaError with Kafka's words.
    """
    brokers = list(brokers)
    _check(brokers, partitions, replication_factor)
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    if racks and len(racks) < len(brokers):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    order = alternate_racks(racks) if racks else [broker.id for broker in brokers]
    start, shift = _start(len(order), start_index, chooser)
    first = max(0, start_partition)
    placed = {}
    for partition in range(first, first + partitions):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        leader = (partition + start) % len(order)
        if racks:
            placed[partition] = _across_racks(order, racks, leader, shift, replication_factor)
        else:
            placed[partition] = _around(order, leader, shift, replication_factor)
    return placed


def alternate_racks(racks: dict[int, str]) -> list[int]:
    """All brokers, one of each rack in turn: {0: a, 1: a, 2: b} is 0, 2, 1."""
    by_rack: dict[str, list[int]] = {}
    for broker, rack in sorted(racks.items()):
        by_rack.setdefault(rack, []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues))
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def _check(brokers: Sequence[BrokerRack], partitions: int, replication_factor: int) -> None:
    if partitions <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
        )


def _start(count: int, start_index: int, chooser: random.Random | None) -> tuple[int, int]:
    if start_index >= 0:
        return start_index, start_index
    assert chooser is not None, "without a start index, start and shift need a source of randomness"
    return chooser.randrange(count), chooser.randrange(count)


def _replica_index(leader: int, shift: int, replica: int, count: int) -> int:
    return (leader + 1 + (shift + replica) % (count - 1)) % count


def _around(order: Sequence[int], leader: int, shift: int, replication_factor: int) -> tuple[int, ...]:
    others = range(replication_factor - 1)
    return (
        order[leader],
        *(order[_replica_index(leader, shift, replica, len(order))] for replica in others),
    )


def _across_racks(
    order: Sequence[int], racks: dict[int, str], leader: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [order[leader]]
    used = {racks[order[leader]]}
    step = 0
    while len(replicas) < replication_factor:
        broker = order[_replica_index(leader, shift * rack_count, step, len(order))]
        step += 1
        if broker not in replicas and (racks[broker] not in used or len(used) == rack_count):
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)

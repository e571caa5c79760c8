"""Which replicas partitions are to have: what is proposed, and what is refused
(``ReassignPartitionsCommand``).
"""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from barnabas.admin import AsyncAdmin, TopicDescription
from barnabas.cluster.metadata.placement import BrokerRack, assign_replicas
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError

T = TypeVar("T")

Assignment = Mapping[TopicPartition, Sequence[int]]
"""The replicas of partitions, the preferred leader first."""


def duplicates(values: Iterable[T]) -> list[T]:
    """What is there more than once, in the order in which it came a second time."""
    seen: set[T] = set()
    again: dict[T, None] = {}
    for value in values:
        if value in seen:
            again[value] = None
        seen.add(value)
    return list(again)


def check_targets(targets: Sequence[tuple[TopicPartition, Sequence[int]]]) -> None:
    """Raises OperationError for what no cluster could do."""
    if not targets:
        raise OperationError("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in targets):
        raise OperationError("Partition replica list cannot be empty")
    if repeated := duplicates(tp for tp, _ in targets):
        named = ",".join(map(str, repeated))
        raise OperationError(f"Partition reassignment contains duplicate topic partitions: {named}")
    twice = [
        f"{tp} contains multiple entries for {','.join(map(str, duplicates(replicas)))}"
        for tp, replicas in targets
        if duplicates(replicas)
    ]
    if twice:
        raise OperationError(f"Partition replica lists may not contain duplicate entries: {'. '.join(twice)}")


async def check_brokers(admin: AsyncAdmin, brokers: Iterable[int]) -> None:
    """Raises OperationError for the first broker that is not in the cluster now."""
    alive = {broker.node_id for broker in (await admin.cluster.describe()).brokers}
    for broker in brokers:
        if broker not in alive:
            raise OperationError(f"Unknown broker id {broker}")


def replicas_of(tp: TopicPartition, topic: TopicDescription | BarnabasError) -> list[int]:
    """The replicas of a partition, none of one that does not exist."""
    if isinstance(topic, KafkaError) and topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return []
    if isinstance(topic, BarnabasError):
        raise topic
    return next((list(one.replicas) for one in topic.partitions if one.partition == tp.partition), [])


async def current_replicas(admin: AsyncAdmin, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """The replicas of all partitions of topics. Raises KafkaError for a topic that does not exist."""
    described = await admin.topics.try_describe(topics)
    found: dict[TopicPartition, list[int]] = {}
    for name, topic in described.items():
        if isinstance(topic, KafkaError) and topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(topic.code, f"Topic {name} not found.")
        if isinstance(topic, BarnabasError):
            raise topic
        found |= {TopicPartition(name, one.partition): list(one.replicas) for one in topic.partitions}
    return found


async def current_of(admin: AsyncAdmin, wanted: Assignment) -> dict[TopicPartition, list[int]]:
    """The replicas of these partitions. Raises KafkaError for those that do not exist."""
    everything = await current_replicas(admin, {tp.topic for tp in wanted})
    if missing := [str(tp) for tp in wanted if tp not in everything]:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {', '.join(missing)}"
        )
    return {tp: everything[tp] for tp in wanted}


async def propose(
    admin: AsyncAdmin, current: Assignment, brokers: Collection[int], *, rack_aware: bool
) -> dict[TopicPartition, tuple[int, ...]]:
    """The partitions of `current` placed anew on these brokers, with as many replicas as they have.

    Raises OperationError where the brokers do not suffice, or only some of them have a rack.
    """
    racks = [
        BrokerRack(one.node_id, one.rack if rack_aware else None)
        for one in (await admin.cluster.describe()).brokers
        if one.node_id in brokers
    ]
    if len({one.rack is None for one in racks}) > 1:
        raise OperationError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica"
            " assignment without rack information."
        )
    proposed: dict[TopicPartition, tuple[int, ...]] = {}
    for topic in dict.fromkeys(tp.topic for tp in current):
        partitions = [tp for tp in current if tp.topic == topic]
        factor = len(current[partitions[0]])
        try:
            placed = assign_replicas(
                racks, partitions=len(partitions), replication_factor=factor, chooser=random.Random()
            )
        except KafkaError as error:
            raise OperationError(str(error)) from error
        proposed |= {TopicPartition(topic, number): replicas for number, replicas in placed.items()}
    return proposed

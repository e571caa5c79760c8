"""What the leader of a classic group does: assignors over members' subscriptions, and their bytes.

Small ones of our own, so that a mistake in the product's assignors is no mistake of the judge's.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from barnabas.core.ids import TopicPartition
from barnabas.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.consumer_protocol import TopicPartition as TopicPartitions

Partitions: TypeAlias = tuple[TopicPartition, ...]
Assignment: TypeAlias = dict[str, list[TopicPartition]]

COOPERATIVE: Final = "cooperative-sticky"


class Subscription(NamedTuple):
    """What the leader knows of a member."""

    topics: tuple[str, ...]
    owned: Partitions
    generation: int


@lru_cache(maxsize=4096)
def subscription_bytes(subscription: Subscription) -> bytes:
    """As they travel in a JoinGroup."""
    return ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        owned_partitions=_by_topic(subscription.owned),
        generation_id=subscription.generation,
    ).to_bytes(3)


@lru_cache(maxsize=4096)
def read_subscription(metadata: bytes) -> Subscription:
    """The inverse of `subscription_bytes`."""
    subscription = ConsumerProtocolSubscription.from_bytes(metadata)
    return Subscription(
        tuple(subscription.topics), _flat(subscription.owned_partitions), subscription.generation_id
    )


@lru_cache(maxsize=4096)
def assignment_bytes(partitions: Partitions) -> bytes:
    """As they travel in a SyncGroup."""
    return ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions)).to_bytes(3)


@lru_cache(maxsize=4096)
def read_assignment(assignment: bytes) -> Partitions:
    """The inverse of `assignment_bytes`; no bytes are no partitions."""
    return _flat(ConsumerProtocolAssignment.from_bytes(assignment).assigned_partitions) if assignment else ()


def assign(
    protocol: str, subscriptions: Mapping[str, Subscription], partitions: Iterable[TopicPartition]
) -> Assignment:
    """Who gets what, by member id; `partitions` are all there are."""
    return _ASSIGNORS[protocol](subscriptions, sorted(partitions))


def _range(subscriptions: Mapping[str, Subscription], partitions: list[TopicPartition]) -> Assignment:
    members = sorted(subscriptions)
    share, extra = divmod(len(partitions), len(members))
    assignment, begin = {}, 0
    for index, member in enumerate(members):
        end = begin + share + (index < extra)
        assignment[member] = partitions[begin:end]
        begin = end
    return assignment


def _round_robin(subscriptions: Mapping[str, Subscription], partitions: list[TopicPartition]) -> Assignment:
    members = sorted(subscriptions)
    return {member: partitions[index :: len(members)] for index, member in enumerate(members)}


def _cooperative(subscriptions: Mapping[str, Subscription], partitions: list[TopicPartition]) -> Assignment:
    """Keeps what it can; what must move is left out until its owner has given it up (KIP-429)."""
    newest = max(subscription.generation for subscription in subscriptions.values())
    share, extra = divmod(len(partitions), len(subscriptions))
    assignment: Assignment = {}
    claimed: set[TopicPartition] = set()
    for member, subscription in sorted(subscriptions.items()):
        # KIP-792: what was owned in an older generation may have another owner since.
        owned = [
            tp for tp in sorted(subscription.owned) if subscription.generation == newest and tp not in claimed
        ]
        claimed.update(owned)
        room = share + (extra > 0)
        extra -= len(owned) >= room > share
        assignment[member] = owned[:room] if len(owned) >= room else owned
    for tp in partitions:
        if tp not in claimed:
            assignment[min(sorted(assignment), key=lambda member: len(assignment[member]))].append(tp)
    return assignment


_ASSIGNORS: Final[dict[str, Callable[[Mapping[str, Subscription], list[TopicPartition]], Assignment]]] = {
    "range": _range,
    "roundrobin": _round_robin,
    COOPERATIVE: _cooperative,
}


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def _flat(topics: Iterable[TopicPartitions]) -> Partitions:
    return tuple(TopicPartition(each.topic, number) for each in topics for number in each.partitions)

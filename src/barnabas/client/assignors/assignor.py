"""`Assignor`: divides the partitions of a group's topics among its members."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, TypeAlias

from barnabas.core.ids import TopicPartition

Topics: TypeAlias = Mapping[str, Sequence[frozenset[str]]]
"""The partitions of each topic, from 0, as the racks that hold a replica of them."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""The partitions of each member."""


class RebalanceProtocol(IntEnum):
    """What a member does with its partitions when the group rebalances; the higher, the more advanced."""

    EAGER = 0
    """Gives all of them up before it joins again."""
    COOPERATIVE = 1
    """Keeps them, and gives up only what the new assignment takes away (KIP-429)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member says about itself."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned: Sequence[TopicPartition] = ()
    generation: int | None = None
    """The last generation the member was in; None where it did not say, or was in none (KIP-792)."""
    rack: str | None = None
    group_instance_id: str | None = None


class Assignor(ABC):
    """One way to divide; an instance belongs to one member."""

    name: ClassVar[str]
    """What the members of a group call it when they agree on one."""
    protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset({RebalanceProtocol.EAGER})

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002 - part of the contract
        """What this member sends the next leader's assignor about itself."""
        return None

    def on_assignment(  # noqa: B027 - most have nothing to remember
        self, partitions: Sequence[TopicPartition], generation: int
    ) -> None:
        """This member got these partitions in this generation."""

    @abstractmethod
    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        """The partitions of each member; only topics that exist are in `topics`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def members_in_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Static members first, by their instance ids, so that they keep their places when they come back."""

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = subscriptions[member_id].group_instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(subscriptions, key=place)


def partitions_of(topic: str, topics: Topics) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(len(topics[topic]))]


def racks_matter(consumer_racks: Collection[str], replica_racks: Iterable[frozenset[str]]) -> bool:
    """Whether consumers and replicas share racks, and some partition is not in all of them (KIP-881)."""
    listed = list(replica_racks)
    everywhere = frozenset[str]().union(*listed)
    if not everywhere.intersection(consumer_racks):
        return False
    return any(racks != everywhere for racks in listed)

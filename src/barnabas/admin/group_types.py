"""What ``admin.groups`` takes and gives back."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from barnabas.client.metadata import Broker
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition


class _KafkaName(StrEnum):
    """A value with the name that Kafka prints."""

    @classmethod
    def parse(cls, name: str) -> Self:
        """The value of this name in any case; Unknown for a name that this version does not know."""
        return _BY_NAME[cls].get(name.lower(), cls("Unknown"))  # type: ignore[return-value]


class GroupState(_KafkaName):
    """Where a group is in its life (``ConsumerGroupState``)."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


class GroupType(_KafkaName):
    """The protocol that the members speak (KIP-848)."""

    UNKNOWN = "Unknown"
    CONSUMER = "Consumer"
    CLASSIC = "Classic"
    SHARE = "Share"
    STREAMS = "Streams"


_BY_NAME: dict[type, dict[str, _KafkaName]] = {
    kind: {value.lower(): value for value in kind} for kind in (GroupState, GroupType)
}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as its coordinator lists it; state and type are None where an old broker does not say."""

    group_id: str
    is_simple: bool
    """Whether it only keeps offsets: no member ever joined it."""
    state: GroupState | None
    type: GroupType | None
    protocol: str
    """What its members call their protocol: ``consumer``, ``connect``; empty for a simple group."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member and the partitions that it reads."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: Sequence[TopicPartition]
    target_assignment: Sequence[TopicPartition] | None
    """What it is to read; None in a classic group, where the two are one."""
    member_epoch: int | None = None
    """The target that it has reached; None in a classic group."""
    upgraded: bool | None = None
    """Whether it speaks the consumer protocol; None in a classic group, and where the broker does not say."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group. A coordinator answers for a group that it does not know with the state Dead."""

    group_id: str
    is_simple: bool
    type: GroupType
    state: GroupState
    assignor: str
    coordinator: Broker
    members: Sequence[MemberDescription]
    group_epoch: int | None = None
    """Rises with every change of members, subscriptions or topics; None in a classic group."""
    target_assignment_epoch: int | None = None
    """The group epoch that the members' targets were made for; None in a classic group."""


class NotAConsumerGroupError(BarnabasError):
    """A group of something else than consumers, say of Kafka Connect's workers."""

    def __init__(self, group_id: str, protocol_type: str) -> None:
        super().__init__(f"GroupId {group_id} is not a consumer group ({protocol_type}).")

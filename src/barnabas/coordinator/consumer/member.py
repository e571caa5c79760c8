"""`ConsumerMember`: a member of a consumer group, what it subscribes to and what it has
(``ConsumerGroupMember``).

==============  ===================================================================================
STABLE          it has its target, or has not yet been compared with a newer one
UNREVOKED       it was asked to give partitions up and has not confirmed that it did
UNRELEASED      it gave up what it had to; other members still hold some of what it is to get
UNKNOWN         a later Kafka wrote a state that this version does not know; the member starts again
==============  ===================================================================================
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from barnabas.coordinator.consumer.assignment import NOTHING, Assignment, PartitionsOfTopic, pairs
from barnabas.coordinator.group import Client
from barnabas.core.ids import Uuid

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member is away, and will be back before its session ends."""

NEVER: Final[Mapping[Uuid, Mapping[int, int]]] = MappingProxyType({})

NOT_GIVEN: Final = -1
"""A time-out that a heartbeat leaves as it was."""


# What members ask and get.


def _any_topic(_name: str) -> bool:
    return True


class MemberHeartbeat(NamedTuple):
    """What a member says with ConsumerGroupHeartbeat: who it is, and what changed on its side.
    None and -1 change nothing.
    """

    group_id: str
    member_id: str
    member_epoch: int
    """`JOIN_EPOCH`, `LEAVE_EPOCH`, `STATIC_LEAVE_EPOCH`, or the epoch that the member was last told."""
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: Collection[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: Sequence[PartitionsOfTopic] | None
    """What it owns. Not an `Assignment` yet: how much it is has to be checked first."""
    client: Client
    may_describe: Callable[[str], bool] = _any_topic
    """Whether the client may see a topic; an expression is resolved to no others."""


class HeartbeatResult(NamedTuple):
    """The member as the group has it now."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    """When to send the next heartbeat; 0 for a member that leaves."""
    assignment: Assignment | None = None
    """What the member is to own; None where that has not changed since the last answer."""


# Members


class MemberState(IntEnum):
    """The state of a member; the value is written to the log (``MemberState``)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> "MemberState":
        return _BY_VALUE.get(value, cls.UNKNOWN)


_BY_VALUE: Final = {int(state): state for state in MemberState}


class ClassicTerms(NamedTuple):
    """What a member of the classic protocol brought in its JoinGroup (``ClassicMemberMetadata``)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and subscription of each assignor that it supports, the preferred first."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member; a change makes a new one, so a plan can be thrown away."""

    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Assignment = field(default_factory=lambda: NOTHING)
    pending_revocation: Assignment = field(default_factory=lambda: NOTHING)
    assignment_epochs: Mapping[Uuid, Mapping[int, int]] = field(default_factory=lambda: NEVER)
    """The epoch since which it has each partition that is assigned or to be given up (KIP-1251)."""
    classic: ClassicTerms | None = None
    """None for a member that speaks the consumer protocol."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def has_since(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch since which it has a partition without a break; None where it does not have it."""
        held = partition in self.assigned.get(topic_id, ()) or partition in self.pending_revocation.get(
            topic_id, ()
        )
        # A record of before Kafka 4.4 does not say: then not longer than the member has its epoch.
        return self.assignment_epochs.get(topic_id, {}).get(partition, self.member_epoch) if held else None

    def epochs_of(
        self, assigned: Assignment, pending_revocation: Assignment, epoch: int
    ) -> Mapping[Uuid, Mapping[int, int]]:
        """The epochs of what it has after a change: what is new to it, it has since `epoch`."""
        epochs: dict[Uuid, dict[int, int]] = {}
        for topic_id, partition in chain(pairs(assigned), pairs(pending_revocation)):
            since = self.has_since(topic_id, partition)
            epochs.setdefault(topic_id, {})[partition] = epoch if since is None else since
        return epochs

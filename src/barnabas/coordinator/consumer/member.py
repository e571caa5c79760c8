"""`ConsumerMember`: a member of a consumer group, what it wants and what it has (``ConsumerGroupMember``)."""

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypedDict, Unpack

from barnabas.coordinator.consumer.assignment import NOTHING, Assignment, assignment_of
from barnabas.coordinator.consumer.states import MemberState
from barnabas.coordinator.group import Client
from barnabas.protocol.coordinator.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member is away, and will be back before its session ends."""


class ClassicMember(NamedTuple):
    """What a member brought that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and subscription of each assignor that it supports, the preferred first."""


class Wishes(TypedDict, total=False):
    """What a heartbeat may change of a member; what it does not mention stays."""

    instance_id: str
    rack_id: str
    rebalance_timeout_ms: int
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str
    server_assignor: str


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
    classic: ClassicMember | None = None
    """None for a member that speaks the consumer protocol."""

    def asking(
        self, client: Client, classic: ClassicMember | None, **wishes: Unpack[Wishes]
    ) -> "ConsumerMember":
        """The member as its latest request describes it; itself when nothing is new."""
        values = {**wishes, "client_id": client.id, "client_host": client.host, "classic": classic}
        changed = {name: value for name, value in values.items() if getattr(self, name) != value}
        return replace(self, **changed) if changed else self  # type: ignore[arg-type]

    def at(
        self, epoch: int, state: MemberState, assigned: Assignment, pending_revocation: Assignment = NOTHING
    ) -> "ConsumerMember":
        """The member one step further; it may not have heard of its present epoch, so that is kept."""
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """With what a record says about who it is and what it wants."""
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMember(
                classic.session_timeout_ms,
                tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
            ),
        )

    def placed_by(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """With what a record says about where it stands."""
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=assignment_of(value.assigned_partitions),
            pending_revocation=assignment_of(value.partitions_pending_revocation),
        )

    def displaced(self) -> "ConsumerMember":
        """With nothing, at the epoch of one that left: what a tombstone of its assignment means."""
        return replace(
            self,
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            state=MemberState.STABLE,
            assigned=NOTHING,
            pending_revocation=NOTHING,
        )

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether it has the target of this epoch and is done with it."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

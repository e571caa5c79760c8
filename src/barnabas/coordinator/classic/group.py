"""`ClassicGroup`: one group of the classic protocol: its state, generation and members (``ClassicGroup``).

Theory of operation
-------------------
The group moves along `states.TRANSITIONS` and counts a generation each time its members have joined. This
module holds the group's state and answers questions about it; what requests do to it is in `join_group`,
`sync_group`, `groups` and `rebalance`. Parked requests hang on their members, the two timers of a rebalance
on the group, so that closing it is enough to leave nothing behind.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.coordinator.classic.members import (
    Answers,
    ClassicMember,
    ClassicMembers,
    JoinedMember,
    JoinResult,
    SyncResult,
    send,
)
from barnabas.coordinator.classic.states import TRANSITIONS, ClassicGroupState
from barnabas.coordinator.group import GroupType, OffsetExpiry
from barnabas.coordinator.runtime.journal import CoordinatorRecord, Journal
from barnabas.coordinator.runtime.session import Due
from barnabas.coordinator.settings import GroupSettings
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, IllegalTransitionError, KafkaError
from barnabas.core.fault_log import FaultLog
from barnabas.core.ids import TopicPartition
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.versioned import read_prefix

if TYPE_CHECKING:
    from barnabas.core.clock import Timer

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class ClassicGroup:
    """A group whose members agree among themselves (`coordinator.group.Group`)."""

    __slots__ = (
        "clock",
        "delayed_join",
        "delayed_sync",
        "due",
        "faults",
        "generation_id",
        "group_id",
        "journal",
        "members",
        "new_member_added",
        "protocol_name",
        "protocol_type",
        "settings",
        "state",
        "state_since_ms",
        "subscribed_topics",
        "unsynced",
        "waits_for_first_members",
    )

    def __init__(
        self,
        group_id: str,
        journal: Journal,
        clock: Clock,
        settings: GroupSettings,
        faults: FaultLog,
    ) -> None:
        self.group_id = group_id
        self.journal = journal
        self.clock = clock
        self.settings = settings
        self.faults = faults
        """The lines of the log about what its members did wrong."""
        self.state = ClassicGroupState.EMPTY
        self.state_since_ms: int | None = clock.time_ms()
        """None: read from a record of a version that does not say."""
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.members = ClassicMembers()
        self.due = Due()
        self.subscribed_topics: frozenset[str] | None = None
        """Of the current generation of consumers; None: not known."""
        self.delayed_join: Timer | None = None
        """The wait for JoinGroups (``DelayedJoin``, ``InitialDelayedJoin``)."""
        self.waits_for_first_members = False
        """The wait is an ``InitialDelayedJoin``, which does not end before its time:
        who is to come is not known.
        """
        self.new_member_added = False
        """A member came during such a wait."""
        self.delayed_sync: Timer | None = None
        """The wait for SyncGroups (``DelayedSync``)."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""

    # What kind of group it is

    @property
    def type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether the group is at rest without members; a group whose last member left may still be
        rebalancing.
        """
        return self.state is ClassicGroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now: not while one waits for members already."""
        return self.state in TRANSITIONS[ClassicGroupState.PREPARING_REBALANCE]

    @property
    def is_consumer_group(self) -> bool:
        """Whether its members speak the consumer protocol (and not that of Connect, say)."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def supports(self, protocol_type: str, protocols: set[str]) -> bool:
        """Whether a member that offers these can join: one of them must be common to all."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and self.members.support_any(protocols)

    # Moving on

    def transition_to(self, state: ClassicGroupState) -> None:
        """Moves along the table of states; IllegalTransitionError where the table has no such transition."""
        allowed = TRANSITIONS[state]
        if self.state not in allowed:
            raise IllegalTransitionError(
                f"group {self.group_id} should be in one of {', '.join(each.value for each in allowed)} "
                f"before moving to {state.value}; it is in {self.state.value}"
            )
        self.state = state
        self.state_since_ms = self.clock.time_ms()

    def init_next_generation(self) -> None:
        """``initNextGeneration``: counts the generation and chooses its protocol;
        it has the members that are there.
        """
        # A generation without members chooses no protocol: `select_protocol` needs a vote.
        self.generation_id += 1
        self.protocol_name = self.members.select_protocol() if self.members else None
        self.compute_subscribed_topics()
        self.unsynced.clear()
        self.transition_to(
            ClassicGroupState.COMPLETING_REBALANCE if self.members else ClassicGroupState.EMPTY
        )

    def compute_subscribed_topics(self) -> None:
        """``computeSubscribedTopics``: all topics that members of a consumer group subscribe to.

        None before the first generation, and where a member's metadata is not what consumers write. Only
        offsets need the topics: those that no member reads may expire (KIP-211) and may be deleted (KIP-496).
        """
        self.subscribed_topics = None
        # Connect's members, for instance, subscribe to no topics; before the first generation no protocol is
        # chosen.
        if not self.is_consumer_group or (self.members and self.protocol_name is None):
            return
        # Most members subscribe to the same, so equal bytes are read once.
        subscriptions = {member.metadata(self.protocol_name) for member in self.members}
        try:
            self.subscribed_topics = frozenset(
                topic for subscription in subscriptions for topic in _topics_of(subscription)
            )
        except ProtocolError as error:
            # A client that writes metadata of its own keeps its group; only the expiry of its offsets then
            # assumes that every topic is read (``computeSubscribedTopics`` does the same).
            self.faults.warning("classic.subscription_unreadable", protocol=self.protocol_name, error=error)

    # Who may do what

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member that makes a request. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID where another
        process has taken the place of the static member.
        """
        # KIP-345: the instance id is checked first, so that a process whose place was taken is fenced, and
        # does not take itself for a member whose session has ended.
        if group_instance_id is not None:
            current = self.members.static.get(group_instance_id)
            if current is not None and current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation_id: int) -> None:
        if generation_id != self.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_alive(self) -> None:
        # The group was given up while the request came: the client has to look for its coordinator again.
        if self.state is ClassicGroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # What offsets and listings ask (`Group`)

    def end_overdue_sessions(self, now_ms: float) -> None:
        # All members are walked only when one of them can be overdue: `due` is a lower bound.
        if now_ms >= self.due.at_ms:
            sessions = [member.session for member in self.members if member.session is not None]
            self.due.end_overdue(sessions, now_ms)

    def validate_offset_commit(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,  # noqa: ARG002 - the other kind of group looks at it
        partitions: Iterable[TopicPartition],  # noqa: ARG002 - so too
    ) -> None:
        """Raises KafkaError unless this member may commit; a sign of life where it is not transactional."""
        self.check_alive()
        if generation < 0 and self.is_empty:
            return  # an administrator, or a consumer that assigns itself
        # KIP-447: a transactional commit names its member, so that a consumer that lost its partitions cannot
        # commit what it has processed since.
        if generation < 0 and not member_id and group_instance_id is None:
            # Producers of older versions commit in transactions without saying for which member.
            if transactional:
                return
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_member(member_id, group_instance_id)
        self.check_generation(generation)
        if transactional:
            return
        # The member has joined the new generation and does not know its partitions yet. In PreparingRebalance
        # it may still commit: it owns what it owned until it joins again.
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        member.alive()

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Reads need no membership."""

    def validate_offset_delete(self) -> None:
        """Raises NON_EMPTY_GROUP where members are and the coordinator cannot know what they read."""
        # KIP-496: offsets of topics that no consumer reads can be deleted while the group has members. Of
        # other protocols nobody knows what the members read.
        if self.state is ClassicGroupState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self.is_empty and not self.is_consumer_group:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        """Raises NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND where the group was deleted already."""
        if self.state is ClassicGroupState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic; True as well where that cannot be known."""
        if self.is_empty:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def offset_expiry(self) -> OffsetExpiry | None:
        """KIP-211: after the group became empty; of topics that no member reads;
        by the age of each commit; or none.
        """
        # No member ever joined (a client that only commits): the age of each commit decides.
        if not self.protocol_type:
            return OffsetExpiry(None, frozenset())
        if self.is_empty:
            # The members have left: the retention begins at that moment for all offsets.
            return OffsetExpiry(self.state_since_ms, frozenset())
        if (
            # Only of a stable group is it known what all members read.
            self.is_consumer_group
            and self.state is ClassicGroupState.STABLE
            and self.subscribed_topics is not None
        ):
            return OffsetExpiry(None, self.subscribed_topics)
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """One, unless nothing was ever written: a group that only commits offsets has no record."""
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id))] if self.generation_id > 0 else []

    def close(self) -> None:
        """Dead: the timers end, and parked requests are answered with NOT_COORDINATOR."""
        self.transition_to(ClassicGroupState.DEAD)
        for delay in (self.delayed_join, self.delayed_sync):
            if delay is not None:
                delay.cancel()
        self.delayed_join = self.delayed_sync = None
        # Their clients have had their answer (MEMBER_ID_REQUIRED); only the timers are left.
        for member_id in list(self.members.pending):
            self.members.forget_pending(member_id)
        answers: Answers = []
        for member in self.members:
            if member.session is not None:
                member.session.end()
            answers += self.refuse_parked(member, ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
        send(answers)

    # Results

    def join_result(self, member: ClassicMember) -> JoinResult:
        """The current generation, as a member of it learns of it: only the leader gets to see all members."""
        members: Sequence[JoinedMember] = ()
        # The leader assigns for all, so it needs the metadata of all; nobody else does.
        if member.member_id == self.members.leader_id:
            members = [
                JoinedMember(each.member_id, each.group_instance_id, each.metadata(self.protocol_name))
                for each in self.members
            ]
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation_id,
            self.protocol_type,
            self.protocol_name,
            self.members.leader_id or "",
            members=members,
        )

    def sync_result(self, member: ClassicMember) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol_name, member.assignment)

    def propagate_assignment(self, code: ErrorCode) -> Answers:
        """``propagateAssignment``: the answers to parked SyncGroups: an error, or each member's part."""
        answers: Answers = []
        for member in self.members:
            parked, member.parked_sync = member.parked_sync, None
            if parked is not None:
                answers.append((parked, SyncResult(code) if code else self.sync_result(member)))
                # While the member was parked, the end of its session was ignored.
                member.alive()
        return answers

    def refuse_parked(self, member: ClassicMember, code: ErrorCode, *, member_id: str) -> Answers:
        """The answers, all errors, to what the member has parked; a JoinGroup's under this member id."""
        answers: Answers = []
        join = self.members.unpark_join(member)
        if join is not None:
            answers.append((join, JoinResult(code, member_id)))
        sync, member.parked_sync = member.parked_sync, None
        if sync is not None:
            answers.append((sync, SyncResult(code)))
        return answers

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id} {self.state.value} generation={self.generation_id} "
            f"members={len(self.members)}>"
        )


def _topics_of(subscription: bytes) -> list[str]:
    # Every version begins with the fields of version 0, versions that do not exist yet included.
    read_prefix(subscription, ConsumerProtocolSubscription.__name__)
    return ConsumerProtocolSubscription.decode(subscription, 0, 2)[0].topics

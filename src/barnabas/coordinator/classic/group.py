"""`ClassicGroup`: one group of the classic protocol: its state, generation and members (``GroupMetadata``).

Theory of operation
-------------------
The group moves along `states.TRANSITIONS` and counts a generation each time its members have joined. It holds
what it is and answers questions about it; what a request does to it is told in `joining`, `rebalancing` and
`syncing`. Parked requests hang on their members, the two waits of a rebalance (DelayedJoin, DelayedSync) on
the group, so that closing it is enough to leave nothing behind.
"""

from typing import TYPE_CHECKING

from barnabas.coordinator.classic.member import ClassicMember
from barnabas.coordinator.classic.membership import Membership
from barnabas.coordinator.classic.responses import Answers, failed_join, failed_sync, send
from barnabas.coordinator.classic.states import TRANSITIONS, GroupState, check_transition
from barnabas.coordinator.classic.subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from barnabas.coordinator.group import GroupType, OffsetExpiry
from barnabas.coordinator.runtime.journal import CoordinatorRecord, Journal
from barnabas.coordinator.runtime.session import Due
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey

if TYPE_CHECKING:
    from barnabas.coordinator.classic.delays import DelayedJoin, DelayedSync


class ClassicGroup:
    """A group whose members agree among themselves (`coordinator.group.Group`)."""

    __slots__ = (
        "_clock",
        "delayed_join",
        "delayed_sync",
        "due",
        "generation_id",
        "group_id",
        "journal",
        "members",
        "new_member_added",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "subscribed_topics",
        "unsynced",
    )

    def __init__(self, group_id: str, journal: Journal, clock: Clock) -> None:
        self._clock = clock
        self.group_id = group_id
        self.journal = journal
        self.state = GroupState.EMPTY
        self.state_since_ms: int | None = clock.time_ms()
        """None: read from a record that is too old to tell."""
        self.generation_id = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.members = Membership()
        self.due = Due()
        self.subscribed_topics: frozenset[str] | None = None
        """Of the current generation of consumers; None: not known."""
        self.delayed_join: DelayedJoin | None = None
        self.delayed_sync: DelayedSync | None = None
        self.unsynced: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.new_member_added = False
        """A member came while the very first generation waits for more (``InitialDelayedJoin``)."""

    # What kind of group it is

    @property
    def type(self) -> GroupType:
        """Its members speak the classic protocol."""
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        """The state as tools print it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether the group is at rest without members; one that rebalances to nobody is not, yet."""
        return self.state is GroupState.EMPTY

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now."""
        return self.state in TRANSITIONS[GroupState.PREPARING_REBALANCE]

    @property
    def is_consumer_group(self) -> bool:
        """Whether its members speak the consumer protocol (and not that of Connect, say)."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def supports(self, protocol_type: str, protocols: set[str]) -> bool:
        """Whether a member that offers these can join: one of them must be common to all."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return self.protocol_type == protocol_type and self.members.support_any(protocols)

    # Moving on

    def transition_to(self, state: GroupState) -> None:
        """Moves along the table of states; IllegalTransitionError where that has no such way."""
        check_transition(self.group_id, self.state, state)
        self.state = state
        self.state_since_ms = self._clock.time_ms()

    def init_next_generation(self) -> None:
        """All who will have joined: counts the generation and settles what it speaks."""
        self.generation_id += 1
        self.protocol_name = self.members.select_protocol() if self.members else None
        self.note_subscriptions()
        self.unsynced.clear()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY)

    def note_subscriptions(self) -> None:
        """Reads out of the members' metadata what they subscribe to, where it can be read."""
        self.subscribed_topics = subscribed_topics(self.protocol_type, self.protocol_name, self.members)

    # Who may do what

    def check_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member that makes a request. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for one whose
        place another process has taken.
        """
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
        """Raises ILLEGAL_GENERATION for any but the current one."""
        if generation_id != self.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_alive(self) -> None:
        """Raises COORDINATOR_NOT_AVAILABLE for a group that was just given up: the client looks again."""
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    # What offsets and listings ask (`Group`)

    def end_overdue_sessions(self, now_ms: float) -> None:
        """Removes members whose session is over though its timer has not run yet."""
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
    ) -> None:
        """Raises KafkaError unless this member may commit; a sign of life where it is not transactional."""
        self.check_alive()
        if generation < 0 and self.is_empty:
            return  # an administrator, or a consumer that assigns itself
        if generation < 0 and not member_id and group_instance_id is None:
            # Producers of older versions commit in transactions without saying for which member.
            if transactional:
                return
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_member(member_id, group_instance_id)
        self.check_generation(generation)
        if transactional:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        member.alive()

    def validate_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Everybody may read, members or not."""

    def validate_offset_delete(self) -> None:
        """Raises NON_EMPTY_GROUP where members are and the coordinator cannot know what they read."""
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self.is_empty and not self.is_consumer_group:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def validate_delete(self) -> None:
        """Raises NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND for one that is gone already."""
        if self.state is GroupState.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads this topic; True as well where that cannot be known."""
        if self.is_empty:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def offset_expiry(self) -> OffsetExpiry | None:
        """KIP-211: since the group is empty; what nobody reads any more; each commit for itself; or nothing."""
        if not self.protocol_type:
            return OffsetExpiry(None, frozenset())
        if self.is_empty:
            return OffsetExpiry(self.state_since_ms, frozenset())
        if self.is_consumer_group and self.state is GroupState.STABLE and self.subscribed_topics is not None:
            return OffsetExpiry(None, self.subscribed_topics)
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """One, unless nothing was ever written: a group that only commits offsets has no record."""
        return [CoordinatorRecord(GroupMetadataKey(group=self.group_id))] if self.generation_id > 0 else []

    def close(self) -> None:
        """Dead: the timers end, and whoever is parked learns that the coordinator is another."""
        self.transition_to(GroupState.DEAD)
        for delay in (self.delayed_join, self.delayed_sync):
            if delay is not None:
                delay.cancel()
        self.delayed_join = self.delayed_sync = None
        for member_id in list(self.members.pending):
            self.members.forget_pending(member_id)
        answers: Answers = []
        for member in self.members:
            if member.session is not None:
                member.session.end()
            answers += self.refuse_parked(member, ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
        send(answers)

    def refuse_parked(self, member: ClassicMember, code: ErrorCode, *, member_id: str) -> Answers:
        """The answers, all errors, to what the member has parked; a JoinGroup's under this member id."""
        answers: Answers = []
        join = self.members.unpark_join(member)
        if join is not None:
            answers.append((join.answer, failed_join(member_id, code, join.version)))
        sync, member.parked_sync = member.parked_sync, None
        if sync is not None:
            answers.append((sync, failed_sync(code)))
        return answers

    def __repr__(self) -> str:
        return (
            f"<ClassicGroup {self.group_id} {self.state.value} generation={self.generation_id} "
            f"members={len(self.members)}>"
        )

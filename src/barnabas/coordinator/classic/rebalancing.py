"""`Rebalances`: how a group gets from one generation to the next (``GroupCoordinator.prepareRebalance``).

Theory of operation
-------------------
Whatever changes a group ends here in one of two ways: it begins a rebalance (`prepare`), or it may have
brought the missing piece of the one that runs (`try_complete_join`). A rebalance waits twice, both times with
everybody's time-out (purgatory Rebalance): for the JoinGroups (`DelayedJoin`), then for the SyncGroups
(`DelayedSync`). Who does not come in time is no member any more, but for static members, whose place is kept
until their session ends (purgatory Heartbeat).

An answer may bring the next request of its client at once, before the call that sent it returns. So answers
are collected while the group changes and go out when it is at rest again.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.coordinator.classic.assignments import abandon
from barnabas.coordinator.classic.delays import DelayedJoin, DelayedSync, InitialDelayedJoin
from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.member import NO_MEMBER, ClassicMember
from barnabas.coordinator.classic.records import store
from barnabas.coordinator.classic.responses import Answers, generation_for, send
from barnabas.coordinator.classic.states import GroupState
from barnabas.coordinator.runtime.session import Session
from barnabas.coordinator.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog

REARM_MS_MIN: Final = 100
"""A wait that begins anew by itself takes at least this long, whatever time-out a member asked for: only static
members are missed then, and it must not spin until their sessions end."""

_log = EventLog("coordinator.classic")


class Rebalances:
    """The rebalances of all classic groups; the state is each group's own."""

    __slots__ = ("_clock", "_initial_delay_ms")

    def __init__(self, clock: Clock, initial_delay_ms: int) -> None:
        self._clock = clock
        self._initial_delay_ms = initial_delay_ms

    # Beginning

    def maybe_prepare(self, group: ClassicGroup, reason: str) -> None:
        """Begins a rebalance unless one is waiting for members already."""
        if group.can_rebalance:
            self.prepare(group, reason)

    def prepare(self, group: ClassicGroup, reason: str) -> None:
        """Begins a rebalance: from now on members are to join again, and are told so."""
        answers: Answers = []
        if group.state is GroupState.COMPLETING_REBALANCE:
            answers = abandon(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._end_sync_wait(group)
        initial = group.is_empty
        group.transition_to(GroupState.PREPARING_REBALANCE)
        _log.info(
            "classic.rebalance_begins", group=group.group_id, generation=group.generation_id, reason=reason
        )
        if initial:
            delay_ms = self._initial_delay_ms
            remaining_ms = max(group.members.rebalance_timeout_ms - delay_ms, 0)
            self._wait_initially(group, delay_ms, remaining_ms)
        else:
            self._wait_for_joins(group, group.members.rebalance_timeout_ms)
        send(answers)
        self.try_complete_join(group)

    def _wait_initially(self, group: ClassicGroup, delay_ms: float, remaining_ms: float) -> None:
        group.delayed_join = InitialDelayedJoin(
            self._clock, delay_ms, lambda: self._initial_wait_over(group), remaining_ms=remaining_ms
        )

    def _wait_for_joins(self, group: ClassicGroup, timeout_ms: float) -> None:
        group.delayed_join = DelayedJoin(self._clock, timeout_ms, lambda: self._complete_join(group))

    def _initial_wait_over(self, group: ClassicGroup) -> None:
        """Goes on waiting while members keep coming, up to the rebalance time-out (``InitialDelayedJoin``)."""
        wait = group.delayed_join
        assert isinstance(wait, InitialDelayedJoin), f"{group} does not wait for its first members"
        if group.new_member_added and wait.remaining_ms:
            group.new_member_added = False
            delay_ms = min(self._initial_delay_ms, wait.remaining_ms)
            self._wait_initially(group, delay_ms, max(wait.remaining_ms - wait.delay_ms, 0))
        else:
            self._complete_join(group)

    # Ending

    def try_complete_join(self, group: ClassicGroup) -> None:
        """Ends the wait for members if nobody is missed."""
        wait = group.delayed_join
        if wait is not None and wait.ends_early and group.members.all_joined:
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """Those who came are the next generation; without any static members may keep the group waiting."""
        if group.delayed_join is not None:
            group.delayed_join.cancel()
            group.delayed_join = None
        late = [member for member in group.members if member.parked_join is None and not member.is_static]
        for member in late:
            group.members.remove(member.member_id)
        if late:
            _log.info("classic.members_did_not_join", group=group.group_id, members=late)
        if not group.members.elect_joined_leader() and group.members:
            # Only sessions can tell whether they are gone, so the wait begins anew until these end.
            _log.warning("classic.nobody_joined", group=group.group_id)
            self._wait_for_joins(group, max(group.members.rebalance_timeout_ms, REARM_MS_MIN))
            return
        group.init_next_generation()
        if group.is_empty:
            # A failure costs nothing: the generation before, read again, would end as this one did.
            store(group, {})
            _log.info("classic.group_is_empty", group=group.group_id, generation=group.generation_id)
        else:
            self._begin_generation(group)

    def _begin_generation(self, group: ClassicGroup) -> None:
        """All members learn of it, the leader with everybody's metadata; then their SyncGroups are waited for."""
        _log.info(
            "classic.generation_begins",
            group=group.group_id,
            generation=group.generation_id,
            members=len(group.members),
        )
        answers: Answers = []
        for member in group.members:
            parked = group.members.unpark_join(member)
            if parked is not None:
                answers.append((parked.answer, generation_for(group, member, parked.version)))
            member.alive()
            member.is_new = False
            group.unsynced.add(member.member_id)
        self._wait_for_syncs(group)
        send(answers)

    def _wait_for_syncs(self, group: ClassicGroup) -> None:
        generation_id = group.generation_id
        group.delayed_sync = DelayedSync(
            self._clock,
            group.members.rebalance_timeout_ms,
            lambda: self._sync_wait_over(group, generation_id),
        )

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """The member has asked for its assignment."""
        group.unsynced.discard(member_id)
        if not group.unsynced:
            self._end_sync_wait(group)

    def _end_sync_wait(self, group: ClassicGroup) -> None:
        group.unsynced.clear()
        if group.delayed_sync is not None:
            group.delayed_sync.cancel()
            group.delayed_sync = None

    def _sync_wait_over(self, group: ClassicGroup, generation_id: int) -> None:
        """Whoever knows of the generation and never asked for its part does not live (``DelayedSync``)."""
        assert generation_id == group.generation_id, f"{group} waits for syncs of generation {generation_id}"
        silent = list(group.unsynced)
        answers = self._drop(group, silent)
        self.prepare(group, f"removing {silent}, who sent no SyncGroup in time")
        send(answers)

    # Members coming and going

    def add_member(self, group: ClassicGroup, member: ClassicMember, reason: str) -> None:
        """Takes in a member whose JoinGroup is parked, and begins a rebalance for it."""
        member.is_new = True
        if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = member.protocol_type
        group.members.add(member)
        # It cannot heartbeat before it knows its id, and a lost connection goes unnoticed while its JoinGroup
        # is parked; a client that gave up and tried again must not leave dead members behind for ever.
        self.watch(group, member).extend(NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.maybe_prepare(group, reason)

    def watch(self, group: ClassicGroup, member: ClassicMember) -> Session:
        """Gives the member a session, not running yet, whose end removes it."""
        member.session = Session(self._clock, lambda: self._member_is_silent(group, member), group.due)
        return member.session

    def remove_member(self, group: ClassicGroup, member: ClassicMember, reason: str) -> None:
        """The member is gone; the others share anew."""
        answers = self._drop(group, [member.member_id])
        self.maybe_prepare(group, reason)
        self.try_complete_join(group)
        send(answers)

    def refuse_member(self, group: ClassicGroup, member_id: str) -> None:
        """The group is full: the member loses its place, if it had one."""
        answers = self._drop(group, [member_id])
        self.try_complete_join(group)
        send(answers)

    def _drop(self, group: ClassicGroup, member_ids: Iterable[str]) -> Answers:
        answers: Answers = []
        for member_id in member_ids:
            member = group.members.get(member_id)
            if member is not None:
                # Kafka leaves a parked SyncGroup without an answer; here every request gets one.
                answers += group.refuse_parked(member, ErrorCode.UNKNOWN_MEMBER_ID, member_id=NO_MEMBER)
            group.members.remove(member_id)
            group.unsynced.discard(member_id)
        return answers

    def await_return(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """The id was given out; whoever has it shall come back with it in time (KIP-394)."""
        group.members.pending[member_id] = self._clock.call_later(
            timeout_ms, lambda: self.remove_pending(group, member_id)
        )

    def remove_pending(self, group: ClassicGroup, member_id: str) -> None:
        """Nobody will come with this id."""
        _log.info("classic.pending_member_gone", group=group.group_id, member=member_id)
        group.members.forget_pending(member_id)
        self.try_complete_join(group)

    def _member_is_silent(self, group: ClassicGroup, member: ClassicMember) -> None:
        if group.members.get(member.member_id) is not member:
            return
        if member.is_parked and not member.is_new:
            return  # the word is with the coordinator; the session begins anew with its answer
        _log.info("classic.member_failed", group=group.group_id, member=member.member_id)
        self.remove_member(group, member, f"removing member {member.member_id}, whose session ended")

    def __repr__(self) -> str:
        return f"<Rebalances initial_delay_ms={self._initial_delay_ms}>"

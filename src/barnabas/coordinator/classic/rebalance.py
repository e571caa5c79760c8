"""How a classic group gets from one generation to the next (``GroupCoordinator``, now
``GroupMetadataManager``).

Theory of operation
-------------------
Each change of a group ends here in one of two ways: it begins a rebalance (`prepare_rebalance`), or it may
be what a running one waits for (`try_complete_join`). A rebalance waits twice, both times with the time-out
of the slowest member (purgatory Rebalance): for the JoinGroups, then for the SyncGroups. Members that do not
come in time are removed, but for static members, whose place is kept until their session ends (purgatory
Heartbeat).

An answer may bring the next request of its client at once, before the call that sent it returns. So answers
are collected while the group changes and go out when it is at rest again.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.members import NO_MEMBER, Answers, ClassicMember, send
from barnabas.coordinator.classic.records import store
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.coordinator.runtime.session import Session
from barnabas.coordinator.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog

REARM_MS_MIN: Final = 100
"""A wait for static members alone begins again by itself, and takes at least this long, even if the members
asked for a time-out of 0 ms: it must not spin until their sessions end.
"""

_log = EventLog("coordinator.classic")


# Beginning


def maybe_prepare_rebalance(group: ClassicGroup, reason: str) -> None:
    """``maybePrepareRebalanceOrCompleteJoin`` (``maybePrepareRebalance``):
    unless one waits for members already.
    """
    if group.can_rebalance:
        prepare_rebalance(group, reason)


def prepare_rebalance(group: ClassicGroup, reason: str) -> None:
    """``prepareRebalance``: from now on members have to join again; their next request says so."""
    answers: Answers = []
    # Members that wait for the assignment of a generation that is over join again.
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        answers = reset_and_propagate_assignment_error(group, ErrorCode.REBALANCE_IN_PROGRESS)
    _end_sync_wait(group)
    initial = group.is_empty
    group.transition_to(ClassicGroupState.PREPARING_REBALANCE)
    _log.info("classic.rebalance_begins", group=group.group_id, generation=group.generation_id, reason=reason)
    if initial:
        # More members are likely to start at the same time: one generation for all instead of one for each.
        delay_ms = group.settings.initial_rebalance_delay_ms
        _wait_for_first_members(group, delay_ms, max(group.members.rebalance_timeout_ms - delay_ms, 0))
    else:
        _wait_for_joins(group, group.members.rebalance_timeout_ms)
    send(answers)
    # The answers, or the member that began the rebalance, may have brought all that is waited for.
    try_complete_join(group)


def reset_and_propagate_assignment_error(group: ClassicGroup, code: ErrorCode) -> Answers:
    """``resetAndPropagateAssignmentWithError``: the generation will not have its assignment."""
    assert group.state is ClassicGroupState.COMPLETING_REBALANCE, f"{group} has no assignment to come"
    for member in group.members:
        member.assignment = b""
    return group.propagate_assignment(code)


def _wait_for_joins(group: ClassicGroup, timeout_ms: float) -> None:
    """``DelayedJoin``: ends early when all members have joined."""
    # It cannot end early by itself: a caller looks for that when the group is at rest (`try_complete_join`).
    group.waits_for_first_members = False
    group.delayed_join = group.clock.call_later(timeout_ms, lambda: complete_join(group))


def _wait_for_first_members(group: ClassicGroup, delay_ms: float, remaining_ms: float) -> None:
    """``InitialDelayedJoin``: is extended while members keep coming, up to the rebalance time-out."""

    def over() -> None:
        # Somebody came during this delay, so others may be on their way: one delay more.
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            next_delay_ms = min(group.settings.initial_rebalance_delay_ms, remaining_ms)
            _wait_for_first_members(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
        else:
            complete_join(group)

    # `remaining_ms` is what is left of the slowest member's rebalance time-out when this delay is over.
    group.waits_for_first_members = True
    group.delayed_join = group.clock.call_later(delay_ms, over)


# Ending


def try_complete_join(group: ClassicGroup) -> None:
    """``maybeCompleteJoinPhase`` (``tryCompleteJoin``): ends the wait for members if none is missing."""
    if group.delayed_join is not None and not group.waits_for_first_members and group.members.all_joined:
        complete_join(group)


def complete_join(group: ClassicGroup) -> None:
    """``completeClassicGroupJoin`` (``onCompleteJoin``): the members that joined are the next generation."""
    if group.delayed_join is not None:
        group.delayed_join.cancel()
        group.delayed_join = None
    # A dynamic member that did not join in time is removed; a static one may be about to return.
    late = [member for member in group.members if member.parked_join is None and not member.is_static]
    for member in late:
        group.members.remove(member.member_id)
    if late:
        _log.info("classic.members_did_not_join", group=group.group_id, members=late)
    if not group.members.elect_joined_leader() and group.members:
        # Only static members are left, and none joined. Their sessions decide, so the wait begins again.
        group.faults.warning("classic.nobody_joined", group=group.group_id)
        _wait_for_joins(group, max(group.members.rebalance_timeout_ms, REARM_MS_MIN))
        return
    group.init_next_generation()
    # All have left: the generation without members is written, so that the offsets can expire.
    if group.is_empty:
        # A failure costs nothing: the generation before, read again, would end as this one did.
        store(group, {})
        _log.info("classic.group_is_empty", group=group.group_id, generation=group.generation_id)
        return
    _log.info(
        "classic.generation_begins",
        group=group.group_id,
        generation=group.generation_id,
        members=len(group.members),
    )
    # All members learn of the generation, the leader with the metadata of all; then they have to send
    # SyncGroup.
    answers: Answers = []
    for member in group.members:
        parked = group.members.unpark_join(member)
        if parked is not None:
            answers.append((parked, group.join_result(member)))
        member.alive()
        member.is_new = False
        group.unsynced.add(member.member_id)
    _wait_for_syncs(group)
    send(answers)


# The wait for SyncGroups


def _wait_for_syncs(group: ClassicGroup) -> None:
    """``schedulePendingSync`` (``DelayedSync``):
    a member that never asks for its part of the generation is removed.
    """
    generation_id = group.generation_id

    def expire_pending_sync() -> None:  # ``expirePendingSync``
        # Each way out of a generation cancels this timer, so an old one here would be a bug.
        assert generation_id == group.generation_id, f"{group} waits for syncs of generation {generation_id}"
        silent = list(group.unsynced)
        answers = _drop(group, silent)
        prepare_rebalance(group, f"removing {silent}, who sent no SyncGroup in time")
        send(answers)

    group.delayed_sync = group.clock.call_later(group.members.rebalance_timeout_ms, expire_pending_sync)


def remove_pending_sync(group: ClassicGroup, member_id: str) -> None:
    """``removePendingSyncMember``: the member has asked for its part."""
    group.unsynced.discard(member_id)
    if not group.unsynced:
        _end_sync_wait(group)


def _end_sync_wait(group: ClassicGroup) -> None:
    group.unsynced.clear()
    if group.delayed_sync is not None:
        group.delayed_sync.cancel()
        group.delayed_sync = None


# Members that come and go


def add_member(group: ClassicGroup, member: ClassicMember, reason: str) -> None:
    """``addMemberThenRebalanceOrCompleteJoin``: a new member, whose JoinGroup is parked."""
    member.is_new = True
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.generation_id == 0:
        # The wait for the first members is extended by one more delay (``newMemberAdded``).
        group.new_member_added = True
    # The first member decides the protocol type; `ClassicGroup.supports` holds the others to it.
    if not group.members:
        group.protocol_type = member.protocol_type
    group.members.add(member)
    # It cannot heartbeat before it knows its id, and a lost connection goes unnoticed while its JoinGroup is
    # parked. So its session runs from now: clients that gave up and tried again would leave dead members
    # behind.
    watch(group, member).extend(NEW_MEMBER_JOIN_TIMEOUT_MS)
    maybe_prepare_rebalance(group, reason)


def watch(group: ClassicGroup, member: ClassicMember) -> Session:
    """Gives the member a session, not running yet, whose end removes it."""
    member.session = Session(group.clock, lambda: _expire_heartbeat(group, member), group.due)
    return member.session


def _expire_heartbeat(group: ClassicGroup, member: ClassicMember) -> None:
    """``expireClassicGroupMemberHeartbeat`` (``onExpireHeartbeat``)."""
    # The member was removed after its timer had become due.
    if group.members.get(member.member_id) is not member:
        return
    if member.is_parked and not member.is_new:
        return  # it waits for an answer, and its session is counted from that answer
    _log.info("classic.member_failed", group=group.group_id, member=member.member_id)
    remove_member(group, member, f"removing member {member.member_id}, whose session ended")


def remove_member(group: ClassicGroup, member: ClassicMember, reason: str) -> None:
    """``removeMemberAndUpdateClassicGroup`` (``removeMemberAndUpdateGroup``):
    the others share what the member had.
    """
    # The leader may have been waiting for this member alone, and a group that becomes empty has to be
    # written.
    answers = _drop(group, [member.member_id])
    maybe_prepare_rebalance(group, reason)
    # No rebalance begins: the others are waiting already, or do not notice a member that never was one.
    try_complete_join(group)
    send(answers)


def refuse_member(group: ClassicGroup, member_id: str) -> None:
    """The group is full: the member loses its place, if it had one."""
    answers = _drop(group, [member_id])
    try_complete_join(group)
    send(answers)


def _drop(group: ClassicGroup, member_ids: Iterable[str]) -> Answers:
    answers: Answers = []
    for member_id in member_ids:
        member = group.members.get(member_id)
        if member is not None:
            # Kafka leaves a parked SyncGroup without an answer; here every request gets one.
            answers += group.refuse_parked(member, ErrorCode.UNKNOWN_MEMBER_ID, member_id=NO_MEMBER)
        # The id may also be one that was given out and not used yet, which has no member object.
        group.members.remove(member_id)
        group.unsynced.discard(member_id)
    return answers


def add_pending_member(group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
    """``addPendingMember``: the id was given out, and its client has to come back with it in time
    (KIP-394).
    """
    group.members.pending[member_id] = group.clock.call_later(
        timeout_ms, lambda: remove_pending_member(group, member_id)
    )


def remove_pending_member(group: ClassicGroup, member_id: str) -> None:
    """The client of this id will not come."""
    _log.info("classic.pending_member_gone", group=group.group_id, member=member_id)
    # A rebalance waits for ids that were given out too (`all_joined`).
    group.members.forget_pending(member_id)
    try_complete_join(group)

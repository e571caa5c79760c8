"""The assignment of a generation: handed out to those who wait for it, or given up (``propagateAssignment``)."""

from collections.abc import Mapping

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.responses import Answers, failed_sync, synced
from barnabas.coordinator.classic.states import GroupState
from barnabas.core.errors import ErrorCode


def hand_out(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Answers:
    """Every member has its part from now on, and the group is stable; the answers to those who wait."""
    for member in group.members:
        member.assignment = assignments[member.member_id]
    group.transition_to(GroupState.STABLE)
    return _answers(group, ErrorCode.NONE)


def abandon(group: ClassicGroup, code: ErrorCode) -> Answers:
    """The generation will not have its assignment; what is told to those who wait for it."""
    assert group.state is GroupState.COMPLETING_REBALANCE, f"{group} has no assignment to come"
    for member in group.members:
        member.assignment = b""
    return _answers(group, code)


def _answers(group: ClassicGroup, code: ErrorCode) -> Answers:
    answers: Answers = []
    for member in group.members:
        parked, member.parked_sync = member.parked_sync, None
        if parked is not None:
            told = failed_sync(code) if code else synced(group, member.assignment)
            answers.append((parked, told))
            # A session that ended while the member was parked went unnoticed; it begins anew.
            member.alive()
    return answers

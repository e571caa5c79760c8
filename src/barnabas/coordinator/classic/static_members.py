"""A static member comes back under a new member id and takes its old place (KIP-345, KIP-814).

Where it changes nothing that others would notice, no rebalance follows: the new id is written down, and the
member goes on with the assignment that it had. While that is being written its JoinGroup is parked in a stable
group; should a rebalance begin meanwhile, the member has joined it already.
"""

from typing import Final

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.member import NO_MEMBER, ClassicMember, MemberTerms, ParkedJoin
from barnabas.coordinator.classic.rebalancing import Rebalances
from barnabas.coordinator.classic.records import store
from barnabas.coordinator.classic.responses import generation_for, joined, send
from barnabas.coordinator.classic.states import GroupState
from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.protocol.messages.join_group import JoinGroupResponse

SKIP_ASSIGNMENT_SINCE: Final = 9
"""From this version on a returning leader can be told to lead and yet to leave the assignment alone."""


def replace_static_member(
    rebalances: Rebalances,
    group: ClassicGroup,
    member: ClassicMember,
    new_member_id: str,
    terms: MemberTerms,
    parked: ParkedJoin,
    reason: str,
) -> None:
    """Gives the member its new id and terms, fences whoever used the old one, and parks the JoinGroup."""
    before = _Before(group, member)
    fenced = group.refuse_parked(member, ErrorCode.FENCED_INSTANCE_ID, member_id=member.member_id)
    _rename(group, member, new_member_id)
    group.members.update(member, terms)
    group.members.park_join(member, parked)
    member.alive()
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The leader may assign to the old id already, and the new one would get nothing.
        rebalances.prepare(group, f"static member {new_member_id} returns; {reason}")
    elif group.state is GroupState.STABLE:
        if group.members.select_protocol() == group.protocol_name:
            _persist(group, member, parked, before)
        else:
            rebalances.prepare(group, f"static member {new_member_id} changes the protocol; {reason}")
    send(fenced)


class _Before:
    """What the group goes back to if the new id cannot be written down."""

    __slots__ = ("leader_id", "member_id", "terms")

    def __init__(self, group: ClassicGroup, member: ClassicMember) -> None:
        self.member_id = member.member_id
        self.terms = member.terms
        self.leader_id = group.members.leader_id

    def restore(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.members.update(member, self.terms)
        _rename(group, member, self.member_id)


def _rename(group: ClassicGroup, member: ClassicMember, new_member_id: str) -> None:
    if member.member_id in group.unsynced:
        group.unsynced.remove(member.member_id)
        group.unsynced.add(new_member_id)
    group.members.replace_static(member, new_member_id)


def _persist(group: ClassicGroup, member: ClassicMember, parked: ParkedJoin, before: _Before) -> None:
    generation_id = group.generation_id

    def stored(done: Pending[ErrorCode]) -> None:
        same_generation = group.state is GroupState.STABLE and group.generation_id == generation_id
        if member.parked_join is not parked or not same_generation:
            return  # answered with an error meanwhile, or part of a rebalance
        group.members.unpark_join(member)
        code = done.result()
        if code is not ErrorCode.NONE:
            before.restore(group, member)
        member.alive()
        send([(parked.answer, _answer(group, member, parked.version, before, code))])

    store(group, {each.member_id: each.assignment for each in group.members}).when_done(stored)


def _answer(
    group: ClassicGroup, member: ClassicMember, version: int, before: _Before, code: ErrorCode
) -> JoinGroupResponse:
    if code is not ErrorCode.NONE:
        response = joined(group, NO_MEMBER, version, leader=before.leader_id)
        response.error_code = code
        return response
    if version < SKIP_ASSIGNMENT_SINCE:
        # Named under its old id, a returning leader does not think that it leads, and assigns nothing:
        # the group is stable and would not listen.
        return joined(group, member.member_id, version, leader=before.leader_id)
    response = generation_for(group, member, version)
    response.skip_assignment = member.member_id == group.members.leader_id
    return response

"""SyncGroup: the leader brings the assignment, and each member gets its part of it (``classicGroupSync``)."""

from typing import Final, TypeAlias

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.members import SyncRequest, SyncResult, send
from barnabas.coordinator.classic.rebalance import (
    maybe_prepare_rebalance,
    remove_pending_sync,
    reset_and_propagate_assignment_error,
)
from barnabas.coordinator.classic.records import store
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending

SyncAnswer: TypeAlias = SyncResult | Pending[SyncResult]

ASSIGNMENTS_SPARE: Final = 1000
"""A leader may bring two assignments for each member and this number more, which are handled in one piece; a
SyncGroup with more is refused.
"""


def classic_group_sync(shard: Shard, request: SyncRequest) -> SyncAnswer:
    """``classicGroupSync`` (``handleSyncGroup``, ``doSyncGroup``): answered when the leader has brought the
    assignment.

    Raises KafkaError for a refusal.
    """
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_alive()
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    # KIP-559: a member that says which protocol it believes in must be right.
    if request.protocol_type not in {None, group.protocol_type} or request.protocol_name not in {
        None,
        group.protocol_name,
    }:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # The generation is over before its assignment came: the member joins again.
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    if group.state is ClassicGroupState.STABLE:
        # The assignment is there already: the member comes late, or lost the answer.
        remove_pending_sync(group, member.member_id)
        member.alive()
        return group.sync_result(member)
    if len(request.assignments) > 2 * len(group.members) + ASSIGNMENTS_SPARE:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    # CompletingRebalance: the member waits, and the leader's request ends the wait of all.
    answer: Pending[SyncResult] = Pending()
    replaced, member.parked_sync = member.parked_sync, answer
    remove_pending_sync(group, member.member_id)
    if member.member_id == group.members.leader_id:
        _store_assignment(group, request)
    if replaced is not None:
        # Sent again, most likely over a new connection: nothing reads the answer to the first one.
        send([(replaced, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))])
    return answer


def _store_assignment(group: ClassicGroup, request: SyncRequest) -> None:
    """Writes the assignment. It holds once the replicas have it, unless a rebalance began meanwhile."""
    missing = [member_id for member_id in group.members.ids if member_id not in request.assignments]
    if missing:
        group.faults.warning("classic.members_without_assignment", group=group.group_id, members=missing)
    assignments = {**request.assignments, **dict.fromkeys(missing, b"")}
    generation_id = group.generation_id

    def stored(done: Pending[ErrorCode]) -> None:
        code = done.result()
        # A rebalance began while the record was on its way: its members were answered then.
        if group.state is not ClassicGroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return
        if code is ErrorCode.NONE:
            # ``setAndPropagateAssignment``
            for member in group.members:
                member.assignment = assignments[member.member_id]
            group.transition_to(ClassicGroupState.STABLE)
            send(group.propagate_assignment(ErrorCode.NONE))
            return
        # No member may act on an assignment that the next coordinator would not know.
        answers = reset_and_propagate_assignment_error(group, code)
        maybe_prepare_rebalance(group, f"{code.name} when the assignment was to be written")
        send(answers)

    store(group, assignments).when_done(stored)

"""SyncGroup: the leader brings the assignment, everybody gets his part of it (``doSyncGroup``)."""

from typing import Final, TypeAlias

from barnabas.coordinator.classic.assignments import abandon, hand_out
from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.member import ClassicMember
from barnabas.coordinator.classic.rebalancing import Rebalances
from barnabas.coordinator.classic.records import store
from barnabas.coordinator.classic.responses import failed_sync, send, synced
from barnabas.coordinator.classic.states import GroupState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SyncAnswer: TypeAlias = SyncGroupResponse | Pending[SyncGroupResponse]

PROTOCOL_MANDATORY: Final = 5
"""From this version on a member says which protocol it believes in (KIP-559)."""

ASSIGNMENTS_SPARE: Final = 1000
"""So many assignments beyond two for each member are brought by no leader; they would be worked off in one piece."""

_log = EventLog("coordinator.classic")


class SyncRequests:
    """Handles SyncGroup; what it changes is the group's."""

    __slots__ = ("_rebalances",)

    def __init__(self, rebalances: Rebalances) -> None:
        self._rebalances = rebalances

    def sync(self, group: ClassicGroup, request: SyncGroupRequest) -> SyncAnswer:
        """The member's assignment, once there is one. Raises KafkaError for a member that is not of this
        generation, and REBALANCE_IN_PROGRESS when the next one is on its way.
        """
        group.check_alive()
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        _check_protocol(group, request)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        if group.state is GroupState.COMPLETING_REBALANCE:
            if len(request.assignments) > 2 * len(group.members) + ASSIGNMENTS_SPARE:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            return self._park(group, member, request)
        self._rebalances.synced(group, member.member_id)
        member.alive()
        return synced(group, member.assignment)

    def _park(self, group: ClassicGroup, member: ClassicMember, request: SyncGroupRequest) -> SyncAnswer:
        answer: Pending[SyncGroupResponse] = Pending()
        replaced, member.parked_sync = member.parked_sync, answer
        self._rebalances.synced(group, member.member_id)
        if member.member_id == group.members.leader_id:
            self._assign(group, request)
        if replaced is not None:
            # Sent again, over a new connection most likely: the first one's answer has nobody to read it.
            send([(replaced, failed_sync(ErrorCode.REBALANCE_IN_PROGRESS))])
        return answer

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest) -> None:
        """Writes the assignment down; it holds once the replicas have it and nothing else has happened."""
        brought = {each.member_id: each.assignment for each in request.assignments}
        missing = [member_id for member_id in group.members.ids if member_id not in brought]
        if missing:
            _log.warning("classic.members_without_assignment", group=group.group_id, members=missing)
        assignments = brought | dict.fromkeys(missing, b"")
        generation_id = group.generation_id

        def stored(done: Pending[ErrorCode]) -> None:
            code = done.result()
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return
            if code is ErrorCode.NONE:
                send(hand_out(group, assignments))
                return
            answers = abandon(group, code)
            self._rebalances.maybe_prepare(group, f"{code.name} when the assignment was to be written")
            send(answers)

        store(group, assignments).when_done(stored)


def _check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> None:
    believed = (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    )
    if any(name is not None and name != actual for name, actual in believed):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

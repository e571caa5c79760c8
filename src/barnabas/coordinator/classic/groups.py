"""`ClassicGroups`: the requests of the classic protocol, against the groups of a shard (``GroupCoordinator``).

Here a request meets its group, if there is one; what becomes of it then is told in `joining`, `syncing` and
`leaving`. Whether this broker coordinates the group at all was settled before.
"""

from collections.abc import Callable

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.joining import JoinAnswer, JoinRequests
from barnabas.coordinator.classic.leaving import leave, leave_response, leaving_members
from barnabas.coordinator.classic.rebalancing import Rebalances
from barnabas.coordinator.classic.records import group_of
from barnabas.coordinator.classic.responses import failed_join
from barnabas.coordinator.classic.states import GroupState
from barnabas.coordinator.classic.syncing import PROTOCOL_MANDATORY, SyncAnswer, SyncRequests
from barnabas.coordinator.group import Client
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest


class ClassicGroups:
    """Handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and reads the groups back from their records."""

    def __init__(self, settings: GroupSettings, clock: Clock, new_uuid: Callable[[], str]) -> None:
        self._settings = settings
        self._clock = clock
        self.rebalances = Rebalances(clock, settings.initial_rebalance_delay_ms)
        self._joins = JoinRequests(self.rebalances, new_uuid, settings.max_size)
        self._syncs = SyncRequests(self.rebalances)

    # The four requests

    def join(self, shard: Shard, client: Client, request: JoinGroupRequest, version: int) -> JoinAnswer:
        """Answered when the next generation has its members. Refusals are responses too, for they carry the
        member id that the client shall go on with.
        """
        timeout_ms = request.session_timeout_ms
        if not self._settings.min_session_timeout_ms <= timeout_ms <= self._settings.max_session_timeout_ms:
            return failed_join(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT, version)
        group = shard.groups.get(request.group_id)
        if group is None and not request.member_id:
            group = self.create_simple(shard, request.group_id)
        if group is None:
            return failed_join(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID, version)
        if not isinstance(group, ClassicGroup):
            return failed_join(request.member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, version)
        return self._joins.join(group, client, request, version)

    def sync(
        self,
        shard: Shard,
        client: Client,  # noqa: ARG002 - the four requests are called alike
        request: SyncGroupRequest,
        version: int,
    ) -> SyncAnswer:
        """Answered when the leader has brought the assignment. Raises KafkaError for a refusal."""
        if version >= PROTOCOL_MANDATORY and None in {request.protocol_type, request.protocol_name}:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return self._syncs.sync(_group(shard, request.group_id), request)

    def heartbeat(self, shard: Shard, request: HeartbeatRequest) -> HeartbeatResponse:
        """Begins the member's session anew; says whether it has to join again. Raises KafkaError."""
        group = _group(shard, request.group_id)
        group.check_alive()
        member = group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        member.alive()
        if group.state is GroupState.PREPARING_REBALANCE:
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatResponse(error_code=ErrorCode.NONE)

    def leave(self, shard: Shard, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        """Removes the members, each with its own result. Raises KafkaError for a group that is given up."""
        leaving = leaving_members(request, version)
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            return leave_response(leaving, [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving), version)
        group.check_alive()
        return leave_response(leaving, [leave(self.rebalances, group, each) for each in leaving], version)

    # What others need of the groups

    def create_simple(self, shard: Shard, group_id: str) -> ClassicGroup:
        """A group without members and protocol, as one is that only commits offsets."""
        group = ClassicGroup(group_id, shard.journal, self._clock)
        shard.groups[group_id] = group
        return group

    def describe(self, group: ClassicGroup) -> DescribedGroup:
        """As DescribeGroups tells it; the protocol and what members make of it only while it is settled."""
        protocol = group.protocol_name if group.state is GroupState.STABLE else None
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group.group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol or "",
            members=[member.described(protocol) for member in group.members],
        )

    # Loading

    def replay(self, shard: Shard, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Takes in a record of the partition; the last one of a group holds."""
        if value is not None:
            group = group_of(key, value, shard.journal, self._clock)
            for member in group.members:
                self.rebalances.watch(group, member)
            shard.groups[key.group] = group
        elif isinstance(shard.groups.get(key.group), ClassicGroup):
            del shard.groups[key.group]

    @steps
    def loaded(self, shard: Shard) -> Steps[None]:
        """The shard is read: members have their session time-out to be heard of, counted from now.

        In slices; the Pending tells when all sessions run.
        """
        slices = Slices(self._clock)
        for group in list(shard.groups.values()):
            if isinstance(group, ClassicGroup) and group.state is not GroupState.DEAD:
                self._begin_sessions(group)
            if slices.over():
                yield slices.next_turn()

    def _begin_sessions(self, group: ClassicGroup) -> None:
        for member in group.members:
            member.alive()
        if len(group.members) > self._settings.max_size:
            self.rebalances.maybe_prepare(group, "the group has more members than group.max.size allows")

    def __repr__(self) -> str:
        return f"<ClassicGroups {self.rebalances}>"


def _group(shard: Shard, group_id: str) -> ClassicGroup:
    """The group of a member; whoever says that it is in a group that is not there is not known."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group

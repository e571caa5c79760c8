"""Classic groups of a shard: how they come to be, how they are read back, and Heartbeat and LeaveGroup."""

from collections.abc import Callable, Sequence

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.members import LeavingMember
from barnabas.coordinator.classic.rebalance import (
    maybe_prepare_rebalance,
    remove_member,
    remove_pending_member,
    watch,
)
from barnabas.coordinator.classic.records import group_of
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.fault_log import FaultLog
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue


class ClassicGroups:
    """Makes classic groups, and reads them back from their records."""

    def __init__(self, settings: GroupSettings, clock: Clock, new_uuid: Callable[[], str]) -> None:
        self.settings = settings
        self.new_uuid = new_uuid
        self._clock = clock
        self._faults = FaultLog(clock, EventLog("coordinator.classic"), "classic")

    def close(self) -> None:
        """Says what is yet to be said of what members did wrong."""
        self._faults.close()

    def create_simple(self, shard: Shard, group_id: str) -> ClassicGroup:
        """A group without members and protocol; a group that only commits offsets stays so."""
        group = ClassicGroup(group_id, shard.journal, self._clock, self.settings, self._faults)
        shard.groups[group_id] = group
        return group

    def replay(self, shard: Shard, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Applies a record of the partition; the last record of a group holds."""
        if value is not None:
            # Each record describes a whole generation, so it replaces what an earlier record said.
            group = group_of(key, value, shard.journal, self._clock, self.settings, self._faults)
            for member in group.members:
                watch(group, member)
            shard.groups[key.group] = group
        # A classic group that became a group of KIP-848 leaves this tombstone too; the new group stays.
        elif isinstance(shard.groups.get(key.group), ClassicGroup):
            del shard.groups[key.group]

    @steps
    def loaded(self, shard: Shard) -> Steps[None]:
        """``onGroupLoaded``: the session time-out of each member is counted from now.

        In slices; the Pending is done when all sessions run.
        """
        slices = Slices(self._clock)
        for group in list(shard.groups.values()):
            if isinstance(group, ClassicGroup) and group.state is not ClassicGroupState.DEAD:
                for member in group.members:
                    # No heartbeat was counted while the partition was loaded, so no member may expire for its
                    # silence.
                    member.alive()
                # ``group.max.size`` was lowered: in a rebalance the members that join last are refused.
                if len(group.members) > self.settings.max_size:
                    maybe_prepare_rebalance(group, "the group has more members than group.max.size allows")
            if slices.over():
                yield slices.next_turn()


def classic_group_heartbeat(
    group: ClassicGroup, member_id: str, group_instance_id: str | None, generation_id: int
) -> ErrorCode:
    """``classicGroupHeartbeat`` (``handleHeartbeat``): REBALANCE_IN_PROGRESS where the member has to join
    again.

    Raises KafkaError for a refusal.
    """
    group.check_alive()
    member = group.check_member(member_id, group_instance_id)
    group.check_generation(generation_id)
    # Also while a rebalance waits for it: the member shows that it is alive, and learns here that it has to
    # join.
    member.alive()
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def classic_group_leave(shard: Shard, group_id: str, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
    """``classicGroupLeave`` (``handleLeaveGroup``): removes members, each with a result of its own.

    Raises KafkaError for a group that is given up.
    """
    group = shard.groups.get(group_id)
    # There is no group: each member has a code of its own (KIP-345), so all are answered.
    if not isinstance(group, ClassicGroup):
        return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
    group.check_alive()
    return [_leave(group, each) for each in leaving]


def _leave(group: ClassicGroup, leaving: LeavingMember) -> ErrorCode:
    # An administrator removes a static member by its instance id alone.
    member_id = leaving.member_id or group.members.static.get(leaving.group_instance_id or "", "")
    # KIP-394: the client gives up before it has joined with the id that it was given.
    if member_id in group.members.pending:
        remove_pending_member(group, member_id)
        return ErrorCode.NONE
    try:
        member = group.check_member(member_id, leaving.group_instance_id)
    except KafkaError as refused:
        return refused.code
    reason = f"LeaveGroup; client reason: {leaving.reason or 'not provided'}"
    remove_member(group, member, f"{member_id} leaves by {reason}")
    return ErrorCode.NONE

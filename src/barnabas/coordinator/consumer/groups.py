"""`ConsumerGroups`: consumer groups as the coordinator calls them (KIP-848).

What a request comes to is in `heartbeat` and `classic_members`; here are loading and changes of the metadata.
"""

from collections.abc import Sequence

from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.classic.members import (
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from barnabas.coordinator.consumer import regex
from barnabas.coordinator.consumer.classic_members import (
    classic_group_heartbeat_to_consumer_group,
    classic_group_join_to_consumer_group,
    classic_group_leave_to_consumer_group,
    classic_group_sync_to_consumer_group,
)
from barnabas.coordinator.consumer.description import ConsumerGroupDescription, describe
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.heartbeat import HeartbeatAnswer, consumer_group_heartbeat
from barnabas.coordinator.consumer.leaving import schedule_rebalance_timeout, timers_of
from barnabas.coordinator.consumer.member import MemberHeartbeat, MemberState
from barnabas.coordinator.consumer.plan import ConsumerRuntime
from barnabas.coordinator.consumer.replay import replay_record
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.group import Group
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue


class ConsumerGroups:
    """Handles ConsumerGroupHeartbeat, and the classic requests for consumer groups.

    Requests raise KafkaError for a refusal, and then nothing has changed.
    """

    def __init__(
        self,
        classic: ClassicGroups,
        group_configs: GroupConfigManager,
        clock: Clock,
        topics: TopicsImage,
    ) -> None:
        self._runtime = ConsumerRuntime(classic, group_configs, clock, topics)

    def consumer_heartbeat(self, shard: Shard, heartbeat: MemberHeartbeat) -> HeartbeatAnswer:
        return consumer_group_heartbeat(self._runtime, shard, heartbeat)

    def describe(self, group: Group) -> ConsumerGroupDescription:
        assert isinstance(group, ConsumerGroup), group
        return describe(group, self._runtime.default_assignor, self._runtime.topics)

    # The classic protocol

    def join(self, shard: Shard, request: JoinRequest) -> JoinResult | Pending[JoinResult]:
        return classic_group_join_to_consumer_group(self._runtime, shard, request)

    def sync(self, shard: Shard, request: SyncRequest) -> SyncResult | Pending[SyncResult]:
        return classic_group_sync_to_consumer_group(self._runtime, shard, request)

    def heartbeat(
        self, shard: Shard, group_id: str, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        return classic_group_heartbeat_to_consumer_group(
            self._runtime, shard, group_id, member_id, instance_id, generation_id
        )

    def leave(
        self, shard: Shard, group_id: str, leaving: Sequence[LeavingMember]
    ) -> list[ErrorCode] | Pending[list[ErrorCode]]:
        return classic_group_leave_to_consumer_group(self._runtime, shard, group_id, leaving)

    # Loading, and the cluster around

    def replay(self, shard: Shard, key: CoordinatorKey, value: CoordinatorValue | None) -> None:
        """Applies a record; the last one of a key holds. Raises UnknownRecordTypeError."""
        replay_record(shard, key, value)

    @steps
    def loaded(self, shard: Shard) -> Steps[None]:
        """``GroupMetadataManager.onLoaded``: sessions begin now. In slices; done when all sessions run."""
        runtime = self._runtime
        runtime.new_topics_ms = runtime.clock.time_ms()
        slices = Slices(runtime.clock)
        for group in list(shard.groups.values()):
            if isinstance(group, ConsumerGroup) and shard.groups.get(group.group_id) is group:
                session_ms = runtime.group_configs.of(group.group_id).session_timeout_ms
                for member in group.members.values():
                    timers = timers_of(runtime, shard, group, member.member_id)
                    # No heartbeat was counted during the load: every member gets a whole session.
                    timers.session.extend(session_ms)
                    # How much of its time was over is not written: it begins again too.
                    if member.state is MemberState.UNREVOKED_PARTITIONS:
                        schedule_rebalance_timeout(runtime, shard, group, member)
            if slices.over():
                yield slices.next_turn()

    def metadata_changed(self, shard: Shard, topics: set[str]) -> None:
        """``onNewMetadataImage``: groups that read these topics look at them again with their next
        heartbeat.
        """
        groups = [group for group in shard.groups.values() if isinstance(group, ConsumerGroup)]
        for group in groups:
            if group.subscriptions.reads_any(topics):
                group.request_metadata_refresh()
        # A new topic may match an expression; names are matched with the next heartbeats.
        if any(group.subscriptions.expressions for group in groups):
            regex.topics_changed(self._runtime, topics)

    def __repr__(self) -> str:
        return f"<ConsumerGroups {self._runtime!r}>"

"""`ConsumerGroups`: consumer groups as the coordinator calls them (KIP-848).

What a request comes to is in `heartbeat` and `classic_members`; here are loading and changes of the metadata.
"""

from collections.abc import Callable

from barnabas.coordinator.consumer import classic_members, regex
from barnabas.coordinator.consumer.description import describe
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.heartbeat import HeartbeatAnswer, consumer_group_heartbeat
from barnabas.coordinator.consumer.leaving import schedule_rebalance_timeout, timers_of
from barnabas.coordinator.consumer.member import MemberState
from barnabas.coordinator.consumer.plan import ConsumerRuntime
from barnabas.coordinator.consumer.replay import replay_record
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.group import Client, Group
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ConsumerGroups:
    """Handles ConsumerGroupHeartbeat, and the classic requests for consumer groups.

    Requests raise KafkaError for a refusal, and then nothing has changed.
    """

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        new_uuid: Callable[[], str],
        topics: TopicsImage,
    ) -> None:
        self._runtime = ConsumerRuntime(settings, clock, new_uuid, topics)

    def consumer_heartbeat(
        self, shard: Shard, client: Client, request: ConsumerGroupHeartbeatRequest, version: int
    ) -> HeartbeatAnswer:
        return consumer_group_heartbeat(self._runtime, shard, client, request, version)

    def describe(self, group: Group) -> DescribedGroup:
        assert isinstance(group, ConsumerGroup), group
        return describe(group, self._runtime.default_assignor, self._runtime.topics)

    # The classic protocol

    def join(
        self, shard: Shard, client: Client, request: JoinGroupRequest, version: int
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        return classic_members.classic_group_join(self._runtime, shard, client, request, version)

    def sync(
        self,
        shard: Shard,
        client: Client,  # noqa: ARG002 - the four requests are called alike
        request: SyncGroupRequest,
        version: int,  # noqa: ARG002
    ) -> SyncGroupResponse | Pending[SyncGroupResponse]:
        return classic_members.classic_group_sync(self._runtime, shard, request)

    def heartbeat(self, shard: Shard, request: HeartbeatRequest) -> HeartbeatResponse:
        return classic_members.classic_group_heartbeat(self._runtime, shard, request)

    def leave(
        self, shard: Shard, request: LeaveGroupRequest, version: int
    ) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
        return classic_members.classic_group_leave(self._runtime, shard, request, version)

    # Loading, and the cluster around

    def replay(self, shard: Shard, key: CoordinatorKey, value: CoordinatorValue | None) -> None:
        """Applies a record of types 3-8 and 16; the last one of a key holds."""
        replay_record(shard, key, value)

    @steps
    def loaded(self, shard: Shard) -> Steps[None]:
        """``GroupMetadataManager.onLoaded``: sessions begin now. In slices; done when all sessions run."""
        runtime = self._runtime
        runtime.new_topics_ms = runtime.clock.time_ms()
        slices = Slices(runtime.clock)
        for group in list(shard.groups.values()):
            if isinstance(group, ConsumerGroup) and shard.groups.get(group.group_id) is group:
                for member in group.members.values():
                    timers = timers_of(runtime, shard, group, member.member_id)
                    timers.session.extend(runtime.settings.consumer_session_timeout_ms)
                    if member.state is MemberState.UNREVOKED_PARTITIONS:
                        schedule_rebalance_timeout(runtime, shard, group, member)
            if slices.over():
                yield slices.next_turn()

    def metadata_changed(self, shard: Shard, topics: set[str]) -> None:
        """``onNewMetadataImage``: groups that read these topics look at them again with their next heartbeat."""
        groups = [group for group in shard.groups.values() if isinstance(group, ConsumerGroup)]
        for group in groups:
            if group.subscriptions.reads_any(topics):
                group.request_metadata_refresh()
        if any(group.subscriptions.expressions for group in groups):
            regex.topics_changed(self._runtime, topics)

    def __repr__(self) -> str:
        return f"<ConsumerGroups {self._runtime!r}>"

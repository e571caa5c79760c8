"""`ConsumerGroups`: the requests of consumer groups, against the groups of a shard (KIP-848).

Here the parts are put together; what becomes of a request is told in `heartbeats` and `classic_members`, what
follows from it in `advancing`, `target_assignment` and `reconciliation`, and `plan` writes it down.
"""

from collections.abc import Callable

from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.consumer.advancing import Advancement
from barnabas.coordinator.consumer.classic_members import ClassicMembers
from barnabas.coordinator.consumer.departures import Departures
from barnabas.coordinator.consumer.description import describe
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.heartbeats import HeartbeatAnswer, Heartbeats
from barnabas.coordinator.consumer.lookups import Lookups
from barnabas.coordinator.consumer.membership import Membership
from barnabas.coordinator.consumer.plan import Writer
from barnabas.coordinator.consumer.replay import replay_record
from barnabas.coordinator.consumer.states import MemberState
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
    """Handles ConsumerGroupHeartbeat, and the classic requests for consumer groups."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        new_uuid: Callable[[], str],
        topics: TopicsImage,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._topics = topics
        self._advancement = Advancement(settings, clock, topics)
        # Groups may come from the classic protocol and turn into it. Groups live in their shard, so whose
        # `ClassicGroups` lays hands on them makes no difference.
        classic = ClassicGroups(settings, clock, new_uuid)
        writer = Writer(classic.replay)
        self._departures = Departures(
            settings, clock, topics, advancement=self._advancement, writer=writer, classic=classic
        )
        membership = Membership(settings, topics, self._departures)
        self._lookups = Lookups(clock, topics, advancement=self._advancement, writer=writer)
        self._heartbeats = Heartbeats(
            settings,
            clock,
            new_uuid,
            advancement=self._advancement,
            membership=membership,
            departures=self._departures,
            lookups=self._lookups,
            writer=writer,
        )
        self._classic_members = ClassicMembers(
            settings,
            new_uuid,
            topics,
            advancement=self._advancement,
            membership=membership,
            departures=self._departures,
            writer=writer,
            classic=classic,
        )

    # The consumer protocol

    def consumer_heartbeat(
        self, shard: Shard, client: Client, request: ConsumerGroupHeartbeatRequest, version: int
    ) -> HeartbeatAnswer:
        """A member joins, lives or leaves. Raises KafkaError for a refusal."""
        return self._heartbeats.handle(shard, client, request, version)

    def describe(self, group: Group) -> DescribedGroup:
        """As ConsumerGroupDescribe tells it."""
        assert isinstance(group, ConsumerGroup), group
        return describe(group, self._advancement.default_assignor, self._topics)

    # The classic protocol

    def join(
        self, shard: Shard, client: Client, request: JoinGroupRequest, version: int
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        """A classic member joins; answered at once. Raises KafkaError for a refusal."""
        return self._classic_members.join(shard, client, request, version)

    def sync(
        self,
        shard: Shard,
        client: Client,  # noqa: ARG002 - the four requests are called alike
        request: SyncGroupRequest,
        version: int,  # noqa: ARG002
    ) -> SyncGroupResponse | Pending[SyncGroupResponse]:
        """A classic member fetches its assignment. Raises KafkaError for a refusal."""
        return self._classic_members.sync(shard, request)

    def heartbeat(self, shard: Shard, request: HeartbeatRequest) -> HeartbeatResponse:
        """A classic member lives. Raises KafkaError for a refusal."""
        return self._classic_members.heartbeat(shard, request)

    def leave(
        self, shard: Shard, request: LeaveGroupRequest, version: int
    ) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
        """Members go, or are removed by an administrator, each with its own result."""
        return self._classic_members.leave(shard, request, version)

    # Loading, and the cluster around

    def replay(self, shard: Shard, key: CoordinatorKey, value: CoordinatorValue | None) -> None:
        """Takes in a record of types 3-8 and 16; the last one of a key holds."""
        replay_record(shard, key, value)

    @steps
    def loaded(self, shard: Shard) -> Steps[None]:
        """The shard is read: members have a session to be heard of, counted from now.

        In slices; the Pending tells when all sessions run.
        """
        self._lookups.look_again()
        slices = Slices(self._clock)
        for group in list(shard.groups.values()):
            if isinstance(group, ConsumerGroup) and shard.groups.get(group.group_id) is group:
                self._begin_sessions(shard, group)
            if slices.over():
                yield slices.next_turn()

    def _begin_sessions(self, shard: Shard, group: ConsumerGroup) -> None:
        for member in group.members.values():
            timers = self._departures.timers(shard, group, member.member_id)
            timers.session.extend(self._settings.consumer_session_timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._departures.expect_revocation(shard, group, member)

    def metadata_changed(self, shard: Shard, topics: set[str]) -> None:
        """The controller has told something of these topics; groups that read them look again."""
        groups = [group for group in shard.groups.values() if isinstance(group, ConsumerGroup)]
        for group in groups:
            if group.subscriptions.reads_any(topics):
                group.request_metadata_refresh()
        if any(group.subscriptions.expressions for group in groups):
            self._lookups.topics_changed(topics)

    def __repr__(self) -> str:
        return f"<ConsumerGroups assignors={list(self._advancement.assignors)}>"

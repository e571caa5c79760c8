"""ConsumerGroupHeartbeat: members join, live and leave (``GroupMetadataManager.consumerGroupHeartbeat``)."""

from collections.abc import Callable

from barnabas.coordinator.consumer.advancing import Advancement
from barnabas.coordinator.consumer.assignment import Assignment, assignment_of
from barnabas.coordinator.consumer.departures import Departures
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.lookups import Lookups
from barnabas.coordinator.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    Wishes,
)
from barnabas.coordinator.consumer.membership import Membership
from barnabas.coordinator.consumer.plan import Plan, Writer
from barnabas.coordinator.consumer.states import MemberState
from barnabas.coordinator.consumer.validation import (
    NOT_GIVEN,
    check_epoch,
    check_request,
    check_size,
    known_member,
)
from barnabas.coordinator.group import Client
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.pending import Pending
from barnabas.protocol.messages.consumer_group_heartbeat import Assignment as ToldAssignment
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

HeartbeatAnswer = ConsumerGroupHeartbeatResponse | Pending[ConsumerGroupHeartbeatResponse]


class Heartbeats:
    """Handles the one request of the consumer protocol."""

    def __init__(
        self,
        settings: GroupSettings,
        clock: Clock,
        new_uuid: Callable[[], str],
        *,
        advancement: Advancement,
        membership: Membership,
        departures: Departures,
        lookups: Lookups,
        writer: Writer,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._new_uuid = new_uuid
        self._advancement = advancement
        self._membership = membership
        self._departures = departures
        self._lookups = lookups
        self._writer = writer

    def handle(
        self, shard: Shard, client: Client, request: ConsumerGroupHeartbeatRequest, version: int
    ) -> HeartbeatAnswer:
        """One heartbeat. Raises KafkaError for a refusal, and then nothing has changed."""
        if self._is_mere_sign_of_life(shard, client, request):
            return ConsumerGroupHeartbeatResponse(
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                heartbeat_interval_ms=self._settings.consumer_heartbeat_interval_ms,
            )
        check_request(request, version, self._advancement.assignors)
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(shard, request)
        return self._live(shard, client, request)

    def _is_mere_sign_of_life(
        self, shard: Shard, client: Client, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        """Whether nothing is new on either side; then the session runs on, and that is all.

        Nearly all heartbeats are like this, so the whole way is not gone for them; it would end the same.
        """
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ConsumerGroup) or not _says_nothing(request):
            return False
        member = group.members.get(request.member_id)
        if (
            member is None
            or member.member_epoch != request.member_epoch
            or member.instance_id != request.instance_id
            or client != (member.client_id, member.client_host)
            or member.classic is not None
            or not group.is_at_rest(member, self._clock.monotonic_ms())
        ):
            return False
        timers = self._departures.timers(shard, group, request.member_id)
        timers.session.extend(self._settings.consumer_session_timeout_ms)
        return True

    def _leave(self, shard: Shard, request: ConsumerGroupHeartbeatRequest) -> HeartbeatAnswer:
        group = self._membership.consumer_group(shard, request.group_id)
        member = known_member(group, request.member_id, request.instance_id)
        answer = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            return self._departures.leave_for_a_while(shard, group, member, answer)
        return self._departures.leave(shard, group, (member,), answer)

    def _live(self, shard: Shard, client: Client, request: ConsumerGroupHeartbeatRequest) -> HeartbeatAnswer:
        joining = request.member_epoch == JOIN_EPOCH
        plan = self._membership.plan_for(shard, request.group_id, joining=joining)
        check_size(plan.group, request.member_id, self._settings.consumer_max_size)
        member_id = request.member_id or self._new_uuid()
        owned = None if request.topic_partitions is None else assignment_of(request.topic_partitions)
        old = self._member(plan, request, member_id, owned)
        asking = old.asking(client, None, **_wishes(request))
        new = self._advancement.plan(plan, old, asking, owned)
        self._plan_timers(plan, shard, old, new)
        return self._writer.write(shard, plan, self._answer(request, old, new))

    def _member(
        self, plan: Plan, request: ConsumerGroupHeartbeatRequest, member_id: str, owned: Assignment | None
    ) -> ConsumerMember:
        """Whom the request speaks of. Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID or
        UNRELEASED_INSTANCE_ID.
        """
        if request.member_epoch == JOIN_EPOCH:
            if request.instance_id is not None:
                return self._membership.plan_static(plan, member_id, request.instance_id, consumer=True)
            return plan.group.members.get(member_id) or ConsumerMember(member_id)
        member = known_member(plan.group, member_id, request.instance_id)
        check_epoch(member, request.member_epoch, owned)
        return member

    def _plan_timers(self, plan: Plan, shard: Shard, old: ConsumerMember, new: ConsumerMember) -> None:
        def follow(group: ConsumerGroup) -> None:
            timers = self._departures.timers(shard, group, new.member_id)
            timers.session.extend(self._settings.consumer_session_timeout_ms)
            if new.state is not MemberState.UNREVOKED_PARTITIONS:
                timers.rebalance.clear()
            elif new.pending_revocation != old.pending_revocation:
                self._departures.expect_revocation(shard, group, new)
            if group.subscriptions.expressions:
                self._lookups.begin_if_due(shard, group)

        plan.effects.append(follow)

    def _answer(
        self, request: ConsumerGroupHeartbeatRequest, old: ConsumerMember, new: ConsumerMember
    ) -> ConsumerGroupHeartbeatResponse:
        """The assignment goes along when it changed, and when the member says all about itself."""
        told = None
        if _is_full(request) or new.assigned != old.assigned:
            told = ToldAssignment(
                topic_partitions=[
                    TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                    for topic_id, partitions in new.assigned.items()
                ]
            )
        return ConsumerGroupHeartbeatResponse(
            member_id=new.member_id,
            member_epoch=new.member_epoch,
            heartbeat_interval_ms=self._settings.consumer_heartbeat_interval_ms,
            assignment=told,
        )


def _says_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.member_epoch > JOIN_EPOCH
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == NOT_GIVEN
        and request.rack_id is None
        and request.server_assignor is None
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    if request.member_epoch == JOIN_EPOCH:
        return True
    subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return subscribed and request.rebalance_timeout_ms != NOT_GIVEN and request.topic_partitions is not None


def _wishes(request: ConsumerGroupHeartbeatRequest) -> Wishes:
    wishes = Wishes()
    if request.instance_id is not None:
        wishes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        wishes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != NOT_GIVEN:
        wishes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        wishes["server_assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        wishes["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        wishes["subscribed_topic_regex"] = request.subscribed_topic_regex
    return wishes

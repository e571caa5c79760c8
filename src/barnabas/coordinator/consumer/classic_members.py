"""Members of a consumer group that speak the classic protocol (``classicGroupJoinToConsumerGroup``).

Such a member is led through the same states, only with other words: JoinGroup is its full heartbeat, and the
generation that it gets is its member epoch; SyncGroup fetches what it has been assigned; Heartbeat tells it
to join again when it has to give partitions up, when it may have more, and when the group has moved on.
There is no leader, and nobody waits for anybody.
"""

from collections.abc import Callable

from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.classic.leaving import leave_response, leaving_members
from barnabas.coordinator.classic.responses import failed_join
from barnabas.coordinator.consumer.advancing import Advancement
from barnabas.coordinator.consumer.conversion import by_id, classic_assignment
from barnabas.coordinator.consumer.departures import Departures
from barnabas.coordinator.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.coordinator.consumer.member import ClassicMember, ConsumerMember, Wishes
from barnabas.coordinator.consumer.membership import Membership
from barnabas.coordinator.consumer.plan import Plan, Writer
from barnabas.coordinator.consumer.states import MemberState
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.consumer.validation import check_size, known_member
from barnabas.coordinator.group import Client
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_VERSION = 4
"""From here on a dynamic member must come with an id (KIP-394)."""


class ClassicMembers:
    """Handles the four requests of the classic protocol for consumer groups."""

    def __init__(
        self,
        settings: GroupSettings,
        new_uuid: Callable[[], str],
        topics: TopicsImage,
        *,
        advancement: Advancement,
        membership: Membership,
        departures: Departures,
        writer: Writer,
        classic: ClassicGroups,
    ) -> None:
        self._settings = settings
        self._new_uuid = new_uuid
        self._topics = topics
        self._advancement = advancement
        self._membership = membership
        self._departures = departures
        self._writer = writer
        self._classic = classic

    # Joining

    def join(
        self, shard: Shard, client: Client, request: JoinGroupRequest, version: int
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        """Answered at once, with the epoch that the member has reached. Raises KafkaError."""
        self._check_session(request)
        group = self._membership.consumer_group(shard, request.group_id)
        if group.is_empty:
            return self._join_classic_group(shard, group, client, request, version)
        member_id = request.member_id or self._new_uuid()
        check_size(group, member_id, self._settings.consumer_max_size)
        names = frozenset(protocol.name for protocol in request.protocols)
        if not group.supports_protocols(request.protocol_type, names):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
            )
        if version >= MEMBER_ID_VERSION and not request.member_id and request.group_instance_id is None:
            return failed_join(member_id, ErrorCode.MEMBER_ID_REQUIRED, version)
        return self._join(shard, Plan(group), client, request, member_id)

    def _check_session(self, request: JoinGroupRequest) -> None:
        settings = self._settings
        if not (
            settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms
        ):
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def _join_classic_group(
        self,
        shard: Shard,
        group: ConsumerGroup,
        client: Client,
        request: JoinGroupRequest,
        version: int,
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        """An empty consumer group becomes a classic one for whoever comes like this."""
        if request.member_id:
            group.member(request.member_id)
        plan = Plan(group)
        plan.records += group.tombstones()
        self._writer.write(shard, plan, None)
        return self._classic.join(shard, client, request, version)

    def _join(
        self, shard: Shard, plan: Plan, client: Client, request: JoinGroupRequest, member_id: str
    ) -> JoinGroupResponse | Pending[JoinGroupResponse]:
        old = self._member(plan, request, member_id)
        subscription = _subscription(request)
        protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
        wishes = Wishes(
            subscribed_topic_names=frozenset(subscription.topics),
            subscribed_topic_regex="",  # classic members do not subscribe like this
            rebalance_timeout_ms=_rebalance_timeout_ms(request),
        )
        if request.group_instance_id is not None:
            wishes["instance_id"] = request.group_instance_id
        if subscription.rack_id is not None:
            wishes["rack_id"] = subscription.rack_id
        asking = old.asking(client, ClassicMember(request.session_timeout_ms, protocols), **wishes)
        owned = by_id(subscription.owned_partitions, self._topics)
        new = self._advancement.plan(plan, old, asking, owned)
        plan.effects.append(lambda group: self._follow_join(shard, group, request, new))
        replaced = plan.group.static_member(request.group_instance_id)
        if replaced is not None and replaced.classic is None:
            plan.afterwards.append(lambda: self._departures.downgrade(shard, plan.group.group_id))
        answer = JoinGroupResponse(
            member_id=new.member_id,
            generation_id=new.member_epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=protocols[0][0],
        )
        return self._writer.write(shard, plan, answer)

    def _member(self, plan: Plan, request: JoinGroupRequest, member_id: str) -> ConsumerMember:
        instance_id = request.group_instance_id
        if instance_id is None:
            return plan.group.members.get(member_id) or ConsumerMember(member_id)
        if not request.member_id:
            return self._membership.plan_static(plan, member_id, instance_id, consumer=False)
        return known_member(plan.group, member_id, instance_id)

    def _follow_join(
        self, shard: Shard, group: ConsumerGroup, request: JoinGroupRequest, member: ConsumerMember
    ) -> None:
        timers = self._departures.timers(shard, group, member.member_id)
        timers.join.clear()
        timers.rebalance.clear()
        timers.session.extend(request.session_timeout_ms)
        self._departures.expect_sync(shard, group, member.member_id, _rebalance_timeout_ms(request))

    # Between joins

    def sync(self, shard: Shard, request: SyncGroupRequest) -> SyncGroupResponse | Pending[SyncGroupResponse]:
        """What the member has been assigned, once that is sure to last. Raises KafkaError."""
        group, member, classic = self._find(
            shard, request.group_id, request.member_id, request.group_instance_id
        )
        _check_generation(member, request.generation_id)
        _check_protocol(classic, request)
        if group.epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._departures.expect_join(shard, group, member)
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should "
                "rejoin to catch up.",
            )
        timers = self._departures.timers(shard, group, member.member_id)
        timers.sync.clear()
        timers.session.extend(classic.session_timeout_ms)
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=classic_assignment(member.assigned, classic.protocols[0][1], self._topics),
        )
        return self._writer.write(shard, Plan(group), answer)

    def heartbeat(self, shard: Shard, request: HeartbeatRequest) -> HeartbeatResponse:
        """Whether the member has to join again. Raises KafkaError."""
        group, member, classic = self._find(
            shard, request.group_id, request.member_id, request.group_instance_id
        )
        _check_generation(member, request.generation_id)
        self._departures.timers(shard, group, member.member_id).session.extend(classic.session_timeout_ms)
        if not _must_rejoin(group, member):
            return HeartbeatResponse()
        self._departures.expect_join(shard, group, member)
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    def _find(
        self, shard: Shard, group_id: str, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerGroup, ConsumerMember, ClassicMember]:
        group = shard.groups.get(group_id)
        assert isinstance(group, ConsumerGroup), f"{group} was asked like a consumer group"
        member = known_member(group, member_id, instance_id)
        if member.classic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member.member_id} does not use the classic protocol.",
            )
        return group, member, member.classic

    # Leaving

    def leave(
        self, shard: Shard, request: LeaveGroupRequest, version: int
    ) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
        """Members go, or an administrator removes them, whichever protocol they speak."""
        group = self._membership.consumer_group(shard, request.group_id)
        leaving = leaving_members(request, version)
        members: dict[str, ConsumerMember] = {}
        codes = []
        for each in leaving:
            try:
                member = _leaving_member(group, each)
            except KafkaError as refused:
                codes.append(refused.code)
            else:
                members[member.member_id] = member
                codes.append(ErrorCode.NONE)
        return self._departures.leave(
            shard, group, list(members.values()), leave_response(leaving, codes, version)
        )


def _leaving_member(group: ConsumerGroup, leaving: MemberIdentity) -> ConsumerMember:
    if leaving.member_id or leaving.group_instance_id is None:
        return known_member(group, leaving.member_id, leaving.group_instance_id)
    member = group.static_member(leaving.group_instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {leaving.group_instance_id} is unknown.")
    return member


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    # Version 0 knows one time-out for both.
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return ConsumerProtocolSubscription.from_bytes(request.protocols[0].metadata)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Malformed embedded consumer protocol in subscription deserialization.",
        ) from error


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if member.member_epoch != generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of "
            f"member {member.member_id}.",
        )


def _check_protocol(classic: ClassicMember, request: SyncGroupRequest) -> None:
    name = classic.protocols[0][0]
    if request.protocol_type not in {None, PROTOCOL_TYPE} or request.protocol_name not in {None, name}:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol {request.protocol_type} {request.protocol_name} from member {request.member_id} is "
            f"not the {PROTOCOL_TYPE} {name} returned in the join response.",
        )


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """The group has moved on, or there is something to give up, or something to get."""
    if member.member_epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)

"""Members of a consumer group that speak the classic protocol (``classicGroupJoinToConsumerGroup``).

Such a member goes through the same states as the others. JoinGroup is its full heartbeat, and the generation
in the response is its member epoch. SyncGroup fetches what it has been assigned. Heartbeat is answered
REBALANCE_IN_PROGRESS when the member must give partitions up, when it may have more, and when the group's
epoch is ahead of the member's. There is no leader, and no request waits for other members.
"""

from collections.abc import Sequence
from dataclasses import replace

from barnabas.coordinator.classic.join_group import classic_group_join
from barnabas.coordinator.classic.members import (
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from barnabas.coordinator.consumer.assignment import NOTHING, pairs
from barnabas.coordinator.consumer.conversion import (
    assignment_by_id,
    classic_assignment,
    subscription_of,
)
from barnabas.coordinator.consumer.group import FREE, PROTOCOL_TYPE, ConsumerGroup, consumer_group
from barnabas.coordinator.consumer.heartbeat import subscribe_static_member, update_member
from barnabas.coordinator.consumer.leaving import fence_members, maybe_downgrade, timers_of
from barnabas.coordinator.consumer.member import ClassicTerms, ConsumerMember, MemberState
from barnabas.coordinator.consumer.plan import ConsumerRuntime, Plan, write
from barnabas.coordinator.consumer.target_assignment import makes_no_target
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.errors import ProtocolError


def classic_group_join_to_consumer_group(
    runtime: ConsumerRuntime, shard: Shard, request: JoinRequest
) -> JoinResult | Pending[JoinResult]:
    """``classicGroupJoinToConsumerGroup``: answered at once, with the epoch that the member has reached.

    Raises KafkaError.
    """
    settings = runtime.settings
    timeout_ms = request.session_timeout_ms
    if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    group = consumer_group(shard, request.group_id)
    plan = Plan(group)
    if group.is_empty:
        # An empty consumer group becomes a classic one when a classic member joins.
        # One that names an id is no member of it: UNKNOWN_MEMBER_ID, before anything is written.
        if request.member_id:
            group.member(request.member_id)
        # Its offsets stay: they belong to the name of the group.
        plan.records += group.tombstones()
        write(runtime, shard, plan, None)
        return classic_group_join(runtime.classic, shard, request)

    # Validate, and find or make the member.
    member_id = request.member_id or runtime.new_uuid()
    group.check_size(member_id, settings.consumer_max_size)
    # The coordinator assigns, but members must be able to go back to a protocol that all of them know.
    names = frozenset(name for name, _ in request.protocols)
    if not group.supports_protocols(request.protocol_type, names):
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
        )
    instance_id = request.group_instance_id
    # KIP-394: the client joins again with this id. Nothing is noted of it here: a member that does not come
    # back leaves nothing behind.
    if request.requires_known_member_id and not request.member_id and instance_id is None:
        return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    # A dynamic member, new or known.
    if instance_id is None:
        old = group.members.get(member_id) or ConsumerMember(member_id)
    # A static member under the id that it was given: fenced if another process has its instance id.
    elif request.member_id:
        old = group.find_member(member_id, instance_id)
    else:
        # A static member that comes back without an id takes the place of the former one.
        old = subscribe_static_member(plan, member_id, instance_id, classic=True)

    # Subscribe, make a new target, reconcile: as in a heartbeat.
    subscription = _subscription(request)
    updated = _updated(old, request, subscription)
    owned = assignment_by_id(subscription.owned_partitions, runtime.topics)
    new = update_member(runtime, shard, plan, old, updated, owned)

    # Write, let the deadlines follow, answer.
    plan.effects.append(lambda group: _schedule_timeouts(runtime, shard, group, request, new))
    # KIP-848: it may have replaced the last member that spoke the consumer protocol.
    replaced = group.static_member(instance_id)
    if replaced is not None and replaced.classic is None:
        plan.afterwards.append(lambda: maybe_downgrade(runtime, shard, group.group_id))
    # No leader assigns, so no protocol is elected: each member is told its own preferred one.
    protocol_name, _ = request.protocols[0]
    answer = JoinResult(ErrorCode.NONE, new.member_id, new.member_epoch, PROTOCOL_TYPE, protocol_name)
    return write(runtime, shard, plan, answer)


def _subscription(request: JoinRequest) -> ConsumerProtocolSubscription:
    try:
        return subscription_of(request.protocols[0][1])
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Malformed embedded consumer protocol in subscription deserialization.",
        ) from error


def _updated(
    member: ConsumerMember,
    request: JoinRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    """The member as its request and its subscription describe it."""
    new = replace(
        member,
        client_id=request.client.id,
        client_host=request.client.host,
        classic=ClassicTerms(request.session_timeout_ms, request.protocols),
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",  # classic members do not subscribe like this
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
    )
    return member if new == member else new


def _rebalance_timeout_ms(request: JoinRequest) -> int:
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _schedule_timeouts(
    runtime: ConsumerRuntime,
    shard: Shard,
    group: ConsumerGroup,
    request: JoinRequest,
    member: ConsumerMember,
) -> None:
    timers = timers_of(runtime, shard, group, member.member_id)
    # It has joined. What it must do next is to fetch its assignment.
    timers.join.clear()
    timers.rebalance.clear()
    timers.session.extend(request.session_timeout_ms)
    timers.sync.set(_rebalance_timeout_ms(request))


# Between joins


def classic_group_sync_to_consumer_group(
    runtime: ConsumerRuntime, shard: Shard, request: SyncRequest
) -> SyncResult | Pending[SyncResult]:
    """``classicGroupSyncToConsumerGroup``: what the member has been assigned. Raises KafkaError."""
    group = consumer_group(shard, request.group_id)
    member, classic = _classic_member(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    # The protocol that JoinGroup has answered: the member's own first one.
    name = classic.protocols[0][0]
    if request.protocol_type not in {None, PROTOCOL_TYPE} or request.protocol_name not in {None, name}:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol {request.protocol_type} {request.protocol_name} from member {request.member_id} "
            f"is not the {PROTOCOL_TYPE} {name} returned in the join response.",
        )
    timers = timers_of(runtime, shard, group, member.member_id)
    # The assignment would be out of date before the member has it. One that is giving partitions up gets it
    # all the same: it must learn what it keeps.
    if _is_behind(runtime, group, member) and member.state is not MemberState.UNREVOKED_PARTITIONS:
        timers.join.set_if_absent(member.rebalance_timeout_ms)
        raise KafkaError(
            ErrorCode.REBALANCE_IN_PROGRESS,
            f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should "
            "rejoin to catch up.",
        )
    timers.sync.clear()
    timers.session.extend(classic.session_timeout_ms)
    answer = SyncResult(
        ErrorCode.NONE,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=classic_assignment(member.assigned, classic.protocols[0][1], runtime.topics),
    )
    # Nothing to write; the answer waits until what it shows is confirmed.
    return write(runtime, shard, Plan(group), answer)


def classic_group_heartbeat_to_consumer_group(
    runtime: ConsumerRuntime,
    shard: Shard,
    group_id: str,
    member_id: str,
    instance_id: str | None,
    generation_id: int,
) -> ErrorCode:
    """``classicGroupHeartbeatToConsumerGroup``: whether the member has to join again. Raises KafkaError."""
    group = consumer_group(shard, group_id)
    member, classic = _classic_member(group, member_id, instance_id, generation_id)
    timers = timers_of(runtime, shard, group, member.member_id)
    timers.session.extend(classic.session_timeout_ms)
    if (
        # A new target; partitions to give up; or partitions that others have released since: the member gets
        # each of them by joining again.
        _is_behind(runtime, group, member)
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    ):
        timers.join.set_if_absent(member.rebalance_timeout_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicTerms]:
    """``validateConsumerGroupMember``. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION."""
    member = group.find_member(member_id, instance_id)
    # A member of the consumer protocol heartbeats by ConsumerGroupHeartbeat.
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member.member_id} does not use the classic protocol.",
        )
    # The generation of a classic member is its epoch.
    if member.member_epoch != generation_id:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation_id} is not equal to the member epoch "
            f"{member.member_epoch} of member {member.member_id}.",
        )
    return member, member.classic


def _is_behind(runtime: ConsumerRuntime, group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether there is a newer target for the member, or its joining again would make one."""
    # A member of the consumer protocol makes the next target with its heartbeat. While one is being made, or
    # the last is too new (KIP-1263), joining again would change nothing: the member would be called back to
    # join for as long.
    if group.classic_member_count < len(group.members) or makes_no_target(runtime, group):
        return member.member_epoch < group.assignment_epoch
    return member.member_epoch < group.epoch


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """``waitingOnUnreleasedPartition``: whether others still hold partitions that the member is to get."""
    return any(
        partition not in member.assigned.get(topic_id, ())
        and group.partition_epoch(topic_id, partition) != FREE
        for topic_id, partition in pairs(group.targets.get(member.member_id, NOTHING))
    )


# Leaving


def classic_group_leave_to_consumer_group(
    runtime: ConsumerRuntime, shard: Shard, group_id: str, leaving: Sequence[LeavingMember]
) -> list[ErrorCode] | Pending[list[ErrorCode]]:
    """``classicGroupLeaveToConsumerGroup``:
    members of either protocol leave, or an administrator removes them.
    """
    group = consumer_group(shard, group_id)
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
    return fence_members(runtime, shard, group, list(members.values()), codes)


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    # By member id, which a static member sends together with its instance id.
    if leaving.member_id or leaving.group_instance_id is None:
        return group.find_member(leaving.member_id, leaving.group_instance_id)
    # An administrator removes a static member by its instance id alone (KIP-345).
    member = group.static_member(leaving.group_instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {leaving.group_instance_id} is unknown.")
    return member

"""ConsumerGroupHeartbeat: how members join, live and leave (``GroupMetadataManager.consumerGroupHeartbeat``).

Theory of operation
-------------------
A heartbeat goes through five steps: *validate* the request and find its group and member; *subscribe*: note
what the member changed, which may raise the group's epoch; make a new *target* assignment if the epoch has
risen; *reconcile* the member with its target; *answer*. Each step only adds records to a plan, in Kafka's
order: the member, the topics, the group's epoch, the target assignment with its epoch, where the member
stands. Nothing changes before the plan is written, so a step that raises leaves everything as it was.

The JoinGroup of a classic member takes the same middle steps (`classic_members`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import NOTHING, Assignment, assignment_of
from barnabas.coordinator.consumer.conversion import convert_to_consumer_group, may_upgrade, retire
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.leaving import (
    consumer_group_leave,
    schedule_rebalance_timeout,
    timers_of,
)
from barnabas.coordinator.consumer.member import (
    JOIN_EPOCH,
    NOT_GIVEN,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    HeartbeatResult,
    MemberHeartbeat,
    MemberState,
)
from barnabas.coordinator.consumer.plan import ConsumerRuntime, Plan, write
from barnabas.coordinator.consumer.reconciliation import reconcile
from barnabas.coordinator.consumer.regex import (
    RegexUpdate,
    maybe_resolve_regular_expressions,
    maybe_update_regular_expressions,
)
from barnabas.coordinator.consumer.target_assignment import update_group_epoch, update_target_assignment
from barnabas.coordinator.consumer.validation import check_member_epoch, validate_heartbeat
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending

T = TypeVar("T")

HeartbeatAnswer: TypeAlias = HeartbeatResult | Pending[HeartbeatResult]


def consumer_group_heartbeat(
    runtime: ConsumerRuntime,
    shard: Shard,
    heartbeat: MemberHeartbeat,
) -> HeartbeatAnswer:
    """``consumerGroupHeartbeat``. Raises KafkaError for a refusal, and then nothing has changed."""
    config = runtime.group_configs.of(heartbeat.group_id)
    group = shard.groups.get(heartbeat.group_id)
    if isinstance(group, ConsumerGroup) and _nothing_is_new(runtime, group, heartbeat):
        # Nearly all heartbeats are like this. The steps below would come to the same answer.
        timers_of(runtime, shard, group, heartbeat.member_id).session.extend(config.session_timeout_ms)
        return HeartbeatResult(heartbeat.member_id, heartbeat.member_epoch, config.heartbeat_interval_ms)

    # Validate it; find or make its group and its member.
    # In Kafka's order: a request that is wrong in itself is refused before anybody looks for its group.
    validate_heartbeat(heartbeat, runtime.assignors)
    if heartbeat.member_epoch < JOIN_EPOCH:
        return consumer_group_leave(runtime, shard, heartbeat)
    # Epoch 0 joins and may make the group; a positive epoch is that of a member.
    plan = _get_or_maybe_create_group(runtime, shard, heartbeat)
    # KIP-848: ``group.consumer.max.size`` refuses new members only.
    plan.group.check_size(heartbeat.member_id, runtime.settings.consumer_max_size)
    owned = None if heartbeat.topic_partitions is None else assignment_of(heartbeat.topic_partitions)
    old = _get_or_maybe_create_member(plan, heartbeat, heartbeat.member_id or runtime.new_uuid(), owned)

    # Subscribe, make a new target, reconcile.
    new = update_member(runtime, shard, plan, old, _updated(old, heartbeat), owned)

    # Write all that, let the member's deadlines follow, and answer.
    # (A lambda here would make every call of this function allocate cells: 0.1 µs of the 1.7 that a heartbeat
    # without news takes.)
    may_describe = heartbeat.may_describe
    plan.effects.append(
        partial(_schedule_timeouts, runtime, shard, old=old, new=new, may_describe=may_describe)
    )
    return write(runtime, shard, plan, _result(runtime, heartbeat, old, new))


def _nothing_is_new(runtime: ConsumerRuntime, group: ConsumerGroup, heartbeat: MemberHeartbeat) -> bool:
    """Whether neither the member nor the group has anything to say; then the session is extended, no more."""
    member = group.members.get(heartbeat.member_id)
    return (
        member is not None
        # The member changes nothing...
        and heartbeat.member_epoch == member.member_epoch > JOIN_EPOCH
        and heartbeat.subscribed_topic_names is None
        and heartbeat.subscribed_topic_regex is None
        and heartbeat.rebalance_timeout_ms == NOT_GIVEN
        and heartbeat.rack_id is None
        and heartbeat.server_assignor is None
        and heartbeat.instance_id == member.instance_id
        and heartbeat.client == (member.client_id, member.client_host)
        and member.classic is None
        # ... and the group has no new epoch, target or topics for it, and nothing unconfirmed.
        and member.is_reconciled_to(group.assignment_epoch)
        and group.epoch <= group.assignment_epoch
        and group.last_write is None
        and not group.subscriptions.expressions
        and not group.metadata_has_expired(runtime.clock.monotonic_ms())
    )


# The group and the member


def _get_or_maybe_create_group(runtime: ConsumerRuntime, shard: Shard, heartbeat: MemberHeartbeat) -> Plan:
    """``getOrMaybeCreateConsumerGroup``: a plan for the group. Raises GROUP_ID_NOT_FOUND.

    For a member that joins the group is made, or converted from a classic one where that may be.
    """
    group_id, joining = heartbeat.group_id, heartbeat.member_epoch == JOIN_EPOCH
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return Plan(group)
    # Only a member that joins makes a group: an epoch above 0 belongs to a group that was deleted.
    if group is None:
        if joining:
            return Plan(ConsumerGroup(group_id))
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if joining and isinstance(group, ClassicGroup):
        # ``ClassicGroup`` without members: nothing but offsets, which stay under the group's name.
        if group.is_empty:
            plan = Plan(ConsumerGroup(group_id))
            plan.records += group.tombstones()
            plan.afterwards.append(lambda: retire(group))
            return plan
        # A consumer joins a group of classic members (``group.consumer.migration.policy``).
        if may_upgrade(group, runtime.settings):
            plan = convert_to_consumer_group(runtime, group)
            plan.effects.append(lambda upgraded: _begin_classic_sessions(runtime, shard, upgraded))
            return plan
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def _begin_classic_sessions(runtime: ConsumerRuntime, shard: Shard, group: ConsumerGroup) -> None:
    for member in group.members.values():
        if member.classic is not None:
            session = timers_of(runtime, shard, group, member.member_id).session
            session.extend(member.classic.session_timeout_ms)


def _get_or_maybe_create_member(
    plan: Plan, heartbeat: MemberHeartbeat, member_id: str, owned: Assignment | None
) -> ConsumerMember:
    """The member of the heartbeat. Raises UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID or
    UNRELEASED_INSTANCE_ID.
    """
    # A member that joins may be new, or join again: then it keeps its id, and what it has.
    if heartbeat.member_epoch == JOIN_EPOCH:
        if heartbeat.instance_id is not None:
            return subscribe_static_member(plan, member_id, heartbeat.instance_id, classic=False)
        return plan.group.members.get(member_id) or ConsumerMember(member_id)
    member = plan.group.find_member(member_id, heartbeat.instance_id)
    check_member_epoch(member, heartbeat.member_epoch, owned)
    return member


def subscribe_static_member(plan: Plan, member_id: str, instance_id: str, *, classic: bool) -> ConsumerMember:
    """``getOrMaybeSubscribeStaticConsumerGroupMember``: it takes over what the member before it had.

    Raises UNRELEASED_INSTANCE_ID when both speak the consumer protocol and the other has not left.
    """
    group = plan.group
    old = group.static_member(instance_id)
    # No member has the instance id yet.
    if old is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    # The other process is alive and has not said that it leaves for a while (epoch -2): two processes with
    # one instance id would fence each other in turn (KIP-848).
    if not classic and old.classic is None and old.member_epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {old.member_id} member.",
        )
    # Everything of the old id moves to the new one, so that the group sees no change and needs no new target.
    new = replace(old, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
    target = group.targets.get(old.member_id, NOTHING)
    plan.records += records.replacement(group.group_id, old, new, target)
    return new


# Subscribe, target, reconcile


def _updated(member: ConsumerMember, heartbeat: MemberHeartbeat) -> ConsumerMember:
    """The member as the heartbeat describes it; what the heartbeat leaves out stays."""
    names, timeout_ms = heartbeat.subscribed_topic_names, heartbeat.rebalance_timeout_ms
    new = replace(
        member,
        client_id=heartbeat.client.id,
        client_host=heartbeat.client.host,
        classic=None,
        instance_id=_given(heartbeat.instance_id, member.instance_id),
        rack_id=_given(heartbeat.rack_id, member.rack_id),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_GIVEN else timeout_ms,
        server_assignor=_given(heartbeat.server_assignor, member.server_assignor),
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=_given(heartbeat.subscribed_topic_regex, member.subscribed_topic_regex),
    )
    return member if new == member else new


def _given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value


def update_member(
    runtime: ConsumerRuntime,
    shard: Shard,
    plan: Plan,
    old: ConsumerMember,
    new: ConsumerMember,
    owned: Assignment | None,
) -> ConsumerMember:
    """Steps 1 to 3 of ``consumerGroupHeartbeat`` and ``classicGroupJoinToConsumerGroup``: plans all that
    follows from a request that makes `new` of `old`, and returns the member as it will be.

    Raises INVALID_REGULAR_EXPRESSION and FENCED_MEMBER_EPOCH.
    """
    group = plan.group

    # 1. The member, and what it subscribes to. A group without an epoch gets its first one.
    if new is not old:
        plan.records.append(records.member_subscription(group.group_id, new))
    names_changed = new.subscribed_topic_names != old.subscribed_topic_names
    regex = maybe_update_regular_expressions(plan, old, new)
    subscription_changed = names_changed or regex is not RegexUpdate.NO_CHANGE
    # Counted for the group as it will be, so that the assignor sees the new subscription.
    if subscription_changed:
        plan.subscriptions = group.subscriptions.after([(old, new)])
    # An expression that is still to be resolved raises the epoch only when it has been. A vote for another
    # assignor raises it, as the target may be another one then.
    bump = (
        group.epoch == 0
        or names_changed
        or regex is RegexUpdate.UPDATED_AND_RESOLVED
        or new.server_assignor != old.server_assignor
    )
    # Raised by this member, or because topics that the group reads have changed.
    if bump or group.metadata_has_expired(runtime.clock.monotonic_ms()):
        update_group_epoch(runtime, plan, bump=bump)

    # 2. The target assignment, if the group's epoch is ahead of it.
    # The assignor runs in the heartbeat that finds the epoch ahead, for all members.
    target_epoch, target = update_target_assignment(runtime, shard, plan, old, new)

    # 3. The member, one step towards its target (`maybeReconcile`).
    if new.is_reconciled_to(target_epoch) and not subscription_changed:
        return new
    reconciled = reconcile(
        group,
        new,
        target_epoch=target_epoch,
        target=target,
        owned=owned,
        subscribed=plan.topic_ids(plan.subscriptions.topics_of(new)),
        subscription_changed=subscription_changed,
    )
    # Where the member stands is written, so that the next coordinator asks for the same partitions.
    if reconciled != new:
        plan.records.append(records.current_assignment(group.group_id, reconciled))
    return reconciled


# Answer


def _schedule_timeouts(
    runtime: ConsumerRuntime,
    shard: Shard,
    group: ConsumerGroup,
    *,
    old: ConsumerMember,
    new: ConsumerMember,
    may_describe: Callable[[str], bool],
) -> None:
    timers = timers_of(runtime, shard, group, new.member_id)
    timers.session.extend(runtime.group_configs.of(group.group_id).session_timeout_ms)
    # Nothing to give up, or it has confirmed: no deadline.
    if new.state is not MemberState.UNREVOKED_PARTITIONS:
        timers.rebalance.clear()
    # It was asked for other partitions than before: the time for giving them up counts from now.
    elif new.pending_revocation != old.pending_revocation:
        schedule_rebalance_timeout(runtime, shard, group, new)
    # New topics may match; the look-up runs after this request.
    if group.subscriptions.expressions:
        maybe_resolve_regular_expressions(runtime, shard, group, may_describe)


def _result(
    runtime: ConsumerRuntime,
    heartbeat: MemberHeartbeat,
    old: ConsumerMember,
    new: ConsumerMember,
) -> HeartbeatResult:
    # A member that lost track sends all its fields, and needs its assignment though that has not changed.
    is_full_request = heartbeat.member_epoch == JOIN_EPOCH or (
        (heartbeat.subscribed_topic_names is not None or heartbeat.subscribed_topic_regex is not None)
        and heartbeat.rebalance_timeout_ms != NOT_GIVEN
        and heartbeat.topic_partitions is not None
    )
    assignment = new.assigned if is_full_request or new.assigned != old.assigned else None
    interval_ms = runtime.group_configs.of(heartbeat.group_id).heartbeat_interval_ms
    return HeartbeatResult(new.member_id, new.member_epoch, interval_ms, assignment)

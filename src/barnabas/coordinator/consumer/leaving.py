"""How members leave: on their own, for a while (static members), or fenced after a deadline.

A member that is silent for too long, or does not give partitions up, join again or sync in time, is fenced:
it is removed, and the group's epoch rises so that the others share what it had. If only members of the
classic protocol are left, the group may return to that protocol.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, TypeVar

from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import NOTHING
from barnabas.coordinator.consumer.conversion import convert_to_classic_group, may_downgrade
from barnabas.coordinator.consumer.group import ConsumerGroup, consumer_group
from barnabas.coordinator.consumer.member import (
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    HeartbeatResult,
    MemberHeartbeat,
)
from barnabas.coordinator.consumer.plan import ConsumerRuntime, Plan, write
from barnabas.coordinator.consumer.target_assignment import subscribed_topics
from barnabas.coordinator.consumer.timers import MemberTimers
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending

T = TypeVar("T")

RETRY_MS: Final = 500
"""After the log refused the tombstones of a member."""

_events: Final = EventLog("coordinator.consumer")


def consumer_group_leave(
    runtime: ConsumerRuntime, shard: Shard, heartbeat: MemberHeartbeat
) -> HeartbeatResult | Pending[HeartbeatResult]:
    """``GroupMetadataManager.consumerGroupLeave``: a heartbeat with an epoch of -1 or -2."""
    group = consumer_group(shard, heartbeat.group_id)
    member = group.find_member(heartbeat.member_id, heartbeat.instance_id)
    answer = HeartbeatResult(heartbeat.member_id, heartbeat.member_epoch, heartbeat_interval_ms=0)
    # Epoch -1: the member leaves for good. Its partitions go to the others with the next target.
    if heartbeat.member_epoch != STATIC_LEAVE_EPOCH:
        return fence_members(runtime, shard, group, (member,), answer)
    # A static member keeps what it has (`consumerGroupStaticMemberGroupLeave`). Its session runs on.
    plan = Plan(group)
    # It has revoked what it was asked for; the epoch says to the next process that the instance id is free.
    away = replace(member, member_epoch=STATIC_LEAVE_EPOCH, pending_revocation=NOTHING)
    plan.records.append(records.current_assignment(group.group_id, away))
    return write(runtime, shard, plan, answer)


def fence_members(
    runtime: ConsumerRuntime,
    shard: Shard,
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    answer: T,
) -> T | Pending[T]:
    """``GroupMetadataManager.consumerGroupFenceMember``. Raises KafkaError when that cannot be written."""
    if not members:
        return answer
    plan = Plan(group)
    # The last members of the consumer protocol leave: the others become a classic group.
    if may_downgrade(group, members, runtime.settings):
        convert_to_classic_group(runtime, shard, plan, members)
    else:
        _remove_members(runtime, plan, members)
    return write(runtime, shard, plan, answer)


def _remove_members(runtime: ConsumerRuntime, plan: Plan, members: Collection[ConsumerMember]) -> None:
    group = plan.group
    for member in members:
        plan.records += records.member_tombstones(group.group_id, member.member_id)
    # Expressions that only these members used go with them.
    plan.subscriptions = group.subscriptions.after([(member, None) for member in members])
    plan.records += [
        records.regular_expression_tombstone(group.group_id, expression)
        for expression in group.subscriptions.resolved
        if expression not in plan.subscriptions.expressions
    ]
    plan.topics = subscribed_topics(runtime, plan.subscriptions)
    # Topics that only these members read are no longer watched for changes.
    if plan.topics != group.subscription_metadata:
        plan.records.append(records.subscription_metadata(group.group_id, plan.topics))
    # The next heartbeat of another member finds the new epoch, and makes a new target for it.
    plan.records.append(records.group_epoch(group.group_id, group.epoch + 1))
    # Nobody is left to be assigned anything; who comes next does not wait for the interval (KIP-1263).
    if len(members) == len(group.members):
        plan.records.append(records.target_assignment_epoch(group.group_id, group.epoch + 1))


def maybe_downgrade(runtime: ConsumerRuntime, shard: Shard, group_id: str) -> None:
    """After a classic member took the place of a static member that spoke the consumer protocol: if that was
    the last one, the group returns to the classic protocol.
    """
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and may_downgrade(group, (), runtime.settings):
        plan = Plan(group)
        convert_to_classic_group(runtime, shard, plan, ())
        try:
            write(runtime, shard, plan, None)
        except KafkaError as error:
            # It stays a consumer group, which serves its members as well.
            _events.warning("group.not_downgraded", group=group_id, error=error)


# Deadlines


def timers_of(runtime: ConsumerRuntime, shard: Shard, group: ConsumerGroup, member_id: str) -> MemberTimers:
    # Every heartbeat comes here. The closure is made elsewhere, or each call would allocate its cells.
    timers = group.timers.get(member_id)
    return _new_timers(runtime, shard, group, member_id) if timers is None else timers


def _new_timers(runtime: ConsumerRuntime, shard: Shard, group: ConsumerGroup, member_id: str) -> MemberTimers:
    def fence(reason: str, retry_in: Callable[[float], object]) -> None:
        _fence_member(runtime, shard, group, member_id, reason, retry_in)

    timers = group.timers[member_id] = MemberTimers(runtime.clock, fence, group.due)
    return timers


def schedule_rebalance_timeout(
    runtime: ConsumerRuntime, shard: Shard, group: ConsumerGroup, member: ConsumerMember
) -> None:
    """``scheduleConsumerGroupRebalanceTimeout``: by then the member must have given its partitions up."""

    def still_revoking() -> bool:
        known = group.members.get(member.member_id)
        return known is not None and known.member_epoch == member.member_epoch

    alarm = timers_of(runtime, shard, group, member.member_id).rebalance
    alarm.set(member.rebalance_timeout_ms, still_revoking)


def _fence_member(
    runtime: ConsumerRuntime,
    shard: Shard,
    group: ConsumerGroup,
    member_id: str,
    reason: str,
    retry_in: Callable[[float], object],
) -> None:
    """``consumerGroupFenceMemberOperation``, at the end of a deadline.

    Where the log refuses that, the deadline is set again, as Kafka's ``CoordinatorTimer`` does. A heartbeat
    may then still save the member, and the end of the group cancels the deadline.
    """
    member = group.members.get(member_id)
    # It left, or the group was deleted, after the timer had become due.
    if member is None or shard.groups.get(group.group_id) is not group:
        return
    _events.info("member.fenced", group=group.group_id, member=member_id, reason=reason)
    try:
        fence_members(runtime, shard, group, (member,), None)
    except KafkaError as error:
        _events.warning("member.not_removed", group=group.group_id, member=member_id, error=error)
        retry_in(RETRY_MS)

"""The group's epoch, and the target assignment that is made for it (``TargetAssignmentBuilder``)."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import NOTHING, Assignment
from barnabas.coordinator.consumer.assignors.spec import Assignor, GroupSpec, MemberSpec
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.plan import ConsumerRuntime, Plan, write
from barnabas.coordinator.consumer.subscriptions import Subscriptions
from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Sliced, Slices

if TYPE_CHECKING:
    from barnabas.core.ids import Uuid

_events: Final = EventLog("coordinator.consumer")

_RETRY_MS_MIN: Final = 1_000
_RETRY_MS_MAX: Final = 60_000
"""Between two targets of a group that could not be written."""
METADATA_REFRESH_INTERVAL_MS: Final = (1 << 31) - 1
"""Topics are looked at when they change; besides that, practically never."""


def update_group_epoch(runtime: ConsumerRuntime, plan: Plan, *, bump: bool) -> None:
    """Looks at the topics that the group reads;
    plans a new epoch if `bump` says so or the topics have changed.
    """
    plan.topics = subscribed_topics(runtime, plan.subscriptions)
    # A topic was created, deleted, or has more partitions: the record tells the next coordinator what was
    # seen.
    if plan.topics != plan.group.subscription_metadata:
        plan.records.append(records.subscription_metadata(plan.group.group_id, plan.topics))
        bump = True
    # Each heartbeat of another member compares its epoch with this one, and so learns of a new target.
    if bump:
        plan.epoch += 1 if plan.epoch else runtime.group_configs.first_epoch
        plan.records.append(records.group_epoch(plan.group.group_id, plan.epoch))
    deadline_ms = runtime.clock.monotonic_ms() + METADATA_REFRESH_INTERVAL_MS
    plan.effects.append(lambda group: group.refresh_metadata_at(deadline_ms, plan.epoch))


def subscribed_topics(
    runtime: ConsumerRuntime, subscriptions: Subscriptions
) -> Mapping[str, TopicDescription]:
    """``computeSubscriptionMetadata``: those topics that members read which exist."""
    described = ((name, runtime.topics.describe(name)) for name in subscriptions.topics())
    return {name: topic for name, topic in described if topic is not None}


def update_target_assignment(
    runtime: ConsumerRuntime, shard: Shard, plan: Plan, old: ConsumerMember, new: ConsumerMember
) -> tuple[int, Assignment]:
    """``GroupMetadataManager.updateTargetAssignment``:
    the epoch of the target, and this member's part of it.
    """
    group = plan.group
    owner = new.member_id
    if new.instance_id is not None:
        # It takes the place of another member that had its instance id.
        owner = group.static_members.get(new.instance_id, new.member_id)
    last = group.assignment_epoch, group.targets.get(owner, NOTHING)
    # The last target is for this epoch: the member needs only its part of it.
    if plan.epoch <= group.assignment_epoch or makes_no_target(runtime, group):
        return last

    # The members as they are once the plan is written.
    members = dict(group.members)
    if new.instance_id is not None:
        members.pop(owner, None)
    members[new.member_id] = new
    # Members vote with ``group.remote.assignor``; without a vote the first of ``group.consumer.assignors`` is
    # used.
    preferred = group.preferred_assignor(old, new)
    assignor = runtime.assignors.get(preferred or "", runtime.assignors[runtime.default_assignor])
    work = _make_targets(plan, members, assignor)
    # Nearly always it is made in this slice, and is a part of this plan. Where the group is too large for
    # that, its members go on with what they have: a later heartbeat finds the target. The first target is for
    # the member that makes the group, which has no epoch to go on with (decision 0077).
    slices, is_first = Slices(runtime.clock), group.assignment_epoch <= 0
    try:
        while is_first or not slices.over():
            next(work)
    except StopIteration as made:
        _plan_targets(runtime, plan, plan.epoch, members, made.value)
        return plan.epoch, made.value.get(new.member_id, NOTHING)
    plan.effects.append(lambda written: _go_on_making(runtime, shard, written, plan.epoch, members, work))
    return last


@steps
def _go_on_making(
    runtime: ConsumerRuntime,
    shard: Shard,
    group: ConsumerGroup,
    epoch: int,
    members: Mapping[str, ConsumerMember],
    work: Sliced[dict[str, Assignment]],
) -> Steps[None]:
    """Makes the target of an epoch that is written by now, in slices, and then writes it."""
    slices = Slices(runtime.clock)
    targets: dict[str, Assignment] = {}
    group.assignor_running = True
    try:
        while True:
            yield slices.next_turn()
            while not slices.over():
                next(work)
    except StopIteration as made:
        targets = made.value
    except Exception:
        if _wait_after_failure(runtime, group):
            _events.error("target.not_made", group=group.group_id, exc_info=True)
        return
    finally:
        group.assignor_running = False
    # Deleted, or unloaded, meanwhile.
    if shard.groups.get(group.group_id) is not group:
        return
    # All members left meanwhile, which wrote an empty target of a later epoch: epochs never go back.
    if group.assignment_epoch >= epoch:
        return
    # A static member that has come back under another id meanwhile has the place of the one before. That has
    # not raised the epoch. All others that came or went have: the next target is theirs.
    for before in members.values():
        back = group.static_member(before.instance_id)
        if back is not None and back.member_id not in members and before.member_id in targets:
            targets[back.member_id] = targets[before.member_id]
    plan = Plan(group)
    _plan_targets(runtime, plan, epoch, group.members, targets)
    try:
        write(runtime, shard, plan, None)
    except KafkaError as error:
        # A heartbeat finds the epoch as far ahead as before, but not at once: what the log cannot take (a
        # record that is too large) would be made for nothing, again and again.
        if _wait_after_failure(runtime, group):
            _events.warning("target.not_written", group=group.group_id, error=error)


def _wait_after_failure(runtime: ConsumerRuntime, group: ConsumerGroup) -> bool:
    """Lets the group have no new target for a while, longer each time; whether it is the first of a row."""
    delay_ms = min(_RETRY_MS_MIN << min(group.targets_failed, 10), _RETRY_MS_MAX)
    group.targets_failed += 1
    group.next_target_ms = runtime.clock.monotonic_ms() + delay_ms
    return group.targets_failed == 1


def _plan_targets(
    runtime: ConsumerRuntime,
    plan: Plan,
    epoch: int,
    members: Iterable[str],
    targets: Mapping[str, Assignment],
) -> None:
    """Only what differs is written."""
    group = plan.group
    for member_id in members:
        before, target = group.targets.get(member_id), targets.get(member_id, NOTHING)
        if before is not target and before != target:
            plan.records.append(records.target_assignment(group.group_id, member_id, target))
    # Last: a load that finds this record has found all targets of the epoch.
    now_ms = runtime.clock.time_ms()
    plan.records.append(records.target_assignment_epoch(group.group_id, epoch, now_ms))


def makes_no_target(runtime: ConsumerRuntime, group: ConsumerGroup) -> bool:
    """Whether no request makes a target now: one is being made, could not be written a moment ago, or the
    last is too new.
    """
    return (
        group.assignor_running
        or (group.targets_failed > 0 and runtime.clock.monotonic_ms() < group.next_target_ms)
        or _is_too_early(runtime, group)
    )


def _is_too_early(runtime: ConsumerRuntime, group: ConsumerGroup) -> bool:
    """KIP-1263: whether the group has its last target for less than ``consumer.assignment.interval.ms``.

    Members that come or go meanwhile keep what they have; the first heartbeat after that makes one target for
    all of it. A group without members is assigned at once.
    """
    interval_ms = runtime.group_configs.of(group.group_id).assignment_interval_ms
    # A time in the future is that of a coordinator whose clock ran ahead: nobody waits for it.
    return bool(group.members) and 0 <= runtime.clock.time_ms() - group.assigned_at_ms < interval_ms


def _make_targets(
    plan: Plan, members: Mapping[str, ConsumerMember], assignor: Assignor
) -> Sliced[dict[str, Assignment]]:
    """The targets that the assignor makes of the group as it is at the first step."""
    group, subscriptions = plan.group, plan.subscriptions
    are_equal = subscriptions.are_equal_for(len(members))
    counts = {topic.id: topic.partition_count for topic in plan.topics.values()}
    last, static_members = dict(group.targets), dict(group.static_members)
    # Members mostly read the same topics, so each set of names is looked up once.
    topic_ids: dict[frozenset[str], frozenset[Uuid]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id, member in members.items():
        names = subscriptions.topics_of(member)
        if names not in topic_ids:
            topic_ids[names] = plan.topic_ids(names)
        target = last.get(member_id)
        if target is None and member.instance_id is not None:
            # A static member under another id begins with the target of the one that it replaces.
            target = last.get(static_members.get(member.instance_id, ""))
        target = NOTHING if target is None else target
        specs[member_id] = MemberSpec(topic_ids[names], target, member.instance_id, member.rack_id)
        yield
    # Between two steps an expression may have been resolved again.
    homogeneous = are_equal and len(set(topic_ids.values())) <= 1
    spec = GroupSpec(specs, counts, homogeneous=homogeneous)
    return (yield from assignor(spec))

"""Applies the records of consumer groups to a shard: the only way in which groups change.

What was just appended and what is loaded take the same functions. Loading meets what compaction left: a
tombstone of something that is not there, an assignment before its member. Neither is an error.
"""

from collections.abc import Callable
from typing import Any, Final

from barnabas.coordinator.consumer.assignment import assignment_of
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.subscriptions import ResolvedExpression
from barnabas.coordinator.consumer.target import NEVER_ASSIGNED
from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.coordinator.shard import Shard
from barnabas.protocol.coordinator import consumer_group as schema
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue


def replay_record(shard: Shard, key: CoordinatorKey, value: CoordinatorValue | None) -> None:
    """Takes one record over; types other than 3-8 and 16 are somebody else's and raise KeyError."""
    apply = _REPLAY[type(key)]
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = _group(shard, group_id) if value is None else _persisted(shard, group_id)
    if group is not None:
        apply(shard, group, key, value)


def _group(shard: Shard, group_id: str) -> ConsumerGroup | None:
    group = shard.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def _persisted(shard: Shard, group_id: str) -> ConsumerGroup:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is not None:
        # A group that only ever committed offsets leaves no record of itself, so no tombstone says that it
        # has become another kind of group.
        group.close()
    created = shard.groups[group_id] = ConsumerGroup(group_id)
    return created


def _group_epoch(
    shard: Shard, group: ConsumerGroup, _: CoordinatorKey, value: schema.ConsumerGroupMetadataValue | None
) -> None:
    if value is not None:
        group.epoch = value.epoch
    else:
        group.close()
        del shard.groups[group.group_id]


def _subscription_metadata(
    _: Shard,
    group: ConsumerGroup,
    __: CoordinatorKey,
    value: schema.ConsumerGroupPartitionMetadataValue | None,
) -> None:
    group.subscription_metadata = {
        topic.topic_name: TopicDescription(
            topic.topic_id,
            topic.topic_name,
            topic.num_partitions,
            {one.partition: frozenset(one.racks) for one in topic.partition_metadata},
        )
        for topic in (() if value is None else value.topics)
    }


def _member_subscription(
    _: Shard,
    group: ConsumerGroup,
    key: schema.ConsumerGroupMemberMetadataKey,
    value: schema.ConsumerGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
    else:
        group.update_member(_member(group, key.member_id).described_by(value))


def _target_epoch(
    _: Shard,
    group: ConsumerGroup,
    __: CoordinatorKey,
    value: schema.ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.target.epoch = NEVER_ASSIGNED if value is None else value.assignment_epoch


def _target_assignment(
    _: Shard,
    group: ConsumerGroup,
    key: schema.ConsumerGroupTargetAssignmentMemberKey,
    value: schema.ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    group.target.set(key.member_id, None if value is None else assignment_of(value.topic_partitions))


def _current_assignment(
    _: Shard,
    group: ConsumerGroup,
    key: schema.ConsumerGroupCurrentMemberAssignmentKey,
    value: schema.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is not None:
        group.update_member(_member(group, key.member_id).placed_by(value))
    elif key.member_id in group.members:
        group.update_member(group.members[key.member_id].displaced())


def _regular_expression(
    _: Shard,
    group: ConsumerGroup,
    key: schema.ConsumerGroupRegularExpressionKey,
    value: schema.ConsumerGroupRegularExpressionValue | None,
) -> None:
    group.subscriptions.resolve(
        key.regular_expression,
        None
        if value is None
        else ResolvedExpression(frozenset(value.topics), value.version, value.timestamp),
    )


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)


_REPLAY: Final[dict[type[CoordinatorKey], Callable[[Shard, ConsumerGroup, Any, Any], None]]] = {
    schema.ConsumerGroupMetadataKey: _group_epoch,
    schema.ConsumerGroupPartitionMetadataKey: _subscription_metadata,
    schema.ConsumerGroupMemberMetadataKey: _member_subscription,
    schema.ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    schema.ConsumerGroupTargetAssignmentMemberKey: _target_assignment,
    schema.ConsumerGroupCurrentMemberAssignmentKey: _current_assignment,
    schema.ConsumerGroupRegularExpressionKey: _regular_expression,
}

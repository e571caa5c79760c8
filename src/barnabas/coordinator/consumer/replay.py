"""Applies the records of consumer groups to a shard: the only way in which groups change.

What was just appended and what is loaded take the same functions. Loading meets what compaction left: a
tombstone of something that is not there, an assignment before its member. Neither is an error.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from barnabas.coordinator.consumer.assignment import NOTHING, assignment_of
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import (
    LEAVE_EPOCH,
    NEVER,
    ClassicTerms,
    ConsumerMember,
    MemberState,
)
from barnabas.coordinator.consumer.subscriptions import ResolvedExpression
from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.coordinator.shard import Shard
from barnabas.core.ids import GROUP_METADATA_TOPIC, Uuid
from barnabas.protocol.coordinator import consumer_group as schema
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue, UnknownRecordTypeError

NEVER_ASSIGNED: Final = -1


def replay_record(shard: Shard, key: CoordinatorKey, value: CoordinatorValue | None) -> None:
    """``GroupMetadataManager.replay``.
    Raises UnknownRecordTypeError for a type that the table below does not have.
    """
    apply = _REPLAY.get(type(key))
    if apply is None:
        raise UnknownRecordTypeError(GROUP_METADATA_TOPIC, key.record_type)
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        if group is not None:
            # A group that only ever committed offsets leaves no record of itself, so no tombstone says that
            # it has become another kind of group.
            group.close()
        group = shard.groups[group_id] = ConsumerGroup(group_id)
    apply(shard, group, key, value)


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
        classic = value.classic_member_metadata
        group.update_member(
            replace(
                _member(group, key.member_id),
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                subscribed_topic_names=frozenset(value.subscribed_topic_names),
                subscribed_topic_regex=value.subscribed_topic_regex or "",
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                server_assignor=value.server_assignor,
                classic=None
                if classic is None
                else ClassicTerms(
                    classic.session_timeout_ms,
                    tuple((each.name, bytes(each.metadata)) for each in classic.supported_protocols),
                ),
            )
        )


def _target_epoch(
    _: Shard,
    group: ConsumerGroup,
    __: CoordinatorKey,
    value: schema.ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    # Without a target the group is assigned by the next heartbeat.
    group.assignment_epoch = NEVER_ASSIGNED if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp
    # It could be written. That of an empty group, too: who comes next does not wait for what failed before.
    group.targets_failed = 0


def _target_assignment(
    _: Shard,
    group: ConsumerGroup,
    key: schema.ConsumerGroupTargetAssignmentMemberKey,
    value: schema.ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = assignment_of(value.topic_partitions)


def _current_assignment(
    _: Shard,
    group: ConsumerGroup,
    key: schema.ConsumerGroupCurrentMemberAssignmentKey,
    value: schema.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is not None:
        group.update_member(
            replace(
                _member(group, key.member_id),
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=MemberState.of(value.state),
                assigned=assignment_of(value.assigned_partitions),
                pending_revocation=assignment_of(value.partitions_pending_revocation),
                assignment_epochs=_assignment_epochs(value),
            )
        )
    elif key.member_id in group.members:
        # The tombstone comes before the member's own: until then it holds nothing, like a member that left.
        group.update_member(
            replace(
                group.members[key.member_id],
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                state=MemberState.STABLE,
                assigned=NOTHING,
                pending_revocation=NOTHING,
                assignment_epochs=NEVER,
            )
        )


def _assignment_epochs(
    value: schema.ConsumerGroupCurrentMemberAssignmentValue,
) -> dict[Uuid, dict[int, int]]:
    epochs: dict[Uuid, dict[int, int]] = {}
    for topic in (*value.assigned_partitions, *value.partitions_pending_revocation):
        # Null before Kafka 4.4: nobody knows since when, so it is since this epoch.
        since = topic.assignment_epochs or [value.member_epoch] * len(topic.partitions)
        epochs.setdefault(topic.topic_id, {}).update(zip(topic.partitions, since, strict=False))
    return epochs


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

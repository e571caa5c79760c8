"""The records of a consumer group, with Kafka's content and order (``CoordinatorRecordHelpers``).

The order of tombstones matters: Kafka refuses to forget a member before its assignments, and a group before
its members.
"""

from collections.abc import Iterable, Mapping

from barnabas.coordinator.consumer.assignment import Assignment
from barnabas.coordinator.consumer.member import ClassicMember, ConsumerMember
from barnabas.coordinator.consumer.subscriptions import ResolvedExpression
from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.protocol.coordinator.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
    TopicPartitions,
)


def member_subscription(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """What a member subscribes to, and who it is (type 5)."""
    return CoordinatorRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None if member.classic is None else _classic(member.classic),
        ),
    )


def _classic(member: ClassicMember) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=member.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols
        ],
    )


def subscription_metadata(group_id: str, topics: Mapping[str, TopicDescription]) -> CoordinatorRecord:
    """The topics that the group reads (type 4)."""
    return CoordinatorRecord(
        ConsumerGroupPartitionMetadataKey(group_id=group_id),
        ConsumerGroupPartitionMetadataValue(topics=[_topic(topic) for topic in topics.values()]),
    )


def _topic(topic: TopicDescription) -> TopicMetadata:
    return TopicMetadata(
        topic_id=topic.id,
        topic_name=topic.name,
        num_partitions=topic.partition_count,
        partition_metadata=[
            PartitionMetadata(partition=partition, racks=sorted(racks))
            for partition, racks in topic.racks.items()
        ],
    )


def group_epoch(group_id: str, epoch: int) -> CoordinatorRecord:
    """The group's epoch (type 3)."""
    return CoordinatorRecord(
        ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(epoch=epoch)
    )


def target_assignment(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """What a member is to have (type 7)."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )


def target_assignment_epoch(group_id: str, epoch: int) -> CoordinatorRecord:
    """The group's epoch that the target assignment was made for (type 6)."""
    return CoordinatorRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """What a member has, and where it stands (type 8)."""
    return CoordinatorRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_topic_partitions(member.assigned),
            partitions_pending_revocation=_topic_partitions(member.pending_revocation),
        ),
    )


def _topic_partitions(assignment: Assignment) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in assignment.items()
    ]


def regular_expression(group_id: str, expression: str, resolved: ResolvedExpression) -> CoordinatorRecord:
    """The topics that a regular expression stands for (type 16)."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
        ),
    )


def regular_expression_tombstone(group_id: str, expression: str) -> CoordinatorRecord:
    """Nobody uses the expression any more."""
    return CoordinatorRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member is gone."""
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)),
    ]


def group_tombstones(
    group_id: str, members: Iterable[str], expressions: Iterable[str]
) -> list[CoordinatorRecord]:
    """The group is gone, with all its members."""
    members = list(members)
    return [
        *(
            CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member))
            for member in members
        ),
        *(
            CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member))
            for member in members
        ),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(
            CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member))
            for member in members
        ),
        *(regular_expression_tombstone(group_id, expression) for expression in expressions),
        CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id)),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id)),
    ]


def replacement(
    group_id: str, old: ConsumerMember, new: ConsumerMember, target: Assignment
) -> list[CoordinatorRecord]:
    """A static member came back under another member id and takes over what its instance has."""
    return [
        *member_tombstones(group_id, old.member_id),
        member_subscription(group_id, new),
        target_assignment(group_id, new.member_id, target),
        current_assignment(group_id, new),
    ]

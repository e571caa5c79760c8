"""The records of a consumer group, with Kafka's content and order (``CoordinatorRecordHelpers``).

The order of tombstones matters: Kafka refuses to forget a member before its assignments, and a group before
its members.
"""

from collections.abc import Collection, Iterable, Mapping

from barnabas.coordinator.consumer.assignment import Assignment
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.subscriptions import ResolvedExpression
from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.protocol.coordinator import consumer_group as schema


def member_subscription(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """``newConsumerGroupMemberSubscriptionRecord`` (type 5)."""
    classic = member.classic
    return CoordinatorRecord(
        schema.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        schema.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if classic is None
            else schema.ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    schema.ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in classic.protocols
                ],
            ),
        ),
    )


def subscription_metadata(group_id: str, topics: Mapping[str, TopicDescription]) -> CoordinatorRecord:
    """``newConsumerGroupSubscriptionMetadataRecord`` (type 4): the topics that the group reads."""
    return CoordinatorRecord(
        schema.ConsumerGroupPartitionMetadataKey(group_id=group_id),
        schema.ConsumerGroupPartitionMetadataValue(
            topics=[
                schema.TopicMetadata(
                    topic_id=topic.id,
                    topic_name=topic.name,
                    num_partitions=topic.partition_count,
                    partition_metadata=[
                        schema.PartitionMetadata(partition=partition, racks=sorted(racks))
                        for partition, racks in topic.racks.items()
                    ],
                )
                for topic in topics.values()
            ]
        ),
    )


def group_epoch(group_id: str, epoch: int) -> CoordinatorRecord:
    """``newConsumerGroupEpochRecord`` (type 3)."""
    return CoordinatorRecord(
        schema.ConsumerGroupMetadataKey(group_id=group_id), schema.ConsumerGroupMetadataValue(epoch=epoch)
    )


def target_assignment(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """``newConsumerGroupTargetAssignmentRecord`` (type 7): what a member is to have."""
    return CoordinatorRecord(
        schema.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        schema.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                schema.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in assignment.items()
            ]
        ),
    )


def target_assignment_epoch(group_id: str, epoch: int, timestamp_ms: int = 0) -> CoordinatorRecord:
    """``newConsumerGroupTargetAssignmentMetadataRecord`` (type 6): the group's epoch that the targets were
    made for, and when.
    """
    return CoordinatorRecord(
        schema.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        schema.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """``newConsumerGroupCurrentAssignmentRecord`` (type 8): what a member has, and where it stands."""
    return CoordinatorRecord(
        schema.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        schema.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_topic_partitions(member, member.assigned),
            partitions_pending_revocation=_topic_partitions(member, member.pending_revocation),
        ),
    )


def _topic_partitions(member: ConsumerMember, assignment: Assignment) -> list[schema.TopicPartitions]:
    made = []
    for topic_id, partitions in assignment.items():
        epochs = member.epochs_of({topic_id: partitions}, {}, member.member_epoch)[topic_id]
        numbers = sorted(partitions)
        made.append(
            schema.TopicPartitions(
                topic_id=topic_id,
                partitions=numbers,
                assignment_epochs=[epochs[number] for number in numbers],
            )
        )
    return made


def regular_expression(group_id: str, expression: str, resolved: ResolvedExpression) -> CoordinatorRecord:
    """``newConsumerGroupRegularExpressionRecord`` (type 16): the topics that a regular expression matches."""
    return CoordinatorRecord(
        schema.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression),
        schema.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
        ),
    )


def regular_expression_tombstone(group_id: str, expression: str) -> CoordinatorRecord:
    return CoordinatorRecord(
        schema.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression)
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """``removeMember``: tombstones of all that was written of a member."""
    return [
        CoordinatorRecord(key(group_id=group_id, member_id=member_id))
        for key in (
            schema.ConsumerGroupCurrentMemberAssignmentKey,
            schema.ConsumerGroupTargetAssignmentMemberKey,
            schema.ConsumerGroupMemberMetadataKey,
        )
    ]


def group_tombstones(
    group_id: str, members: Collection[str], expressions: Iterable[str]
) -> list[CoordinatorRecord]:
    """``ConsumerGroup.createGroupTombstoneRecords``: tombstones of the group and of all its members."""
    keys = [
        *(
            schema.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=one)
            for one in members
        ),
        *(schema.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=one) for one in members),
        schema.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        *(schema.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=one) for one in members),
        *(
            schema.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=one)
            for one in expressions
        ),
        schema.ConsumerGroupPartitionMetadataKey(group_id=group_id),
        schema.ConsumerGroupMetadataKey(group_id=group_id),
    ]
    return [CoordinatorRecord(key) for key in keys]


def replacement(
    group_id: str, old: ConsumerMember, new: ConsumerMember, target: Assignment
) -> list[CoordinatorRecord]:
    """``replaceMember``: a static member came back under another id and takes over what its instance has."""
    return [
        *member_tombstones(group_id, old.member_id),
        member_subscription(group_id, new),
        target_assignment(group_id, new.member_id, target),
        current_assignment(group_id, new),
    ]

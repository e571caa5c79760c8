"""A consumer group as ConsumerGroupDescribe shows it (``ConsumerGroup.asDescribedGroup``)."""

from typing import Final

from barnabas.coordinator.consumer.assignment import NOTHING, Assignment
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.protocol.messages.consumer_group_describe import Assignment as DescribedAssignment
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup, Member, TopicPartitions

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(group: ConsumerGroup, default_assignor: str, topics: TopicsImage) -> DescribedGroup:
    """The group with all its members; topics that do not exist any more are left out."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(None, None) or default_assignor,
        members=[
            _member(member, group.targets.get(member.member_id, NOTHING), topics)
            for member in group.members.values()
        ],
    )


def _member(member: ConsumerMember, target: Assignment, topics: TopicsImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(assignment: Assignment, topics: TopicsImage) -> DescribedAssignment:
    named = ((topic_id, topics.name_of(topic_id), parts) for topic_id, parts in assignment.items())
    return DescribedAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
            for topic_id, name, partitions in named
            if name is not None
        ]
    )

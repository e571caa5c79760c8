"""A consumer group as ConsumerGroupDescribe shows it (``ConsumerGroup.asDescribedGroup``)."""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.coordinator.consumer.assignment import NOTHING, Assignment
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.core.ids import Uuid


class NamedPartitions(NamedTuple):
    """Partitions of one topic."""

    topic_id: Uuid
    topic_name: str
    partitions: list[int]


class ConsumerMemberDescription(NamedTuple):
    """A member, what it owns and what it is to own."""

    member: ConsumerMember
    assignment: list[NamedPartitions]
    target_assignment: list[NamedPartitions]


class ConsumerGroupDescription(NamedTuple):
    """A group with all its members; topics that were deleted are left out."""

    group: ConsumerGroup
    assignor_name: str
    members: Iterable[ConsumerMemberDescription]
    """As they were when the group was described; each is made when it is asked for, for it may take long."""


def describe(group: ConsumerGroup, default_assignor: str, topics: TopicsImage) -> ConsumerGroupDescription:
    targets = group.targets
    members = [(member, targets.get(member_id, NOTHING)) for member_id, member in group.members.items()]
    return ConsumerGroupDescription(
        group,
        group.preferred_assignor(None, None) or default_assignor,
        (
            ConsumerMemberDescription(member, _named(member.assigned, topics), _named(target, topics))
            for member, target in members
        ),
    )


def _named(assignment: Assignment, topics: TopicsImage) -> list[NamedPartitions]:
    named = ((topic_id, topics.name_of(topic_id), parts) for topic_id, parts in assignment.items())
    return [
        NamedPartitions(topic_id, name, sorted(partitions))
        for topic_id, name, partitions in named
        if name is not None
    ]

"""Makes a new target assignment, and the records that say what is different in it (``TargetAssignmentBuilder``)."""

from collections.abc import Mapping

from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import NOTHING, Assignment
from barnabas.coordinator.consumer.assignors.spec import Assignor, GroupSpec, MemberSpec
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.subscriptions import Subscriptions
from barnabas.coordinator.consumer.topics import TopicDescription
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.core.ids import Uuid


def new_target(
    group: ConsumerGroup,
    epoch: int,
    assignor: Assignor,
    *,
    updated: ConsumerMember,
    subscriptions: Subscriptions,
    topics: Mapping[str, TopicDescription],
) -> tuple[list[CoordinatorRecord], Assignment]:
    """The records of a new target for this epoch, and the updated member's part of it."""
    members = _members(group, updated)
    # Members mostly read the same topics, so each set of names is looked up once.
    read = {member_id: subscriptions.topics_of(member) for member_id, member in members.items()}
    topic_ids = {names: _topic_ids(names, topics) for names in set(read.values())}
    spec = GroupSpec(
        members={
            member_id: MemberSpec(
                subscribed=topic_ids[read[member_id]],
                assigned=_target_so_far(group, member),
                instance_id=member.instance_id,
                rack_id=member.rack_id,
            )
            for member_id, member in members.items()
        },
        partition_counts={topic.id: topic.partition_count for topic in topics.values()},
        homogeneous=subscriptions.are_equal_for(len(members)),
    )
    targets = assignor(spec)
    changed = [
        records.target_assignment(group.group_id, member_id, targets.get(member_id, NOTHING))
        for member_id in members
        if _differ(group.target.get(member_id), targets.get(member_id, NOTHING))
    ]
    changed.append(records.target_assignment_epoch(group.group_id, epoch))
    return changed, targets.get(updated.member_id, NOTHING)


def _differ(old: Assignment | None, new: Assignment) -> bool:
    return old is not new and old != new


def _members(group: ConsumerGroup, updated: ConsumerMember) -> dict[str, ConsumerMember]:
    """The members with the updated one, which may take the place of another with its instance id."""
    replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    members = {member_id: member for member_id, member in group.members.items() if member_id != replaced}
    members[updated.member_id] = updated
    return members


def _target_so_far(group: ConsumerGroup, member: ConsumerMember) -> Assignment:
    known = group.target.get(member.member_id)
    if known is None and member.instance_id is not None:
        return group.target.of(group.static_members.get(member.instance_id))
    return NOTHING if known is None else known


def _topic_ids(names: frozenset[str], topics: Mapping[str, TopicDescription]) -> frozenset[Uuid]:
    return frozenset(topics[name].id for name in names if name in topics)

"""Groups that change their protocol while they live: upgrade and downgrade (KIP-848).

An upgrade makes each classic member a member of a consumer group, with what its leader last assigned as its
target and its assignment. A downgrade hands the targets back as the assignment of a stable classic group,
whose members are then asked to join again.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.classic.member import ClassicMember as OldMember
from barnabas.coordinator.classic.records import GROUP_METADATA_VERSION
from barnabas.coordinator.classic.responses import Answers, send
from barnabas.coordinator.classic.states import GroupState
from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import NOTHING, Assignment
from barnabas.coordinator.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.coordinator.consumer.member import ClassicMember, ConsumerMember
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.versioned import read_prefix

_UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
_DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})


def retire(group: ClassicGroup) -> None:
    """The classic group is no more: whoever waits for its rebalance joins again, and finds a consumer group."""
    answers: Answers = []
    for member in group.members:
        answers += group.refuse_parked(member, ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
    if group.state is not GroupState.DEAD:
        group.close()
    send(answers)


def begin_downgraded(classic: ClassicGroups, shard: Shard, group_id: str) -> None:
    """The group has just become a classic one: its members' sessions begin, and a rebalance."""
    group = shard.groups.get(group_id)
    assert isinstance(group, ClassicGroup), f"{group} was not downgraded"
    for member in group.members:
        member.alive()
    classic.rebalances.maybe_prepare(group, "the group was downgraded from the consumer protocol")


def may_upgrade(group: ClassicGroup, settings: GroupSettings) -> bool:
    """Whether a classic group with members may become a consumer group."""
    return (
        settings.consumer_migration_policy in _UPGRADES
        and group.is_consumer_group
        and len(group.members) <= settings.consumer_max_size
    )


def may_downgrade(group: ConsumerGroup, leaving: Collection[ConsumerMember], settings: GroupSettings) -> bool:
    """Whether a consumer group is to become a classic one because its last consumer members leave."""
    left = len(group.members) - len(leaving)
    return (
        settings.consumer_migration_policy in _DOWNGRADES
        and group.only_classic_without(*leaving)
        and 0 < left <= settings.max_size
        and bool(group.common_protocols())
    )


def upgraded(group: ClassicGroup, topics: TopicsImage) -> ConsumerGroup:
    """The consumer group that a classic one becomes; nothing is changed yet.

    Raises GROUP_ID_NOT_FOUND when members say what no consumer says.
    """
    new = ConsumerGroup(group.group_id)
    new.epoch = new.target.epoch = group.generation_id
    for old in group.members:
        try:
            member = _upgraded_member(group, old, topics)
        except ProtocolError as error:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade the classic group {group.group_id} to consumer group because the embedded "
                "consumer protocol is malformed.",
            ) from error
        new.target.set(member.member_id, member.assigned)
        new.update_member(member)
    return new


def _upgraded_member(group: ClassicGroup, old: OldMember, topics: TopicsImage) -> ConsumerMember:
    protocols = tuple((name, bytes(metadata)) for name, metadata in old.terms.protocols)
    chosen = dict(protocols).get(group.protocol_name or "", protocols[0][1])
    subscription = ConsumerProtocolSubscription.from_bytes(chosen)
    return ConsumerMember(
        member_id=old.member_id,
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        instance_id=old.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=old.terms.rebalance_timeout_ms,
        client_id=old.client.id,
        client_host=old.client.host,
        subscribed_topic_names=frozenset(subscription.topics),
        # A member that has not synced yet has no assignment at all.
        assigned=_assigned(old.assignment, topics) if old.assignment else NOTHING,
        classic=ClassicMember(old.terms.session_timeout_ms, protocols),
    )


def _assigned(assignment: bytes, topics: TopicsImage) -> Assignment:
    return by_id(ConsumerProtocolAssignment.from_bytes(assignment).assigned_partitions, topics)


def by_id(partitions: Iterable[TopicPartition], topics: TopicsImage) -> Assignment:
    """Partitions under the ids of their topics; topics that do not exist any more are left out."""
    known = ((topics.describe(one.topic), frozenset(one.partitions)) for one in partitions)
    return {topic.id: numbers for topic, numbers in known if topic is not None and numbers}


def upgrade_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """All that is to be known of a group that has just become one (``createConsumerGroupRecords``)."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(records.member_subscription(group_id, member) for member in members),
        records.group_epoch(group_id, group.epoch),
        *(
            records.target_assignment(group_id, member.member_id, group.target.of(member.member_id))
            for member in members
        ),
        records.target_assignment_epoch(group_id, group.target.epoch),
        *(records.current_assignment(group_id, member) for member in members),
    ]


def downgrade_records(
    group: ConsumerGroup, leaving: Collection[ConsumerMember], topics: TopicsImage, now_ms: int
) -> list[CoordinatorRecord]:
    """Takes the consumer group back and puts a stable classic one in its place."""
    gone = {member.member_id for member in leaving}
    members = [member for member in group.members.values() if member.member_id not in gone]
    protocol = _elected(members, group.common_protocols())
    value = GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        leader=members[0].member_id,
        current_state_timestamp=now_ms,
        members=[_downgraded_member(group, member, protocol, topics) for member in members],
    )
    return [
        *group.tombstones(),
        CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION),
    ]


def _elected(members: Iterable[ConsumerMember], candidates: Collection[str]) -> str:
    """The protocol that most members like best of those that all support."""
    votes = Counter(
        next(name for name, _ in member.classic.protocols if name in candidates)
        for member in members
        if member.classic is not None
    )
    return votes.most_common(1)[0][0]


def _downgraded_member(
    group: ConsumerGroup, member: ConsumerMember, protocol: str, topics: TopicsImage
) -> MemberMetadata:
    assert member.classic is not None, f"{member} does not speak the classic protocol"
    subscription = dict(member.classic.protocols)[protocol]
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=subscription,
        assignment=classic_assignment(group.target.of(member.member_id), subscription, topics),
    )


def classic_assignment(assignment: Assignment, subscription: bytes, topics: TopicsImage) -> bytes:
    """An assignment as consumers write it for each other, in the version of the member's own subscription."""
    named = ((topics.name_of(topic_id), partitions) for topic_id, partitions in assignment.items())
    return ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=name, partitions=sorted(partitions))
            for name, partitions in named
            if name is not None
        ]
    ).to_bytes(_version_of(subscription))


def _version_of(subscription: bytes) -> int:
    """The version to answer a subscription in. The one for a member's second choice nobody has looked at yet, and
    what cannot be read there must not keep the group from changing, or others from leaving it: the oldest will do.
    """
    try:
        asked = read_prefix(subscription, ConsumerProtocolSubscription.__name__)
    except ProtocolError:
        asked = 0
    return ConsumerProtocolAssignment.readable_version(max(asked, 0))

"""Groups that change their protocol while they live: upgrade and downgrade (KIP-848).

An upgrade makes each classic member a member of a consumer group, with what its leader last assigned as its
target and its assignment. A downgrade hands the targets back as the assignment of a stable classic group,
whose members are then asked to join again.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.members import Answers, ClassicMember, send
from barnabas.coordinator.classic.rebalance import maybe_prepare_rebalance
from barnabas.coordinator.classic.records import GROUP_METADATA_VERSION
from barnabas.coordinator.classic.states import ClassicGroupState
from barnabas.coordinator.consumer import records
from barnabas.coordinator.consumer.assignment import NOTHING, Assignment
from barnabas.coordinator.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.coordinator.consumer.member import ClassicTerms, ConsumerMember
from barnabas.coordinator.consumer.plan import ConsumerRuntime, Plan
from barnabas.coordinator.consumer.topics import TopicsImage
from barnabas.coordinator.consumer.validation import (
    OWNED_PARTITIONS_MAX,
    OWNED_TOPICS_MAX,
    SUBSCRIBED_NAMES_MAX,
)
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.settings import GroupSettings
from barnabas.coordinator.shard import Shard
from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.versioned import read_prefix

_events: Final = EventLog("coordinator.consumer")

_UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
_DOWNGRADES: Final = frozenset({"downgrade", "bidirectional"})


# Upgrade


def may_upgrade(group: ClassicGroup, settings: GroupSettings) -> bool:
    """``validateOnlineUpgrade``: whether a classic group with members may become a consumer group."""
    return (
        settings.consumer_migration_policy in _UPGRADES
        and group.is_consumer_group
        and len(group.members) <= settings.consumer_max_size
    )


def convert_to_consumer_group(runtime: ConsumerRuntime, old: ClassicGroup) -> Plan:
    """``convertToConsumerGroup``: the plan of an upgrade. Raises GROUP_ID_NOT_FOUND when the classic members
    sent what no consumer sends.
    """
    new = ConsumerGroup(old.group_id)
    # Epochs continue from the generation: the members' requests carry it as their epoch.
    new.epoch = new.assignment_epoch = old.generation_id
    for each in old.members:
        try:
            member = _upgraded_member(old, each, runtime.topics)
        except ProtocolError as error:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade the classic group {old.group_id} to consumer group because the embedded "
                "consumer protocol is malformed.",
            ) from error
        # What the leader assigned is the first target, so nothing moves by the upgrade itself.
        new.targets[member.member_id] = member.assigned
        new.update_member(member)
    plan = Plan(new)
    # A tombstone even if nothing of the classic group was written yet. Replaying it takes the group out of
    # the shard, so that its members get their answers from `retire`, and not from a group that is closed.
    plan.records += [CoordinatorRecord(GroupMetadataKey(group=old.group_id)), *_consumer_group_records(new)]
    plan.afterwards.append(lambda: retire(old))
    return plan


def retire(group: ClassicGroup) -> None:
    """The classic group is no more: members parked in its rebalance join again, and find a consumer group."""
    answers: Answers = []
    for member in group.members:
        answers += group.refuse_parked(member, ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
    if group.state is not ClassicGroupState.DEAD:
        group.close()
    send(answers)


def _upgraded_member(group: ClassicGroup, old: ClassicMember, topics: TopicsImage) -> ConsumerMember:
    protocols = tuple((name, bytes(metadata)) for name, metadata in old.terms.protocols)
    chosen = dict(protocols).get(group.protocol_name or "", protocols[0][1])
    subscription = subscription_of(chosen)
    assigned = NOTHING
    if old.assignment:  # a member that has not synced yet has none
        partitions = ConsumerProtocolAssignment.from_bytes(old.assignment).assigned_partitions
        assigned = assignment_by_id(partitions, topics)
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
        assigned=assigned,
        classic=ClassicTerms(old.terms.session_timeout_ms, protocols),
    )


def subscription_of(metadata: Buffer) -> ConsumerProtocolSubscription:
    """What a member of the classic protocol subscribes to. Raises ProtocolError, also for more than a
    heartbeat may name: this is worked off in one piece, too.
    """
    subscription = ConsumerProtocolSubscription.from_bytes(metadata)
    owned = subscription.owned_partitions
    if (
        len(subscription.topics) > SUBSCRIBED_NAMES_MAX
        or len(owned) > OWNED_TOPICS_MAX
        or sum(len(topic.partitions) for topic in owned) > OWNED_PARTITIONS_MAX
    ):
        name = ConsumerProtocolSubscription.__name__
        raise ProtocolError("it names too many topics or partitions", message=name)
    return subscription


def assignment_by_id(partitions: Iterable[TopicPartition], topics: TopicsImage) -> Assignment:
    """Partitions under the ids of their topics; topics that were deleted are left out."""
    known = ((topics.describe(one.topic), frozenset(one.partitions)) for one in partitions)
    return {topic.id: numbers for topic, numbers in known if topic is not None and numbers}


def _consumer_group_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """``createConsumerGroupRecords``: all records of a group that has just been converted."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(records.member_subscription(group_id, member) for member in members),
        records.group_epoch(group_id, group.epoch),
        *(
            records.target_assignment(
                group_id, member.member_id, group.targets.get(member.member_id, NOTHING)
            )
            for member in members
        ),
        records.target_assignment_epoch(group_id, group.assignment_epoch),
        *(records.current_assignment(group_id, member) for member in members),
    ]


# Downgrade


def may_downgrade(group: ConsumerGroup, leaving: Collection[ConsumerMember], settings: GroupSettings) -> bool:
    """``validateOnlineDowngrade``: whether these are the last members that speak the consumer protocol, and
    the others can form a classic group.
    """
    left = len(group.members) - len(leaving)
    return (
        settings.consumer_migration_policy in _DOWNGRADES
        # Those who stay all speak the classic protocol...
        and left == group.classic_member_count
        # ... and those who leave are the last of the consumer protocol.
        and all(member.classic is None for member in leaving)
        and 0 < left <= settings.max_size
        and bool(group.common_protocols())
    )


def convert_to_classic_group(
    runtime: ConsumerRuntime, shard: Shard, plan: Plan, leaving: Collection[ConsumerMember]
) -> None:
    """``convertToClassicGroup``: plans to put a stable classic group in the place of the consumer group."""
    group = plan.group
    gone = {member.member_id for member in leaving}
    members = [member for member in group.members.values() if member.member_id not in gone]
    # The classic group needs one protocol for all, as if its members had just joined.
    protocol = _elected_protocol(members, group.common_protocols())
    value = GroupMetadataValue(
        protocol_type=PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=protocol,
        leader=members[0].member_id,
        current_state_timestamp=runtime.clock.time_ms(),
        members=[_downgraded_member(group, member, protocol, runtime.topics) for member in members],
    )
    # In this order: a load meets the tombstones first, and then the classic group.
    plan.records += group.tombstones()
    plan.records.append(
        CoordinatorRecord(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)
    )

    def begin() -> None:
        classic = shard.groups.get(group.group_id)
        assert isinstance(classic, ClassicGroup), f"{classic} was not downgraded"
        for member in classic.members:
            member.alive()
        # The members still have what the coordinator assigned; from here on a leader assigns.
        maybe_prepare_rebalance(classic, "the group was downgraded from the consumer protocol")

    plan.afterwards.append(begin)
    _events.info("group.downgraded", group=group.group_id, members=len(members))


def _elected_protocol(members: Iterable[ConsumerMember], candidates: Collection[str]) -> str:
    """Each member votes for the first of its protocols that all support."""
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
    # The leader reads it when it assigns; the coordinator read only the first protocol of each member.
    subscription = dict(member.classic.protocols)[protocol]
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=subscription,
        assignment=classic_assignment(group.targets.get(member.member_id, NOTHING), subscription, topics),
    )


def classic_assignment(assignment: Assignment, subscription: bytes, topics: TopicsImage) -> bytes:
    """``prepareAssignment``: as consumers write assignments, in the version of the member's own
    subscription.
    """
    named = ((topics.name_of(topic_id), partitions) for topic_id, partitions in assignment.items())
    return ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=name, partitions=sorted(partitions))
            for name, partitions in named
            if name is not None
        ]
    ).to_bytes(_version_of(subscription))


def _version_of(subscription: bytes) -> int:
    # The subscription under a member's second protocol has not been read before. If it cannot be read, that
    # must not keep the group from changing, or others from leaving it: the oldest version is good enough.
    try:
        asked = read_prefix(subscription, ConsumerProtocolSubscription.__name__)
    except ProtocolError:
        asked = 0
    return ConsumerProtocolAssignment.readable_version(max(asked, 0))

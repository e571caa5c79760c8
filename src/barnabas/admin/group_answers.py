"""Answers of coordinators about groups, as the admin client gives them on."""

from collections.abc import Sequence
from typing import Final

from barnabas.admin.group_types import (
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberDescription,
    NotAConsumerGroupError,
)
from barnabas.client.committed import fetched_offset
from barnabas.client.metadata import Broker
from barnabas.client.types import OffsetAndMetadata
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.protocol.consumer_protocol import ConsumerProtocolAssignment
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages import consumer_group_describe as modern
from barnabas.protocol.messages import describe_groups as classic
from barnabas.protocol.messages.list_groups import ListedGroup
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

PROTOCOL_TYPE: Final = "consumer"
"""What consumers call their protocol; it is empty for a group that no member ever joined."""

Offsets = dict[TopicPartition, OffsetAndMetadata | None]
"""Committed positions by partition; None where the group has none."""

_log = EventLog("admin.groups")


def is_for_consumers(protocol_type: str) -> bool:
    """Whether a group is one of consumers, or a simple one; Kafka Connect's workers, say, form others."""
    return protocol_type in {PROTOCOL_TYPE, ""}


def listing(group: ListedGroup) -> GroupListing:
    """One group of ListGroups."""
    return GroupListing(
        group.group_id,
        is_simple=not group.protocol_type,
        state=GroupState.parse(group.group_state) if group.group_state else None,
        type=GroupType.parse(group.group_type) if group.group_type else None,
        protocol=group.protocol_type,
    )


def consumer_group(group: modern.DescribedGroup, coordinator: Broker) -> GroupDescription:
    """One group of ConsumerGroupDescribe."""
    return GroupDescription(
        group.group_id,
        is_simple=False,
        type=GroupType.CONSUMER,
        state=GroupState.parse(group.group_state),
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=[_consumer_member(one) for one in group.members],
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


_UPGRADED: Final = {0: False, 1: True}
"""By the type of a member: classic, consumer."""


def _consumer_member(member: modern.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
        _UPGRADED.get(member.member_type),
    )


def _partitions(assignment: modern.Assignment) -> Sequence[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    ]


def classic_group(group: classic.DescribedGroup, coordinator: Broker) -> GroupDescription | BarnabasError:
    """One group of DescribeGroups; an error for a group of something else than consumers."""
    if not is_for_consumers(group.protocol_type):
        return NotAConsumerGroupError(group.group_id, group.protocol_type)
    try:
        members = [_classic_member(one) for one in group.members]
    except ProtocolError as error:
        return error
    return GroupDescription(
        group.group_id,
        is_simple=not group.protocol_type,
        type=GroupType.CLASSIC,
        state=GroupState.parse(group.group_state),
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=members,
    )


def _classic_member(member: classic.DescribedGroupMember) -> MemberDescription:
    assigned = (
        ConsumerProtocolAssignment.from_bytes(member.member_assignment).assigned_partitions
        if member.member_assignment
        else ()
    )
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        [TopicPartition(one.topic, number) for one in assigned for number in one.partitions],
        None,
    )


def fetched_offsets(answer: OffsetFetchResponseGroup | OffsetFetchResponse) -> Offsets:
    """The positions of one group, alone in its answer or one of several;
    a partition with an error is left out.
    """
    answers = {
        TopicPartition(topic.name, one.partition_index): one
        for topic in answer.topics
        for one in topic.partitions
    }
    offsets: Offsets = {}
    for tp, one in answers.items():
        if one.error_code:
            _log.warning("offset.skipped", partition=tp, error=ErrorCode.of(one.error_code).name)
        else:
            offsets[tp] = fetched_offset(one)
    return offsets

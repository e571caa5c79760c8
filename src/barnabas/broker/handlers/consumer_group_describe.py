"""ConsumerGroupDescribe (69), v0-1.

Behaviour: state, members and assignments of consumer groups (KIP-848); GROUP_ID_NOT_FOUND for others, and
TOPIC_AUTHORIZATION_FAILED for those with a topic that the client may not describe.
Versions:  v0 · v1 the protocol that each member speaks (KIP-1099). Advertised and refused as
           ConsumerGroupHeartbeat is.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import describe_each, require_consumer_protocol
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.coordinator.consumer.description import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    NamedPartitions,
)
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1
_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


def _failed(
    request: ConsumerGroupDescribeRequest, error: KafkaError, _version: int
) -> Sliced[ConsumerGroupDescribeResponse]:
    response = ConsumerGroupDescribeResponse()
    for group_id in request.group_ids:
        response.groups.append(_refused(group_id, error.code))
        yield
    return response


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    # Kafka 4 has words for this one.
    words = f"Group {group_id} not found." if code is ErrorCode.GROUP_ID_NOT_FOUND else None
    return DescribedGroup(group_id=group_id, error_code=code, error_message=words)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), failed=_failed)
@sliced
def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Sliced[ConsumerGroupDescribeResponse]:
    require_consumer_protocol(context)
    coordinator, may_describe = context.broker.group_coordinator, context.may(Operation.DESCRIBE)

    def describe(group_id: str) -> Sliced[DescribedGroup]:
        description = coordinator.consumer_group_describe(group_id)
        group = _described(description)
        for each in description.members:
            # KAFKA-18813: a client hears nothing of topics that it may not describe.
            if not all(may_describe[topic] for topic in _topics(each)):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                return DescribedGroup(group_id=group_id, error_code=code, error_message=_HIDDEN)
            group.members.append(_member(each))
            yield
        return group

    groups = yield from describe_each(
        context, request.group_ids, describe, _refused, operations=request.include_authorized_operations
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _topics(member: ConsumerMemberDescription) -> list[str]:
    """The topics that a member has or is to have."""
    return sorted({topic.topic_name for topic in (*member.assignment, *member.target_assignment)})


def _described(description: ConsumerGroupDescription) -> DescribedGroup:
    group = description.group
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=description.assignor_name,
    )


def _member(description: ConsumerMemberDescription) -> Member:
    member = description.member
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(description.assignment),
        target_assignment=_assignment(description.target_assignment),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(topics: list[NamedPartitions]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
            for topic_id, name, partitions in topics
        ]
    )

"""ConsumerGroupDescribe (69), v0-1.

Behaviour: state, members and assignments of consumer groups (KIP-848); GROUP_ID_NOT_FOUND for others.
Versions:  v0 · v1 the protocol that each member speaks (KIP-1099). Advertised and refused as
           ConsumerGroupHeartbeat is.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_consumer_protocol, told_apart
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _failed(
    request: ConsumerGroupDescribeRequest, error: KafkaError, _version: int
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[_refused(each, error.code) for each in request.group_ids])


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), classic_max=0, failed=_failed)
def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describes consumer groups."""
    require_consumer_protocol(context)
    allowed, denied = told_apart(context, Operation.DESCRIBE, request.group_ids)
    hidden = [_refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in denied]
    described = context.broker.group_coordinator.consumer_group_describe(allowed)
    if request.include_authorized_operations:
        for group in described:
            if not group.error_code:
                group.authorized_operations = context.authorized_operations(Resource.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(groups=hidden + described)

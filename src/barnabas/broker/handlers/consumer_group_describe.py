"""ConsumerGroupDescribe (69), v0-1.

Behaviour: state, members and assignments of consumer groups (KIP-848); GROUP_ID_NOT_FOUND for others.
Versions:  v0 · v1 the protocol that each member speaks (KIP-1099). Advertised and refused as
           ConsumerGroupHeartbeat is.
Not implemented: nothing.
"""

from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import describe_each, require_consumer_protocol
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def _failed(
    request: ConsumerGroupDescribeRequest, error: KafkaError, _version: int
) -> Sliced[ConsumerGroupDescribeResponse]:
    response = ConsumerGroupDescribeResponse()
    for group_id in request.group_ids:
        response.groups.append(_refused(group_id, error.code))
        yield
    return response


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code)


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), classic_max=0, failed=_failed)
@sliced
def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Sliced[ConsumerGroupDescribeResponse]:
    require_consumer_protocol(context)
    coordinator = context.broker.group_coordinator
    groups = yield from describe_each(
        context,
        request.group_ids,
        coordinator.consumer_group_describe,
        _refused,
        operations=request.include_authorized_operations,
    )
    return ConsumerGroupDescribeResponse(groups=groups)

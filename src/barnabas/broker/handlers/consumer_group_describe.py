"""ConsumerGroupDescribe (69), v0-1.

Behaviour: state, members and assignments of consumer groups (KIP-848); GROUP_ID_NOT_FOUND for others.
Versions:  v0 · v1 the protocol that each member speaks (KIP-1099). Advertised and refused as
           ConsumerGroupHeartbeat is.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import may, once, require_consumer_protocol
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
    """Describes consumer groups."""
    require_consumer_protocol(context)
    coordinator = context.broker.group_coordinator
    described: list[DescribedGroup] = []
    hidden: list[DescribedGroup] = []
    for group_id in once(request.group_ids):
        yield
        if group_id is None:
            continue
        if not may(context, Operation.DESCRIBE, group_id):
            hidden.append(_refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        (group,) = coordinator.consumer_group_describe([group_id])
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = context.authorized_operations(Resource.GROUP, group_id)
        described.append(group)
    return ConsumerGroupDescribeResponse(groups=hidden + described)

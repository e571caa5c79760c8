"""DescribeGroups (15), v0-5.

Behaviour: state and members of classic groups. One that nobody knows is Dead, which is no error.
Versions:  v3 authorized operations (KIP-430) · v4 static members (KIP-345) · v5 flexible.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import describe_each
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

OPERATIONS_SINCE: Final = 3


def _failed(
    request: DescribeGroupsRequest, error: KafkaError, _version: int
) -> Sliced[DescribeGroupsResponse]:
    response = DescribeGroupsResponse()
    for group_id in request.groups:
        response.groups.append(_refused(group_id, error.code))
        yield
    return response


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code)


@handles(ApiKey.DESCRIBE_GROUPS, versions=(0, 5), failed=_failed)
@sliced
def describe_groups(
    context: RequestContext, request: DescribeGroupsRequest
) -> Sliced[DescribeGroupsResponse]:
    coordinator = context.broker.group_coordinator
    operations = request.include_authorized_operations and context.version >= OPERATIONS_SINCE
    groups = yield from describe_each(
        context, request.groups, coordinator.describe_groups, _refused, operations=operations
    )
    return DescribeGroupsResponse(groups=groups)

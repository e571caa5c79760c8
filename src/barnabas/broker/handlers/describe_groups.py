"""DescribeGroups (15), v0-5.

Behaviour: state and members of classic groups. One that nobody knows is Dead, which is no error.
Versions:  v3 authorized operations (KIP-430) · v4 static members (KIP-345) · v5 flexible.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import told_apart
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

OPERATIONS_SINCE: Final = 3


def _failed(request: DescribeGroupsRequest, error: KafkaError, _version: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_refused(group_id, error.code) for group_id in request.groups])


def _refused(group_id: str, code: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=code)


@handles(ApiKey.DESCRIBE_GROUPS, versions=(0, 5), failed=_failed)
def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describes classic groups."""
    allowed, denied = told_apart(context, Operation.DESCRIBE, request.groups)
    hidden = [_refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in denied]
    described = context.broker.group_coordinator.describe_groups(allowed)
    if request.include_authorized_operations and context.version >= OPERATIONS_SINCE:
        for group in described:
            if not group.error_code:
                group.authorized_operations = context.authorized_operations(Resource.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=hidden + described)

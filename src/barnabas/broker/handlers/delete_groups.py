"""DeleteGroups (42), v0-2.

Behaviour: removes groups without members, and their offsets (KIP-229).
Versions:  v2 flexible.
Not implemented: nothing.
"""

from collections.abc import Iterable

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import afterwards, told_apart
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def _failed(request: DeleteGroupsRequest, error: KafkaError, _version: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=_refused(dict.fromkeys(request.groups_names), error.code))


def _refused(group_ids: Iterable[str], code: ErrorCode) -> list[DeletableGroupResult]:
    return [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in group_ids]


@handles(ApiKey.DELETE_GROUPS, versions=(0, 2), failed=_failed)
def delete_groups(
    context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Pending[DeleteGroupsResponse]:
    """Deletes groups."""
    allowed, denied = told_apart(context, Operation.DELETE, request.groups_names)
    hidden = _refused(denied, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        answer = context.broker.group_coordinator.delete_groups(allowed)
    except KafkaError as error:
        answer = _refused(allowed, error.code)
    return afterwards(answer, lambda results: DeleteGroupsResponse(results=results + hidden))

"""DeleteGroups (42), v0-3.

Behaviour: removes groups without members, and their offsets (KIP-229).
Versions:  v2 flexible · v3 why a group was not deleted.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import once
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def _failed(request: DeleteGroupsRequest, error: KafkaError, _version: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[_refused(group_id, error.code) for group_id in dict.fromkeys(request.groups_names)]
    )


def _refused(group_id: str, code: ErrorCode, message: str | None = None) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=message)


@handles(ApiKey.DELETE_GROUPS, versions=(0, 3), failed=_failed)
@sliced
def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> Sliced[DeleteGroupsResponse]:
    coordinator = context.broker.group_coordinator
    results: list[DeletableGroupResult] = []
    hidden: list[DeletableGroupResult] = []
    for group_id in once(request.groups_names):
        yield
        if group_id is None:
            continue
        if not context.authorize(Operation.DELETE, Resource.GROUP, group_id):
            hidden.append(_refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        try:
            coordinator.delete_group(group_id)
        except KafkaError as error:
            results.append(_refused(group_id, error.code, error.own_message))
        else:
            results.append(DeletableGroupResult(group_id=group_id))
    return DeleteGroupsResponse(results=results + hidden)

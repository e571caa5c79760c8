"""DeleteAcls (31), v0-3.

Behaviour: SECURITY_DISABLED for each filter, as Kafka answers without an authorizer.
Versions:  v1 patterns of names (KIP-290) · v2 flexible · v3 users as resources.
Not implemented: an authorizer; there is nothing that would obey access rules.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

_NO_AUTHORIZER: Final = "No Authorizer is configured."


def _failed(request: DeleteAclsRequest, error: KafkaError, _version: int) -> Sliced[DeleteAclsResponse]:
    response = DeleteAclsResponse()
    for _ in request.filters:
        response.filter_results.append(
            DeleteAclsFilterResult(error_code=error.code, error_message=error.own_message)
        )
        yield
    return response


@handles(ApiKey.DELETE_ACLS, versions=(0, 3), failed=_failed)
def delete_acls(context: RequestContext, _request: DeleteAclsRequest) -> DeleteAclsResponse:
    context.require_cluster(Operation.ALTER)
    raise KafkaError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)

"""CreateAcls (30), v0-3.

Behaviour: SECURITY_DISABLED for each rule, as Kafka answers without an authorizer.
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
from barnabas.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

_NO_AUTHORIZER: Final = "No Authorizer is configured."


def _failed(request: CreateAclsRequest, error: KafkaError, _version: int) -> Sliced[CreateAclsResponse]:
    response = CreateAclsResponse()
    for _ in request.creations:
        response.results.append(AclCreationResult(error_code=error.code, error_message=error.own_message))
        yield
    return response


@handles(ApiKey.CREATE_ACLS, versions=(0, 3), failed=_failed)
def create_acls(context: RequestContext, _request: CreateAclsRequest) -> CreateAclsResponse:
    context.require_cluster(Operation.ALTER)
    raise KafkaError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)

"""DeleteAcls (31), v0-3.

Behaviour: the rules that a filter matches are removed from the metadata store, and count on this broker no
           more when the answer goes; SECURITY_DISABLED for each filter without an authorizer. Any broker does
           it.
Versions:  v1 patterns of names (KIP-290) · v2 flexible · v3 users as resources.
"""

from barnabas.broker.acl_requests import acl_filter
from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def _failed(request: DeleteAclsRequest, error: KafkaError, _version: int) -> Sliced[DeleteAclsResponse]:
    response = DeleteAclsResponse()
    for _ in request.filters:
        response.filter_results.append(
            DeleteAclsFilterResult(error_code=error.code, error_message=error.own_message)
        )
        yield
    return response


@handles(ApiKey.DELETE_ACLS, versions=(0, 3), failed=_failed)
@sliced
def delete_acls(context: RequestContext, request: DeleteAclsRequest) -> Sliced[DeleteAclsResponse]:
    filters = []
    for each in request.filters:
        yield
        filters.append(acl_filter(each))
    context.require_cluster(Operation.ALTER)
    removed = yield from alone(context, context.broker.acls.delete_acls(filters))
    response = DeleteAclsResponse()
    for those in removed:
        result = DeleteAclsFilterResult(error_message=None)
        for (pattern, entry), error in those:
            yield
            found = DeleteAclsMatchingAcl(
                resource_type=pattern.resource,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
                error_message=None,
            )
            if error is not None:
                found.error_code, found.error_message = error.code, error.own_message
            result.matching_acls.append(found)
        response.filter_results.append(result)
    return response

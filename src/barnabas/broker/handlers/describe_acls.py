"""DescribeAcls (29), v0-3.

Behaviour: the rules that the filter matches, those of a resource pattern together; SECURITY_DISABLED without
           an authorizer.
Versions:  v1 patterns of names (KIP-290) · v2 flexible · v3 users as resources.
"""

from barnabas.broker.acl_requests import acl_filter
from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def _failed(_request: DescribeAclsRequest, error: KafkaError, _version: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.own_message)


@handles(ApiKey.DESCRIBE_ACLS, versions=(0, 3), failed=_failed)
@sliced
def describe_acls(context: RequestContext, request: DescribeAclsRequest) -> Sliced[DescribeAclsResponse]:
    wanted = acl_filter(request)
    context.require_cluster(Operation.DESCRIBE)
    response = DescribeAclsResponse()
    last = None
    for pattern, entry in (yield from context.broker.acls.acls(wanted)):
        yield
        if pattern != last:
            last = pattern
            described = DescribeAclsResource(
                resource_type=pattern.resource, resource_name=pattern.name, pattern_type=pattern.pattern_type
            )
            response.resources.append(described)
        described.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
    return response

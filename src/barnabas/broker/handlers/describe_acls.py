"""DescribeAcls (29), v0-3.

Behaviour: SECURITY_DISABLED, as Kafka answers without an authorizer.
Versions:  v1 patterns of names (KIP-290) · v2 flexible · v3 users as resources.
Not implemented: an authorizer; there are no access rules to describe.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


def _failed(_request: DescribeAclsRequest, error: KafkaError, _version: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error.code, error_message=error.own_message)


@handles(ApiKey.DESCRIBE_ACLS, versions=(0, 3), failed=_failed)
def describe_acls(context: RequestContext, _request: DescribeAclsRequest) -> DescribeAclsResponse:
    context.require_cluster(Operation.DESCRIBE)
    raise KafkaError(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)

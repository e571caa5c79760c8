"""DescribeDelegationToken (41), v0-3.

Behaviour: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: tokens are only for connections that have shown who they are
(KIP-48), and no listener of this broker asks for that.
Versions:  v2 flexible · v3 who asked for a token (KIP-373).
Not implemented: delegation tokens.
"""

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


@handles(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3))
def describe_delegation_token(
    _context: RequestContext, _request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

"""ExpireDelegationToken (40), v0-2.

Behaviour: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: tokens are only for connections that have shown who they are
(KIP-48), and no listener of this broker asks for that.
Versions:  v2 flexible.
Not implemented: delegation tokens.
"""

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

NO_TIME: Final = -1


@handles(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2))
def expire_delegation_token(
    _context: RequestContext, _request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=NO_TIME
    )

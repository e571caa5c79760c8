"""CreateDelegationToken (38), v0-3.

Behaviour: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: tokens are only for connections that have shown who they are
(KIP-48), and no listener of this broker asks for that.
Versions:  v2 flexible · v3 tokens for another owner (KIP-373).
Not implemented: delegation tokens.
"""

from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

OWNERS_SINCE: Final = 3
NO_TIME: Final = -1


@handles(ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3))
def create_delegation_token(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    kind, _, name = str(context.principal).partition(":")
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if context.version >= OWNERS_SINCE:
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
        if request.owner_principal_name:
            response.principal_type = request.owner_principal_type or ""
            response.principal_name = request.owner_principal_name
    return response

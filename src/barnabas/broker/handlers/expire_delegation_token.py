"""ExpireDelegationToken (40), v0-2.

Behaviour: a token ends then, or at once with less than 0. Its owner and its renewers may do that, on any
           broker.
Versions:  v2 flexible.
"""

from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_token_requests import NO_TIME, require_own_credentials
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


def _failed(
    _request: ExpireDelegationTokenRequest, error: KafkaError, _version: int
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)


@handles(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2), failed=_failed)
@sliced
def expire_delegation_token(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> Sliced[ExpireDelegationTokenResponse]:
    require_own_credentials(context)
    changed = context.broker.delegation_tokens.expire(
        str(context.principal), bytes(request.hmac), request.expiry_time_period_ms
    )
    ends_ms = yield from alone(context, changed)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=ends_ms)

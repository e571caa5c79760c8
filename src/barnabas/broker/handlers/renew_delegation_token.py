"""RenewDelegationToken (39), v0-2.

Behaviour: a token lives on until its own end at most. Its owner and its renewers may do that, on any broker.
Versions:  v2 flexible.
"""

from barnabas.broker.context import RequestContext
from barnabas.broker.delegation_token_requests import NO_TIME, require_own_credentials
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.errors import KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


def _failed(
    _request: RenewDelegationTokenRequest, error: KafkaError, _version: int
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=NO_TIME)


@handles(ApiKey.RENEW_DELEGATION_TOKEN, versions=(0, 2), failed=_failed)
@sliced
def renew_delegation_token(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> Sliced[RenewDelegationTokenResponse]:
    require_own_credentials(context)
    changed = context.broker.delegation_tokens.renew(
        str(context.principal), bytes(request.hmac), request.renew_period_ms
    )
    ends_ms = yield from alone(context, changed)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=ends_ms)

"""SaslAuthenticate (36), v0-2.

Behaviour: ILLEGAL_SASL_STATE, as Kafka answers on a listener without SASL, and to a client that is logged in.
  A log-in itself is answered by `network.sasl.server`, before any handler.
Versions:  v1 how long the session lasts (KIP-368) · v2 flexible.
Not implemented: nothing.
"""

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@handles(ApiKey.SASL_AUTHENTICATE, versions=(0, 2))
def sasl_authenticate(
    _context: RequestContext, _request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )

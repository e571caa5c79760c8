"""SaslHandshake (17), v0-1.

Behaviour: ILLEGAL_SASL_STATE, as Kafka answers on a listener without SASL, and to a client that is logged in.
  A log-in itself is answered by `network.sasl.server`, before any handler.
Versions:  v1 SaslAuthenticate follows (KIP-152).
Not implemented: nothing.
"""

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(ApiKey.SASL_HANDSHAKE, versions=(0, 1))
def sasl_handshake(_context: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

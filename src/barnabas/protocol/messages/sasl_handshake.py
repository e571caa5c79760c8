"""SaslHandshake (17): a client names the SASL mechanism that it is going to use (KIP-43, KIP-152)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16


class SaslHandshakeRequest(Request, api=17, versions="0-1"):
    """Chooses a mechanism."""

    mechanism: str = field("0+")


class SaslHandshakeResponse(Response, api=17, versions="0-1"):
    """Whether the mechanism is enabled, and which ones are."""

    error_code: int16 = field("0+")
    mechanisms: list[str] = field("0+")

"""SaslAuthenticate (36): a step of a SASL exchange (KIP-152, KIP-368)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int64


class SaslAuthenticateRequest(Request, api=36, versions="0-2", flexible="2+"):
    """What the mechanism has to say."""

    auth_bytes: bytes = field("0+")


class SaslAuthenticateResponse(Response, api=36, versions="0-2", flexible="2+"):
    """What the mechanism answers, and for how long the session is good."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    auth_bytes: bytes = field("0+")
    session_lifetime_ms: int64 = field("1+", ignorable=True)

"""Envelope (58): a request that a broker forwards to the controller for a client (KIP-590)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.versioned import Versioned
from barnabas.protocol.wire import int16


class EnvelopeRequest(Request, api=58, versions="0", flexible="0+"):
    """The client's own request with header, who sent it, and from where."""

    request_data: bytes = field("0+")
    request_principal: bytes | None = field("0+", nullable="0+")
    client_host_address: bytes = field("0+")


class EnvelopeResponse(Response, api=58, versions="0", flexible="0+"):
    """The response with header to pass on."""

    response_data: bytes | None = field("0+", default=None, nullable="0+")
    error_code: int16 = field("0+")


class DefaultPrincipalData(Versioned, versions="0", flexible="0+"):
    """What `request_principal` holds unless the principal builder serializes differently (KIP-590)."""

    type: str = field("0+")
    name: str = field("0+")
    token_authenticated: bool = field("0+")

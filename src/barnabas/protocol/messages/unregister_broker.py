"""UnregisterBroker (64): a KRaft cluster forgets a broker that will not come back (KIP-631)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32


class UnregisterBrokerRequest(Request, api=64, versions="0", flexible="0+"):
    """Names the broker."""

    broker_id: int32 = field("0+")


class UnregisterBrokerResponse(Response, api=64, versions="0", flexible="0+"):
    """Whether it is forgotten."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")

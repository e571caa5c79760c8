"""ExpireDelegationToken (40): a delegation token's end is changed (KIP-48)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32, int64


class ExpireDelegationTokenRequest(Request, api=40, versions="0-2", flexible="2+"):
    """Sets the end of the token that has this secret; negative is now."""

    hmac: bytes = field("0+")
    expiry_time_period_ms: int64 = field("0+")


class ExpireDelegationTokenResponse(Response, api=40, versions="0-2", flexible="2+"):
    """The new end."""

    error_code: int16 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    throttle_time_ms: int32 = field("0+")

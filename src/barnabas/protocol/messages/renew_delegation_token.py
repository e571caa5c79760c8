"""RenewDelegationToken (39): a delegation token lives on (KIP-48)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32, int64


class RenewDelegationTokenRequest(Request, api=39, versions="0-2", flexible="2+"):
    """Renews the token that has this secret."""

    hmac: bytes = field("0+")
    renew_period_ms: int64 = field("0+")


class RenewDelegationTokenResponse(Response, api=39, versions="0-2", flexible="2+"):
    """The new end."""

    error_code: int16 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    throttle_time_ms: int32 = field("0+")

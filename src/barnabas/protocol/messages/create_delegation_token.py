"""CreateDelegationToken (38): a new delegation token (KIP-48, KIP-373)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class CreatableRenewers(Struct):
    """A principal that may renew the token."""

    principal_type: str = field("0+")
    principal_name: str = field("0+")


class CreateDelegationTokenRequest(Request, api=38, versions="0-3", flexible="2+"):
    """Asks for a token, for oneself or (v3+) for another owner."""

    owner_principal_type: str | None = field("3+", nullable="3+")
    owner_principal_name: str | None = field("3+", nullable="3+")
    renewers: list[CreatableRenewers] = field("0+")
    max_lifetime_ms: int64 = field("0+")


class CreateDelegationTokenResponse(Response, api=38, versions="0-3", flexible="2+"):
    """The token with its secret."""

    error_code: int16 = field("0+")
    principal_type: str = field("0+")
    principal_name: str = field("0+")
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp_ms: int64 = field("0+")
    expiry_timestamp_ms: int64 = field("0+")
    max_timestamp_ms: int64 = field("0+")
    token_id: str = field("0+")
    hmac: bytes = field("0+")
    throttle_time_ms: int32 = field("0+")

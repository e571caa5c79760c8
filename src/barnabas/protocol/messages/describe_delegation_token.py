"""DescribeDelegationToken (41): delegation tokens and who may renew them (KIP-48, KIP-373)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class DescribeDelegationTokenOwner(Struct):
    """An owner whose tokens are wanted."""

    principal_type: str = field("0+")
    principal_name: str = field("0+")


class DescribeDelegationTokenRequest(Request, api=41, versions="0-3", flexible="2+"):
    """Asks for tokens by owner, for all when null."""

    owners: list[DescribeDelegationTokenOwner] | None = field("0+", nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew the token."""

    principal_type: str = field("0+")
    principal_name: str = field("0+")


class DescribedDelegationToken(Struct):
    """One token."""

    principal_type: str = field("0+")
    principal_name: str = field("0+")
    token_requester_principal_type: str = field("3+")
    token_requester_principal_name: str = field("3+")
    issue_timestamp: int64 = field("0+")
    expiry_timestamp: int64 = field("0+")
    max_timestamp: int64 = field("0+")
    token_id: str = field("0+")
    hmac: bytes = field("0+")
    renewers: list[DescribedDelegationTokenRenewer] = field("0+")


class DescribeDelegationTokenResponse(Response, api=41, versions="0-3", flexible="2+"):
    """The tokens that the asker may see."""

    error_code: int16 = field("0+")
    tokens: list[DescribedDelegationToken] = field("0+")
    throttle_time_ms: int32 = field("0+")

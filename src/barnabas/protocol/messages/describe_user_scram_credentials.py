"""DescribeUserScramCredentials (50): which SCRAM credentials users have (KIP-554)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class UserName(Struct):
    """One user."""

    name: str = field("0+")


class DescribeUserScramCredentialsRequest(Request, api=50, versions="0", flexible="0+"):
    """Asks about users, about all when null."""

    users: list[UserName] | None = field("0+", nullable="0+")


class CredentialInfo(Struct):
    """A mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and its iterations."""

    mechanism: int8 = field("0+")
    iterations: int32 = field("0+")


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = field("0+")


class DescribeUserScramCredentialsResponse(Response, api=50, versions="0", flexible="0+"):
    """One entry a user."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = field("0+")

"""AlterUserScramCredentials (51): SCRAM credentials are set or removed (KIP-554)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class ScramCredentialDeletion(Struct):
    """A user's credential for one mechanism to delete."""

    name: str = field("0+")
    mechanism: int8 = field("0+")


class ScramCredentialUpsertion(Struct):
    """A user's credential for one mechanism, the password salted already."""

    name: str = field("0+")
    mechanism: int8 = field("0+")
    iterations: int32 = field("0+")
    salt: bytes = field("0+")
    salted_password: bytes = field("0+")


class AlterUserScramCredentialsRequest(Request, api=51, versions="0", flexible="0+"):
    """Changes credentials."""

    deletions: list[ScramCredentialDeletion] = field("0+")
    upsertions: list[ScramCredentialUpsertion] = field("0+")


class AlterUserScramCredentialsResult(Struct):
    """What became of one user's credentials."""

    user: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Response, api=51, versions="0", flexible="0+"):
    """One entry a user."""

    throttle_time_ms: int32 = field("0+")
    results: list[AlterUserScramCredentialsResult] = field("0+")

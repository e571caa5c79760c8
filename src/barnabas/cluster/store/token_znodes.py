"""Where delegation tokens lie in the store, and how (``DelegationTokensZNode``).

/delegation_token/tokens/<id>                      what is known of a token, without its secret
/delegation_token/token_changes/token_change_<n>   a notice: the id of a token that came, changed or went
"""

from typing import Final

from barnabas.cluster.store.payload import (
    UnreadableZnodeError,
    decode_json,
    encode_json,
    field,
    number_field,
    typed,
)
from barnabas.cluster.store.znodes import desanitize, sanitize
from barnabas.core.acl import is_principal
from barnabas.core.delegation_token import TokenInformation

TOKENS: Final = "/delegation_token/tokens"
CHANGES: Final = "/delegation_token/token_changes"
NOTICE: Final = f"{CHANGES}/token_change_"
PATHS: Final = (TOKENS, CHANGES)
"""What a broker with tokens makes sure of when it starts (``createDelegationTokenPaths``)."""

_VERSION: Final = 3
_TIME_MAX: Final = 2**63 - 1


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: TokenInformation) -> bytes:
    return encode_json(
        {
            "issueTimestamp": token.issued_ms,
            "renewers": [sanitize(each) for each in token.renewers],
            "tokenRequester": sanitize(token.requester),
            "tokenId": token.token_id,
            "owner": sanitize(token.owner),
            "expiryTimestamp": token.expires_ms,
            "maxTimestamp": token.max_ms,
            "version": _VERSION,
        }
    )


def decode_token(data: bytes | None) -> TokenInformation:
    """What a broker of any version wrote. Raises UnreadableZnodeError."""
    value = decode_json(data)
    version = number_field(value, "version")
    if not 1 <= version <= _VERSION:
        raise UnreadableZnodeError(f"version is {version}, and only 1 to {_VERSION} are known")
    owner = _principal(field(value, "owner", str))
    return TokenInformation(
        field(value, "tokenId", str),
        owner,
        # Before version 3 everybody asked for themselves (KIP-373).
        _principal(field(value, "tokenRequester", str)) if version >= 3 else owner,
        tuple(_principal(typed(each, str, "a renewer")) for each in field(value, "renewers", list)),
        number_field(value, "issueTimestamp", most=_TIME_MAX),
        number_field(value, "expiryTimestamp", most=_TIME_MAX),
        number_field(value, "maxTimestamp", most=_TIME_MAX),
    )


def _principal(text: str) -> str:
    principal = desanitize(text)
    if not is_principal(principal):
        raise UnreadableZnodeError("a principal is not written as type:name")
    return principal


def decode_notice(data: bytes | None) -> str:
    """The id of the token that a notice is about. Raises UnreadableZnodeError."""
    try:
        token_id = (data or b"").decode()
    except UnicodeDecodeError as error:
        raise UnreadableZnodeError(f"it is no UTF-8: {error.reason} at byte {error.start}") from error
    if not token_id or "/" in token_id:
        raise UnreadableZnodeError("it is no id of a token")
    return token_id

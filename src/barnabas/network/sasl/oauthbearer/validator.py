"""Tokens that an authorization server has signed (``OAuthBearerValidatorCallbackHandler``, KIP-768).

A signature is looked at before anything that it covers is believed, with a key of the server's set
(`jwks.Jwks`) and an algorithm that the key is good for: ``alg`` in a token only chooses among those. PyJWT
does that and compares audience and issuer; times are compared here, with the broker's clock.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from barnabas.network.sasl.oauthbearer.jwks import VerificationKey
from barnabas.network.sasl.oauthbearer.token import (
    BearerToken,
    TokenRefusedError,
    json_object,
    milliseconds,
    owner_of,
    parts_of,
    seconds_claim,
)

HEADER_CHARACTERS_MAX: Final = 8192
"""A header is read before anybody has proved anything."""


class KeySource(Protocol):
    """Finds keys (`jwks.Jwks`)."""

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """The key that a token's header means; None where there is none now."""


class Expected(NamedTuple):
    """What a broker asks of a token beside its signature."""

    audience: tuple[str, ...] = ()
    """sasl.oauthbearer.expected.audience; a token that names others only is refused in any case."""
    issuer: str | None = None
    skew_s: int = 30
    scope_claim: str = "scope"
    sub_claim: str = "sub"


class JwtValidator:
    """Looks at tokens as a listener's configuration says."""

    def __init__(self, keys: KeySource, expected: Expected, time_ms: Callable[[], float]) -> None:
        self._keys = keys
        self._expected = expected
        self._time_ms = time_ms

    def __call__(self, token: str) -> BearerToken:
        """The token, if it is valid now. Raises TokenRefusedError."""
        header_part, _, signature = parts_of(token)
        if not signature or len(header_part) > HEADER_CHARACTERS_MAX:
            raise TokenRefusedError("it has no signature, or a header that is too long")
        header = json_object(header_part)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None) or "crit" in header:
            raise TokenRefusedError("its header is none that this broker knows")
        key = self._keys.find(key_id, algorithm)
        if key is None:
            raise TokenRefusedError("there is no key of its id for its algorithm")
        return self._token(token, self._verified(token, key, algorithm))

    def _verified(self, token: str, key: VerificationKey, algorithm: str) -> dict[str, Any]:
        """The claims of a token whose signature, audience and issuer are in order."""
        import jwt  # noqa: PLC0415 - only brokers that look at signatures load it

        assert algorithm in key.algorithms, "a key is found for what it is good for"
        expected = self._expected
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=list(expected.audience) or None,
                issuer=expected.issuer,
                options={
                    "require": ["exp", "iat"],
                    # These are looked at below.
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError, RecursionError) as error:
            # Their texts show claims, but nothing of the signature.
            raise TokenRefusedError(str(error)[:200] or type(error).__name__) from None
        return claims

    def _token(self, token: str, claims: Mapping[str, Any]) -> BearerToken:
        expected, now_ms = self._expected, self._time_ms()
        times = {name: seconds_claim(dict(claims), name) for name in ("exp", "iat", "nbf")}
        expires, issued, begins = times["exp"], times["iat"], times["nbf"]
        if expires is None or issued is None or expires < 0 or issued < 0:
            raise TokenRefusedError("it does not say when it was issued and when it ends")
        skew_ms = expected.skew_s * 1000
        if now_ms - skew_ms >= expires * 1000:
            raise TokenRefusedError("it has expired")
        if begins is not None and now_ms + skew_ms < begins * 1000:
            raise TokenRefusedError("it is not valid yet")
        if expires < issued or (begins is not None and expires < begins):
            raise TokenRefusedError("it ends before it begins")
        principal = owner_of(claims, expected.sub_claim)
        _check_scope(claims.get(expected.scope_claim), expected.scope_claim)
        return BearerToken(token, principal.strip(), milliseconds(expires), milliseconds(issued))


def _check_scope(scope: Any, name: str) -> None:
    """``ClaimValidationUtils.validateScopes``: which they are is nobody's business here."""
    items = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
    if not all(isinstance(each, str) and each.strip() for each in items) or len(set(items)) < len(items):
        raise TokenRefusedError(f"its claim {name} has an item that is empty or there twice")

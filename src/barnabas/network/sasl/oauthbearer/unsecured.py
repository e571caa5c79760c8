"""Tokens without a signature, for development: anybody can make one, for any principal
(``OAuthBearerUnsecuredValidatorCallbackHandler``, ``OAuthBearerUnsecuredLoginCallbackHandler``).

What Kafka does unless a listener's callback handler is another one. The options of the line of JAAS say what
a broker asks for, and of what a client makes its tokens.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from barnabas.core.errors import ConfigError
from barnabas.network.sasl.oauthbearer.token import (
    BearerToken,
    TokenRefusedError,
    json_object,
    milliseconds,
    owner_of,
    parts_of,
    seconds_claim,
)

_VALIDATOR: Final = "unsecuredValidator"
_LOGIN: Final = "unsecuredLogin"
_EXTENSION: Final = f"{_LOGIN}Extension_"
_RESERVED: Final = ("iat", "exp")
_SCOPE_ITEM: Final = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
_LIFETIME_S: Final = "3600"


class UnsecuredValidator:
    """Looks at tokens as a listener's options say."""

    def __init__(self, options: Mapping[str, str], time_ms: Callable[[], float], key: str) -> None:
        """Raises ConfigError, which names `key`."""
        self._time_ms = time_ms
        self._principal_claim = options.get(f"{_VALIDATOR}PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(f"{_VALIDATOR}ScopeClaimName", "").strip() or "scope"
        self._required_scope = _scope(options.get(f"{_VALIDATOR}RequiredScope", ""), key)
        skew = f"{_VALIDATOR}AllowableClockSkewMs"
        self._skew_ms = _whole_number(options.get(skew, "").strip() or "0", skew, key)

    def __call__(self, token: str) -> BearerToken:
        """The token, if it is valid now. Raises TokenRefusedError."""
        return self._check(_read(token, self._principal_claim), token)

    def _check(self, claims: dict[str, Any], token: str) -> BearerToken:
        now_ms, skew_ms = self._time_ms(), self._skew_ms
        valid = _token_of(claims, token, self._principal_claim)
        issued, expires = seconds_claim(claims, "iat"), seconds_claim(claims, "exp")
        assert expires is not None, "a token without an end is refused before"
        if issued is not None and issued * 1000 > now_ms + skew_ms:
            raise TokenRefusedError("it was issued in the future")
        if now_ms - skew_ms >= expires * 1000:
            raise TokenRefusedError("it has expired")
        if issued is not None and expires <= issued:
            raise TokenRefusedError("it ends before it was issued")
        has = _scope_of(claims, self._scope_claim)
        if not set(self._required_scope) <= has:
            required = f"[{', '.join(self._required_scope)}]"
            raise TokenRefusedError("it lacks a scope that is required", scope=required)
        return valid


class UnsecuredLogin:
    """Makes a client's tokens of the options of its line of JAAS."""

    def __init__(self, options: Mapping[str, str], time_ms: Callable[[], float], key: str) -> None:
        """Raises ConfigError, which names `key`."""
        self._time_ms = time_ms
        self._principal_claim = options.get(f"{_LOGIN}PrincipalClaimName", "").strip() or "sub"
        lifetime = f"{_LOGIN}LifetimeSeconds"
        self._lifetime_s = _whole_number(options.get(lifetime, _LIFETIME_S).strip(), lifetime, key)
        self._claims = _claims(options, key)
        self.extensions = {
            name.removeprefix(_EXTENSION): value
            for name, value in options.items()
            if name.startswith(_EXTENSION)
        }
        if not str(self._claims.get(self._principal_claim, "")).strip():
            raise ConfigError(
                f"Invalid value [hidden] for configuration {key}: "
                f"{_LOGIN}StringClaim_{self._principal_claim} says who this client is"
            )

    def __call__(self) -> BearerToken:
        """A token that begins now."""
        now_s = self._time_ms() / 1000
        claims = {"exp": now_s + self._lifetime_s, "iat": now_s, **self._claims}
        text = f"{_part({'alg': 'none'})}.{_part(claims)}."
        return _token_of(claims, text, self._principal_claim)


def _read(token: str, principal_claim: str) -> dict[str, Any]:
    """The claims of a token (``OAuthBearerUnsecuredJws``). Raises TokenRefusedError."""
    header_part, claims_part, signature = parts_of(token)
    header, claims = json_object(header_part), json_object(claims_part)
    if header.get("alg") != "none":
        raise TokenRefusedError("a token without a signature has the algorithm none")
    if signature:
        raise TokenRefusedError("a token of the algorithm none has no signature")
    claims[principal_claim] = _as_java(claims.get(principal_claim))
    return claims


def _token_of(claims: dict[str, Any], text: str, principal_claim: str) -> BearerToken:
    expires, issued = seconds_claim(claims, "exp"), seconds_claim(claims, "iat")
    if expires is None:
        raise TokenRefusedError("it has no end (exp)")
    principal = owner_of(claims, principal_claim)
    return BearerToken(
        text, principal, milliseconds(expires), None if issued is None else milliseconds(issued)
    )


def _as_java(value: Any) -> Any:
    """A value that is no text as Kafka's JSON library gives it where a text is wanted."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if isinstance(value, dict) else value


def _scope_of(claims: Mapping[str, Any], name: str) -> set[str]:
    """The scopes of a token: a text is one of them, whatever is in it."""
    value = claims.get(name)
    if isinstance(value, str):
        return {value.strip()} - {""}
    if value is not None and not isinstance(value, list):
        raise TokenRefusedError(f"its claim {name} is neither a text nor a list")
    return {each.strip() for each in value or () if isinstance(each, str)} - {""}


def _scope(text: str, key: str) -> Sequence[str]:
    """The scopes that an option lists with spaces between (``OAuthBearerScopeUtils.parseScope``)."""
    items = [item for item in text.strip().split(" ") if item]
    for item in items:
        if not _SCOPE_ITEM.fullmatch(item):
            raise ConfigError(f"Invalid value [hidden] for configuration {key}: Invalid scope value: {item}")
    return items


def _claims(options: Mapping[str, str], key: str) -> dict[str, Any]:
    """What ``unsecuredLoginStringClaim_NAME``, ``NumberClaim_`` and ``ListClaim_`` put into tokens."""
    claims: dict[str, Any] = {}
    for option, value in options.items():
        kind, _, name = option.removeprefix(_LOGIN).partition("Claim_")
        if not option.startswith(_LOGIN) or not name or kind not in {"String", "Number", "List"}:
            continue
        if name in _RESERVED:
            raise ConfigError(
                f"Invalid value [hidden] for configuration {key}: Cannot explicitly set the '{name}' claim"
            )
        if kind == "String":
            claims[name] = value
        elif kind == "List":
            # The first character is what stands between the items.
            claims[name] = value[1:].split(value[0]) if len(value) > 1 else []
        else:
            try:
                claims[name] = float(value)
            except ValueError:
                claims[name] = math.nan
            if not math.isfinite(claims[name]):
                raise ConfigError(f"Invalid value [hidden] for configuration {key}: {option} is no number")
    return claims


def _whole_number(text: str, option: str, key: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ConfigError(
            f"Invalid value [hidden] for configuration {key}: {option} is a number of 0 or more"
        )
    return int(text)


def _part(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

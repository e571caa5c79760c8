"""Bearer tokens as values, and the JSON that they are made of.

    token   => BASE64URL(HEADER) "." BASE64URL(CLAIMS) "." [BASE64URL(SIGNATURE)]      RFC 7515, compact
    HEADER  => a JSON object with "alg"
    CLAIMS  => a JSON object with "exp", the time at which the token ends, in seconds

A token is a password: neither `repr` nor an error shows one.
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from barnabas.core.errors import BarnabasError

TOKEN_CHARACTERS_MAX: Final = 64 * 1024
"""No token is longer; Kafka has no bound but that of the frame."""
_NO_END_MS: Final = 2**63 - 1


class TokenRefusedError(BarnabasError):
    """A token is not valid. The text is for this end's log; it shows nothing of the token."""

    def __init__(self, reason: str, *, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope
        """The scope that was asked for, where that is what it lacks."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token that was found valid."""

    value: str = field(repr=False)
    principal: str
    expires_ms: int
    """Wall clock."""
    started_ms: int | None = None
    """When it was issued, where it says so."""


Validate = Callable[[str], BearerToken]
"""Looks at the text of a token. Raises TokenRefusedError."""


def shown_url(url: str) -> str:
    """A server's URL without what may be secret in it: a user's password, a query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def parts_of(token: str) -> list[str]:
    """Header, claims and signature of a token as they were sent. Raises TokenRefusedError."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise TokenRefusedError(f"it is longer than {TOKEN_CHARACTERS_MAX} characters")
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise TokenRefusedError("it has no header, claims and signature with dots between them")
    return parts


def json_object(part: str) -> dict[str, Any]:
    """The object in one part of a token. Raises TokenRefusedError."""
    try:
        # Kafka reads the alphabet of base64, other implementations write that of URLs: both are read.
        padded = part.replace("-", "+").replace("_", "/") + "=" * (-len(part) % 4)
        value = json.loads(base64.b64decode(padded, validate=True), parse_constant=_no_constant)
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefusedError("it is no JSON in base64") from None
    if not isinstance(value, dict):
        raise TokenRefusedError("it is no JSON object")
    return value


def seconds_claim(claims: dict[str, Any], name: str) -> float | None:
    """A claim that is a time, in seconds. Raises TokenRefusedError for one that is no number."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefusedError(f"its claim {name} is no number")
    try:
        seconds = float(value)
    except OverflowError:
        return math.inf
    if math.isnan(seconds):  # it is neither before nor after any time
        raise TokenRefusedError(f"its claim {name} is no number")
    return seconds


def owner_of(claims: Mapping[str, Any], name: str) -> str:
    """The claim that says whose a token is. Raises TokenRefusedError."""
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TokenRefusedError(f"it does not say who its owner is ({name})")
    if any("\ud800" <= character <= "\udfff" for character in value):
        # JSON can write halves of characters, and nothing else can.
        raise TokenRefusedError(f"its owner's name ({name}) is no text")
    return value


def milliseconds(seconds: float) -> int:
    """A time of a claim, as Java rounds it and its `long` holds it."""
    return max(min(int(min(seconds * 1000, 1e19) + 0.5), _NO_END_MS), -_NO_END_MS)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")

"""Where a client gets its tokens: an authorization server, a file, or a function of its user
(``OAuthBearerLoginCallbackHandler``, ``HttpAccessTokenRetriever``, ``FileTokenRetriever``, KIP-768).

The server is asked for the grant ``client_credentials`` (RFC 6749, 4.4). An answer that may be another one
soon is asked for again, after a pause that doubles, for ``sasl.login.retry.backoff.max.ms`` in all. All of it
blocks: it is for a thread.
"""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, unquote, urlsplit

from barnabas.core.errors import BarnabasError
from barnabas.network.errors import FetchError
from barnabas.network.sasl.oauthbearer.token import (
    TOKEN_CHARACTERS_MAX,
    BearerToken,
    TokenRefusedError,
    json_object,
    milliseconds,
    parts_of,
    seconds_claim,
    shown_url,
)

if TYPE_CHECKING:
    import ssl

TIMEOUT_S: Final = 30.0
"""How long a server may take where the client's keys do not say it."""
BYTES_MAX: Final = 256 * 1024
_FINAL_STATUS: Final = {400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505}
"""What a server would say again (``UNRETRYABLE_HTTP_CODES``)."""


class TokenNotGivenError(BarnabasError):
    """There is no token to be had. The text names where it was looked for, and no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """An authorization server, and how this client is known there."""

    url: str = field(repr=False)
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    tls: "ssl.SSLContext | None" = field(default=None, repr=False)

    def __call__(self) -> str:
        """A token. Raises TokenNotGivenError."""
        ends = time.monotonic() + self.retry_max_ms / 1000
        pause_s = self.retry_ms / 1000
        while True:
            try:
                return self._ask()
            except FetchError as error:
                left_s = ends - time.monotonic()
                if left_s <= 0 or pause_s <= 0:
                    raise TokenNotGivenError(str(error)) from error
                time.sleep(min(pause_s, left_s))
                pause_s *= 2

    def _ask(self) -> str:
        """One attempt. Raises FetchError for one that is worth another, else TokenNotGivenError."""
        # Only clients that ask a server load it.
        from barnabas.network.http_fetch import fetch  # noqa: PLC0415

        credentials = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        grant = "grant_type=client_credentials"
        answer = fetch(
            self.url,
            body=(f"{grant}&scope={quote_plus(self.scope)}" if self.scope else grant).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Basic {credentials}",
                "Cache-Control": "no-cache",
                "Content-Type": "application/x-www-form-urlencoded",
            },
            tls=self.tls,
            connect_timeout_s=_seconds(self.connect_timeout_ms),
            timeout_s=_seconds(self.read_timeout_ms),
            bytes_max=BYTES_MAX,
        )
        if answer.status not in {200, 201}:
            said = f"status {answer.status}{_why(answer.body)}"
            problem = f"the token endpoint {shown_url(self.url)} answered with {said}"
            raise TokenNotGivenError(problem) if answer.status in _FINAL_STATUS else FetchError(problem)
        try:
            token = json.loads(answer.body)["access_token"]
        except (ValueError, LookupError, TypeError, RecursionError):
            token = None
        if not isinstance(token, str) or not token.strip():
            where = shown_url(self.url)
            raise TokenNotGivenError(f"the answer of the token endpoint {where} has no access_token")
        return token.strip()


def _seconds(timeout_ms: int | None) -> float:
    return TIMEOUT_S if not timeout_ms else timeout_ms / 1000


def _why(body: bytes) -> str:
    """What a server said beside its status (RFC 6749, 5.2), as far as it is short and plain."""
    try:
        said = json.loads(body)
        error = " ".join(str(said[name]) for name in ("error", "error_description") if name in said)
    except (ValueError, TypeError, RecursionError):
        return ""
    return f": {error[:200]}" if error and error.isprintable() else ""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that something else writes tokens to; it is read each time."""

    url: str

    def __call__(self) -> str:
        """The token in the file. Raises TokenNotGivenError."""
        path = Path(unquote(urlsplit(self.url).path))
        try:
            with path.open(encoding="utf-8") as file:
                return file.read(TOKEN_CHARACTERS_MAX + 1).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise TokenNotGivenError(f"no token can be read from {path}: {reason}") from error


@dataclass(frozen=True, slots=True)
class TokenFunction:
    """A function of the client's user."""

    function: Callable[[], Any]

    def __call__(self) -> str:
        """What it gives. Raises TokenNotGivenError."""
        try:
            token = self.function()
        except Exception as error:
            raise TokenNotGivenError(f"the function that gives tokens failed: {error!r}") from error
        if not isinstance(token, str):
            raise TokenNotGivenError("the function that gives tokens gave none: a token is a str")
        return token.strip()


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Tokens of a source as the client sees them: when they end, and whose they are
    (``LoginAccessTokenValidator``). What they are worth is the broker's business.
    """

    source: Callable[[], str]
    sub_claim: str = "sub"

    def __call__(self) -> BearerToken:
        """A token. Raises TokenNotGivenError."""
        text = self.source()
        try:
            claims = json_object(parts_of(text)[1])
            expires, issued = seconds_claim(claims, "exp"), seconds_claim(claims, "iat")
        except TokenRefusedError as error:
            raise TokenNotGivenError(f"what was given is no token: {error}") from error
        principal = claims.get(self.sub_claim)
        if expires is None or not isinstance(principal, str) or not principal.strip():
            raise TokenNotGivenError(
                f"a token was given that does not say when it ends (exp), or whose it is ({self.sub_claim})"
            )
        started = None if issued is None else milliseconds(issued)
        return BearerToken(text, principal.strip(), milliseconds(expires), started)

"""`LoginGate`: who has not logged in reaches the login, the health of the console and static files alone.

A browser has the session in a cookie that scripts do not see and other sites' forms do not send; a program
sends it as ``Authorization: Bearer TOKEN``.
"""

import base64
import hashlib
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.console.access.files import UnreadableFileError
from barnabas.console.access.login import Login, RefusedLoginError, TooManyError
from barnabas.console.access.oidc import TRY_MS
from barnabas.console.access.sessions import LIFETIME_MS, Origin
from barnabas.operations.clock import monotonic_ms

COOKIE: Final = "barnabas_session"
SECURE_COOKIE: Final = "__Host-barnabas_session"
"""A browser takes it over TLS alone, and from this host alone."""
_PUBLIC: Final = frozenset(
    {"/login", "/login/oidc", "/login/oidc/callback", "/api/v1/login", "/api/v1/healthz"}
)
_AGENT_MAX: Final = 500
METRICS: Final = "/metrics"
_SCRAPERS_MAX: Final = 100


class LoginGate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, login: Login, api: str) -> None:
        self._app = app
        self._login = login
        self._api = api
        self._scrapers: dict[bytes, str] = {}
        """Tokens of those who scrape, as they are, by the hash of what they send."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Says who asks, or what to do first."""
        if scope["type"] != "http" or scope["path"] in _PUBLIC or scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
            return
        try:
            token = await self._token_of_scraper(scope) or token_of(scope)
            user = self._login.user(token, origin_of(scope), monotonic_ms())
        except TooManyError as error:
            await JSONResponse({"error": str(error)}, 429)(scope, receive, send)
            return
        except UnreadableFileError as error:
            await JSONResponse({"error": str(error)}, 403)(scope, receive, send)
            return
        if user is None:
            await self._refusal(scope)(scope, receive, send)
            return
        scope.setdefault("state", {})["user"] = user
        await self._app(scope, receive, send)

    async def _token_of_scraper(self, scope: Scope) -> str:
        """A program that scrapes sends name and password each time (HTTP Basic): it has one session for all
        of them, so that a hash is made once. Raises TooManyError.
        """
        if scope["path"] != METRICS:
            return ""
        scheme, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return ""
        origin, now = origin_of(scope), monotonic_ms()
        key = hashlib.sha256(f"{origin}\n{given}".encode()).digest()
        token = self._scrapers.get(key, "")
        if self._login.user(token, origin, now) is None:
            try:
                user, _, password = base64.b64decode(given, validate=True).decode().partition(":")
                token = await self._login.log_in(user, password, origin, now)
            except (ValueError, RefusedLoginError):
                return ""
            if len(self._scrapers) >= _SCRAPERS_MAX:
                self._scrapers.clear()
            self._scrapers[key] = token
        return token

    def _refusal(self, scope: Scope) -> Response:
        path = scope["path"]
        if path == METRICS:
            challenge = {"WWW-Authenticate": 'Basic realm="barnabas console"'}
            return JSONResponse({"error": "say name and password (HTTP Basic)"}, 401, challenge)
        if path.startswith(self._api) or scope["method"] not in {"GET", "HEAD"}:
            return JSONResponse({"error": f"log in first: POST {self._api}/login"}, 401)
        query = scope["query_string"].decode("latin-1")
        target = path + (f"?{query}" if query else "")
        return RedirectResponse(f"/login?next={quote(target, safe='/')}", 303)


def token_of(scope: Scope) -> str:
    """The token of a request; empty for none."""
    headers = Headers(scope=scope)
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    found = cookies.get(cookie_name(scope))
    return "" if found is None else found.value


def cookie_name(scope: Mapping[str, object]) -> str:
    """What the cookie is called here."""
    return SECURE_COOKIE if scope["scheme"] == "https" else COOKIE


def set_cookie(response: Response, scope: Scope, token: str) -> None:
    """Gives a browser its session; an empty token takes it away."""
    _set(response, scope, cookie_name(scope), token, LIFETIME_MS)


def try_cookie_name(scope: Mapping[str, object]) -> str:
    """What the cookie of a log-in at a provider is called that has been begun."""
    return f"{cookie_name(scope)}_try"


def set_try_cookie(response: Response, scope: Scope, state: str) -> None:
    """Lets a browser keep what proves that the log-in was begun there; an empty state takes it away."""
    _set(response, scope, try_cookie_name(scope), state, TRY_MS)


def _set(response: Response, scope: Scope, name: str, value: str, lifetime_ms: int) -> None:
    """A cookie that only this server's own pages send, and no script reads; an empty value takes it away."""
    response.set_cookie(
        name,
        value,
        max_age=lifetime_ms // 1000 if value else 0,
        path="/",
        secure=scope["scheme"] == "https",
        httponly=True,
        samesite="lax",
    )


def origin_of(scope: Scope) -> Origin:
    """Where a request comes from."""
    client = scope.get("client")
    return Origin(client[0] if client else "", Headers(scope=scope).get("user-agent", "")[:_AGENT_MAX])


def safe_target(text: str) -> str:
    """Where a login leads to: a path of the console, and nothing that a browser takes for another host."""
    is_path = text.startswith("/") and not text.startswith("//") and "\\" not in text
    return text if is_path and text.isprintable() and len(text) < 2_000 else "/"

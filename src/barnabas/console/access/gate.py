"""`LoginGate`: lets nobody to the application who has not logged in, but to the login itself.

A browser has the session in a cookie that scripts do not see and other sites' forms do not send; a program
sends it as ``Authorization: Bearer TOKEN``.
"""

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.console.access.files import UnreadableFileError
from barnabas.console.access.login import Login
from barnabas.console.access.sessions import LIFETIME_MS, Origin
from barnabas.operations.clock import now_ms

COOKIE: Final = "barnabas_session"
SECURE_COOKIE: Final = "__Host-barnabas_session"
"""A browser takes it over TLS alone, and from this host alone."""
_PUBLIC: Final = frozenset({"/login", "/api/v1/login", "/api/v1/healthz"})
_AGENT_MAX: Final = 500


class LoginGate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, login: Login, api: str) -> None:
        self._app = app
        self._login = login
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Says who asks, or what to do first."""
        if scope["type"] != "http" or scope["path"] in _PUBLIC or scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
            return
        try:
            user = self._login.user(token_of(scope), origin_of(scope), now_ms())
        except UnreadableFileError as error:
            await JSONResponse({"error": str(error)}, 403)(scope, receive, send)
            return
        if user is None:
            await self._refusal(scope)(scope, receive, send)
            return
        scope.setdefault("state", {})["user"] = user
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response:
        path = scope["path"]
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
    response.set_cookie(
        cookie_name(scope),
        token,
        max_age=LIFETIME_MS // 1000 if token else 0,
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

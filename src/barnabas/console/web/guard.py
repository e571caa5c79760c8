"""`Guard`: stands before the application. Headers, names of the host, forms that come from elsewhere.

- A page may load nothing from anywhere but the console, and stand in no frame.
- A request must call the console by a name of its own: a page of somebody else cannot reach it by pointing
  its own name here (DNS rebinding).
- What changes something must come from the console's own pages, as ``Origin`` and ``Sec-Fetch-Site`` say, or
  from no browser at all; forms carry a token besides.
- What only reads may come from a page of somebody else when a link to a page is followed, and in no other
  way: looking at records costs the cluster something, also when the answer is not shown to who asked.
- A body has a bound, and so has the number of headers. A path begins with a slash.
"""

import hmac
from collections.abc import Mapping
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX: Final = 1 << 20
_TOO_LARGE: Final = f"a body has at most {BODY_BYTES_MAX} bytes"
HEADERS_MAX: Final = 200
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without a referrer a browser sends its own forms with the origin null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuses, or lets the application answer, with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in _HEADERS.items():
                    headers[name] = value
                if scope["scheme"] == "https":
                    headers["Strict-Transport-Security"] = "max-age=31536000"
                message["headers"] = headers.raw
            await send(message)

        refusal = _malformed(scope) or self._refusal(scope["method"], Headers(scope=scope))
        if refusal is not None:
            code, why = refusal
            await JSONResponse({"error": why}, code)(scope, receive, with_headers)
            return
        await self._app(scope, _bounded(receive), with_headers)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if _name_of(host) not in self._hosts:
            return 421, "this console is not called by that name: add it with --allow-host"
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > BODY_BYTES_MAX:
            return 413, _TOO_LARGE
        is_ours = headers.get("sec-fetch-site", "same-origin") in {"same-origin", "none"}
        if method in _SAFE:
            is_link = (
                headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            )
            return None if is_ours or is_link else (403, "a page from elsewhere may not read anything here")
        if not is_ours:
            return 403, "a page from elsewhere may not change anything here"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "a page from elsewhere may not change anything here"
        return None


def _malformed(scope: Scope) -> tuple[int, str] | None:
    if scope["http_version"] not in {"1.0", "1.1"}:
        return 505, "HTTP is spoken here in its versions 1.0 and 1.1"
    if len(scope["headers"]) > HEADERS_MAX:
        return 431, f"a request has at most {HEADERS_MAX} headers"
    if not scope["path"].startswith("/"):
        # OPTIONS *, CONNECT, or what is meant for a proxy.
        return 400, "a path begins with a slash"
    return None


def _name_of(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


def _bounded(receive: Receive) -> Receive:
    """The body. Raises HTTPException where it is larger than it said it would be."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > BODY_BYTES_MAX:
                raise HTTPException(413, _TOO_LARGE)
        return message

    return bounded


def form_token(secret: bytes, user: str) -> str:
    """What a form of this user carries."""
    return hmac.digest(secret, user.encode(), "sha256").hex()


def is_form_token(secret: bytes, user: str, given: str) -> bool:
    """Whether a form came from a page that this console made for this user."""
    return hmac.compare_digest(form_token(secret, user).encode(), given.encode())

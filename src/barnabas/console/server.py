"""Serves the console; its check and its answers for scripts."""

import asyncio
import gc
import socket
import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import uvicorn
from starlette.types import ASGIApp, Message

from barnabas.console.access.certificate import Certificate, TlsFiles
from barnabas.console.console import Console
from barnabas.console.health.outcome import Level
from barnabas.console.health.verdict import Verdict
from barnabas.console.watched import WatchedCluster
from barnabas.console.web import connections
from barnabas.console.web.app import API, application
from barnabas.console.web.handshakes import BoundedServer
from barnabas.core.errors import BarnabasError
from barnabas.operations.clock import now_ms

_FIRST_S: Final = 60.0
_SWITCH_S: Final = 0.001
"""How long a thread may have the interpreter while another one wants it; Python's own is 5 ms. A page needs
it several times, and waits so long each time while a cluster is read
(docs/decisions/0082-pages-beside-a-look.md).
"""
_COLLECT_AFTER: Final = (2_000, 10, 5_000)
"""When Python looks for garbage in circles: a full look visits the whole snapshot, which has none, and holds
every page for as long (docs/decisions/0091-the-console-seldom-looks-for-circles.md).
"""
EXIT_CODES: Final = {Level.GOOD: 0, Level.UNKNOWN: 3, Level.WARNING: 1, Level.CRITICAL: 2}
"""As monitoring systems know them."""


class Address(NamedTuple):
    """Where the console listens."""

    host: str
    port: int


def listen(address: Address) -> socket.socket:
    """A socket at the address; port 0 takes a free one. Raises OSError where it cannot be taken."""
    return socket.create_server(address, family=socket.AF_INET6 if ":" in address.host else socket.AF_INET)


def server_of(console: Console, tls: TlsFiles | None = None) -> uvicorn.Server:
    """A server of the console, which runs on sockets that are given to it. Raises OSError (ssl.SSLError too)
    for files that are no certificate and its key.
    """
    config = uvicorn.Config(
        application(console),
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=3,
        # Who asks is the peer: a header that anybody can write says nothing here.
        proxy_headers=False,
        **connections.settings(),
    )
    config.load()
    if tls is not None:
        config.ssl = Certificate(tls).context
    return BoundedServer(config)


def serve(
    console: Console,
    clusters: Iterable[WatchedCluster],
    listener: socket.socket,
    tls: TlsFiles | None = None,
) -> None:
    """Serves until it is interrupted, and looks at the clusters meanwhile. It is for a process that does
    nothing else.
    """
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        server = server_of(console, tls)
        # The first look at a large cluster takes seconds of a processor: the routes are there before it.
        console.begin(clusters)
        server.run(sockets=[listener])
    finally:
        console.close()


def show(watched: WatchedCluster, path: str, **settings: Any) -> tuple[int, str]:
    """The status and the body of what REST answers at a path below a cluster, after a look at the whole of
    it. No port is opened, and nothing is remembered. `settings` are those of the console.
    Raises BarnabasError where the look does not come to its end: lists would be empty, or have a part.
    """
    # Who asks at a terminal asks once.
    watched.questions.patience_s = _FIRST_S
    watched.start()
    try:
        if not watched.wait_for_round(_FIRST_S):
            why = watched.problem or f"the first look did not end within {_FIRST_S:.0f} s"
            raise BarnabasError(f"nothing is read of the cluster: {why}")
        console = Console({watched.name: watched}, **settings)
        place, _, query = path.partition("?")
        place = "" if place == "/" else place
        return asyncio.run(_get(application(console), f"{API}/clusters/{watched.name}{place}", query))
    finally:
        watched.close()


async def _get(app: ASGIApp, path: str, query: str) -> tuple[int, str]:
    """One request, as a server would hand it over."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "client": None,
        "server": None,
    }
    status, body = 0, bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        body.extend(message.get("body", b""))

    await app(scope, receive, send)
    return status, body.decode()


def check(watched: WatchedCluster, timeout_s: float = _FIRST_S) -> Verdict:
    """The verdict after a look at the whole cluster. What was not seen within the time is unknown."""
    watched.start()
    try:
        watched.wait_for_round(timeout_s)
        return watched.verdict(now_ms())
    finally:
        watched.close()

"""The HTTP endpoint that a Prometheus server scrapes: ``GET /metrics``, in the text format.

Theory of operation
-------------------
One scrape at a time reads the registry on the event loop, in slices (docs/decisions/0010): pieces of at most
`PIECE` samples are read and put into text, and after `SLICE_MS` others are served. So a scrape of 10,000
partitions holds no request up, and its figures are not all of one moment.

Clients are not trusted. A request has `REQUEST_BYTES_MAX` at most and must come within `HEAD_S`. A connection
has one answer, and is closed after `CONNECTION_S` at the latest. There are `CONNECTIONS_MAX` connections at
most. One more takes the place of the oldest that has not sent its request, or else of the oldest that has not
taken its answer: eight such clients must not keep a Prometheus server out. A connection whose answer is being
put together is never closed for another. `MetricsAccess` may ask for TLS, whose handshake is in the time of
the request, and for a password: a request without it gets 401 and no figure.
"""

import asyncio
import base64
import enum
import hmac
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric as Family

from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.metrics import QUANTILES, Distribution, Kind, Metric, Reading, Registry
from barnabas.core.slices import SLICE_MS
from barnabas.network.listening import stop_listening

_log = EventLog("node.metrics")

PIECE: Final = 128
"""Samples that are put into text in one go: about 1 ms."""
CONNECTIONS_MAX: Final = 8
REQUEST_BYTES_MAX: Final = 8192
HEAD_S: Final = 2.0
CONNECTION_S: Final = 30.0


class _Stage(enum.Enum):
    """How far a connection has come."""

    ASKING = "its request is not there yet"
    WAITING = "its answer is not there yet"
    TAKING = "it takes its answer"
    ENDING = "it is being closed"


class _Connection:
    """One client."""

    __slots__ = ("stage", "task")

    task: asyncio.Task[None]

    def __init__(self) -> None:
        self.stage = _Stage.ASKING

    def end(self) -> None:
        self.stage = _Stage.ENDING
        self.task.cancel()


@dataclass(frozen=True, slots=True)
class MetricsAccess:
    """Who may scrape: everybody without a password, in clear without a context."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Gives the context of the next connection."""
    user: str = ""
    password: str | None = field(default=None, repr=False)
    machine_token: str | None = field(default=None, repr=False)
    """What the parent of a machine of brokers sends in the place of the password (``Bearer``, RFC 6750)."""

    def allows(self, head: bytes) -> bool:
        """Whether the first lines of a request have the password (RFC 7617)."""
        if self.password is None:
            return True
        right = {b"basic": base64.b64encode(f"{self.user}:{self.password}".encode())}
        if self.machine_token is not None:
            right[b"bearer"] = self.machine_token.encode()
        given, expected = b"", b" "
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            scheme, _, words = value.strip().partition(b" ")
            if name.strip().lower() == b"authorization" and scheme.lower() in right:
                given, expected = words.strip(), right[scheme.lower()]
        return hmac.compare_digest(given, expected)


OPEN: Final = MetricsAccess()


class MetricsEndpoint:
    """Serves metrics over HTTP."""

    def __init__(self, text: Callable[[], Awaitable[bytes]], access: MetricsAccess = OPEN) -> None:
        """`text` is asked for each scrape, one after the other."""
        self._text = text
        self._access = access
        self._scrape = asyncio.Lock()
        self._connections: list[_Connection] = []
        """The oldest first."""
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens; the URL to scrape, with a free port for port 0. Raises OSError."""
        self._server = await asyncio.start_server(
            self._connected, host or None, port, limit=REQUEST_BYTES_MAX, reuse_address=True
        )
        bound = self._server.sockets[0].getsockname()
        address = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        scheme = "http" if self._access.tls is None else "https"
        url = f"{scheme}://{address}:{bound[1]}/metrics"
        _log.info("metrics.listening", url=url)
        return url

    async def close(self) -> None:
        """Listens no more, and ends every connection."""
        if self._server is not None:
            await stop_listening(self._server)
        connections = list(self._connections)
        for connection in connections:
            connection.end()
        await asyncio.gather(*(each.task for each in connections), return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._make_room():
            writer.transport.abort()
            return
        connection = _Connection()
        connection.task = asyncio.get_running_loop().create_task(self._serve(connection, reader, writer))
        self._connections.append(connection)

        def gone(_: object) -> None:
            # Here and not in the task: one that is ended before it begins runs nothing of its own.
            self._connections.remove(connection)
            writer.transport.abort()

        connection.task.add_done_callback(gone)

    def _make_room(self) -> bool:
        """Whether there is room for one more; it may take that of the oldest that waits for its client."""
        open_ones = [each for each in self._connections if each.stage is not _Stage.ENDING]
        if len(open_ones) < CONNECTIONS_MAX:
            return True
        for stage in (_Stage.ASKING, _Stage.TAKING):
            for connection in open_ones:
                if connection.stage is stage:
                    connection.end()
                    return True
        return False

    async def _serve(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(CONNECTION_S):
                async with asyncio.timeout(HEAD_S):
                    if self._access.tls is not None:
                        # Here, so that a handshake counts among the connections.
                        await writer.start_tls(self._access.tls())
                    head = await _head(reader)
                connection.stage = _Stage.WAITING
                writer.write(await self._answer(head))
                connection.stage = _Stage.TAKING
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client is gone, or too slow, or does not speak TLS

    async def _answer(self, head: bytes | None) -> bytes:
        if head is None:
            return _response("431 Request Header Fields Too Large")
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response("400 Bad Request")
        if not self._access.allows(head):
            return _response("401 Unauthorized", headers='WWW-Authenticate: Basic realm="metrics"\r\n')
        method, target, _ = words
        if target.split(b"?", 1)[0] != b"/metrics":
            return _response("404 Not Found", b"The metrics are at /metrics.\n")
        if method not in {b"GET", b"HEAD"}:
            return _response("405 Method Not Allowed", headers="Allow: GET, HEAD\r\n")
        async with self._scrape:
            body = await self._text()
        return _response("200 OK", body, CONTENT_TYPE_PLAIN_0_0_4, with_body=method == b"GET")


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    """The first lines of a request; None for too much."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return None


class RegistryText:
    """A registry in the text format, read in slices."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    async def __call__(self) -> bytes:
        """All metrics. One that cannot be read is left out, with an error in the log."""
        text = bytearray()
        now_ms = self._clock.monotonic_ms
        until_ms = now_ms() + SLICE_MS
        for metric in self._registry:
            start = len(text)
            try:
                for piece in _pieces(metric):
                    text += piece
                    if now_ms() >= until_ms:
                        await asyncio.sleep(0)
                        until_ms = now_ms() + SLICE_MS
            except Exception:
                del text[start:]
                _log.error("metric.failed", metric=metric.name, exc_info=True)
        return bytes(text)


def _pieces(metric: Metric) -> Iterator[bytes]:
    """The text of a metric, in pieces of `PIECE` samples; an empty one where the reading makes a pause."""
    samples: list[Reading] = []
    is_first = True
    for looked_at, reading in enumerate(metric.read()):
        if reading is not None:
            samples.append(reading)
        if len(samples) >= PIECE:
            yield _piece(metric, samples, is_first=is_first)
            is_first = False
            samples = []
        elif looked_at % PIECE == PIECE - 1:
            yield b""
    if samples or is_first:
        yield _piece(metric, samples, is_first=is_first)


def _piece(metric: Metric, samples: list[Reading], *, is_first: bool) -> bytes:
    name = metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name
    family = Family(name, metric.doc, metric.kind.value)
    for values, figure in samples:
        labels = {label: value for label, value in zip(metric.labels, values, strict=True) if value}
        if not isinstance(figure, Distribution):
            family.add_sample(metric.name, labels, float(figure))
            continue
        for quantile, value in zip(QUANTILES, figure.quantiles, strict=True):
            family.add_sample(metric.name, {**labels, "quantile": f"{quantile:.3f}".removesuffix("0")}, value)
        family.add_sample(f"{metric.name}_count", labels, float(figure.count))
    text = generate_latest(_Only(family))
    # The two lines about the metric stand before its first samples only.
    return text if is_first else text.split(b"\n", 2)[2]


class _Only:
    """What the library takes for a registry: one family."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> list[Family]:
        return [self._family]


def _response(
    status: str,
    body: bytes = b"",
    content_type: str = "text/plain; charset=utf-8",
    *,
    headers: str = "",
    with_body: bool = True,
) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        f"{headers}Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")

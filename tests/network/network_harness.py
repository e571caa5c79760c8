"""A server whose service is written in the test, clients on bare sockets, files, and a clock that stands
still.
"""

import asyncio
import contextlib
import os
import struct
from collections.abc import Callable
from typing import Any

from barnabas.core.chunks import FileSlice
from barnabas.network.endpoints import Endpoint
from barnabas.network.socket_server import SocketServer

LOOPBACK = Endpoint("PLAINTEXT", "127.0.0.1", 0)
TIMEOUT_S = 10


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class FunctionService:
    """A service of one function; remembers what it was asked."""

    remember = True

    def __init__(self, function: Callable[[Any, memoryview], Any]) -> None:
        self.function = function
        self.requests: list[bytes] = []
        self.peers: list[Any] = []

    def handle(self, peer, frame):
        if self.remember:
            self.requests.append(bytes(frame))
            self.peers.append(peer)
        return self.function(peer, frame)

    def begin_turn(self):
        """It does nothing for several requests together."""

    def end_turn(self):
        """It has nothing to add."""


def echo(_peer, frame):
    return [framed(bytes(frame))]


class RawClient:
    """The other end of a connection, with no manners of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1") -> "RawClient":
        return cls(*await asyncio.open_connection(host, port, limit=2**26))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(self, body: bytes) -> bytes:
        self.send(framed(body))
        return await self.response()

    async def response(self) -> bytes:
        async with asyncio.timeout(TIMEOUT_S):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Waits for the server to close the connection."""
        async with asyncio.timeout(TIMEOUT_S):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


class Harness:
    """One running server."""

    def __init__(self, server: SocketServer, service: FunctionService, port: int) -> None:
        self.server = server
        self.service = service
        self.port = port
        self.clients: list[RawClient] = []

    async def client(self) -> RawClient:
        client = await RawClient.connect(self.port)
        self.clients.append(client)
        return client

    async def until(self, condition: Callable[[], object]) -> None:
        """Turns the loop until something has happened."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():  # noqa: ASYNC110 - any condition, with nobody to set an event
                await asyncio.sleep(0.001)


class FakeClock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Any] = []

    def time_ms(self) -> int:
        return int(self.now)

    def monotonic_ms(self) -> float:
        return self.now

    def call_later(self, delay_ms, callback):
        timer = FakeTimer(self.now + delay_ms, callback)
        self.timers.append(timer)
        return timer

    def call_soon(self, callback):
        self.call_later(0, callback)

    def advance(self, ms: float) -> None:
        self.now += ms
        due = [timer for timer in self.timers if timer.when <= self.now]
        self.timers = [timer for timer in self.timers if timer.when > self.now]
        for timer in due:
            if not timer.cancelled:
                timer.callback()


class FakeTimer:
    def __init__(self, when, callback):
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self):
        self.cancelled = True


class MemoryFile:
    """A file of a simulated disk: no descriptor."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def fileno(self) -> int:
        return -1

    def pread(self, size: int, position: int) -> bytes:
        return self.data[position : position + size]


class DiskFile:
    """A real file, as the log opens it."""

    def __init__(self, path) -> None:
        self.handle = path.open("rb")

    def fileno(self) -> int:
        return self.handle.fileno()

    def pread(self, size: int, position: int) -> bytes:
        return os.pread(self.handle.fileno(), size, position)

    def slice(self, position: int, size: int) -> FileSlice:
        return FileSlice(self, position, size)

    def __del__(self) -> None:
        self.handle.close()

"""`BoundedServer`: uvicorn's server, with bounds for connections whose TLS handshake is not over.

asyncio makes the transport of a connection, and tells nobody before the handshake is over. Until then the
connection is in no count of uvicorn's, and may take a minute: a thousand of them, which cost their sender a
packet each, would take all file descriptors, and nobody else could connect. Here the listening socket is read
by `Entrance`, which knows each connection from its first moment on. Without TLS a connection is through at
once, and takes the same way.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address
from typing import Any, Final, NamedTuple

import uvicorn

from barnabas.console.fair_shares import make_room

HANDSHAKES_MAX: Final = 64
"""Handshakes that may be under way. One more ends the oldest of the address that has the most of them, so
nobody keeps others out from one address. A browser's takes two round trips, and is rarely the oldest.
"""
HANDSHAKES_EACH: Final = 32
"""Those of one address."""
HANDSHAKE_S: float = 10.0
_NO_DESCRIPTOR_S: Final = 1.0
"""How long nothing is accepted after the system had no file descriptor for a connection."""


class BoundedServer(uvicorn.Server):
    """uvicorn's server on sockets that are given to it, with an `Entrance` at each."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept."""
        await super().startup(sockets=[])
        self.servers.extend(Entrance(each, self._connect) for each in sockets or [])  # type: ignore[misc]

    async def _connect(self, connection: socket.socket) -> None:
        """Hands a connection over to uvicorn, where need be after its handshake. Raises OSError."""
        await asyncio.get_running_loop().connect_accepted_socket(
            self._protocol,
            connection,
            ssl=self.config.ssl,
            ssl_handshake_timeout=None if self.config.ssl is None else HANDSHAKE_S,
        )

    def _protocol(self) -> asyncio.Protocol:
        settings: dict[str, Any] = {
            "config": self.config,
            "server_state": self.server_state,
            "app_state": self.lifespan.state,
        }
        made: asyncio.Protocol = self.config.http_protocol_class(**settings)
        return made


class _Handshake(NamedTuple):
    """A connection that is not through yet."""

    network: str
    task: asyncio.Task[None]


class Entrance:
    """Accepts connections at a socket, as an `asyncio.Server` does, and ends the oldest of those that are not
    through yet where there are too many.
    """

    def __init__(self, listener: socket.socket, connect: Callable[[socket.socket], Awaitable[None]]) -> None:
        self._listener = listener
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[socket.socket, _Handshake] = {}
        """The oldest first."""
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._open()

    def close(self) -> None:
        """Accepts no more, and ends those that are not through."""
        self._loop.remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()
        for one in self._under_way.values():
            one.task.cancel()

    async def wait_closed(self) -> None:
        """Returns when none is under way any more."""
        if self._under_way:
            await asyncio.wait([one.task for one in self._under_way.values()])

    def _open(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Takes one connection; where more wait, the loop calls again."""
        try:
            connection, address = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionError):
            # Who has asked is gone.
            return
        except OSError:
            # The system has no descriptor. The socket stays readable, so the loop would turn without an end.
            self._loop.remove_reader(self._listener)
            self._pause = self._loop.call_later(_NO_DESCRIPTOR_S, self._open)
            return
        network = _network(address[0])
        for one in make_room(
            self._under_way,
            lambda one: one.network,
            network,
            each_max=HANDSHAKES_EACH,
            total_max=HANDSHAKES_MAX,
        ):
            one.task.cancel()
        self._under_way[connection] = _Handshake(network, self._begin(connection))

    def _begin(self, connection: socket.socket) -> asyncio.Task[None]:
        async def through() -> None:
            # The client went away, spoke no TLS, or took too long.
            with contextlib.suppress(OSError):
                await self._connect(connection)

        def over(task: asyncio.Task[None]) -> None:
            self._under_way.pop(connection, None)
            if task.cancelled():
                # A task that was cancelled before its first step has not closed it. For the others this is
                # the second time, which does no harm.
                connection.close()

        task = self._loop.create_task(through())
        task.add_done_callback(over)
        return task


def _network(host: str) -> str:
    """What counts as one address: of IPv6 the first half, as a host has a network of them."""
    if ":" not in host:
        return host
    return str(int(IPv6Address(host.partition("%")[0])) >> 64)

"""`BoundedConnection`: uvicorn's connection of HTTP/1.1, with an end for whoever is slow, silent or large.

Theory of operation
-------------------
uvicorn bounds how many connections there are (`CONNECTIONS_MAX`; then each request is 503), and how long one
is kept after an answer. It waits without an end for a request that does not come whole, and for a client that
does not read its answer: whoever opens enough of such connections would keep everybody else out. Here

- a request has to be whole, its body included, `WHOLE_S` after its connection was made, or after its first
  byte on a connection that is kept;
- a client that reads nothing of an answer for `STALLED_S` loses its connection;
- when connections are scarce (`SCARCE`), a new one takes the place of the one that has waited the longest for
  its request to be whole, or that reads nothing of its answer. A page is asked for in one packet, and read as
  it comes, so it is not the one that loses;
- bytes are looked at in slices: h11 bounds what is not whole yet, and would take a head of any size that
  comes in one read.

What is no HTTP is answered with 400 where an answer can still be given, and ends the connection.
"""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX: Final = 200
SCARCE: Final = 150
"""Connections from which on the slowest makes room for a new one."""
HEAD_BYTES_MAX: Final = 48 << 10
"""The first line and the headers of a request, and one slice more."""
WHOLE_S: float = 20.0
STALLED_S: float = 30.0
_SLICE: Final = 1 << 14
_UNFINISHED: Final = (h11.IDLE, h11.SEND_BODY)
"""Where the client is while its request is not whole."""


class BoundedConnection(H11Protocol):
    """One connection."""

    _since: float = 0.0
    """When the connection was made or its last answer was whole, by the loop's clock."""
    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a place, where need be that of the one that has waited the longest."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._bound()
        if len(self.connections) > SCARCE:
            waiting = [
                one for one in self.connections if isinstance(one, BoundedConnection) and one.is_waiting
            ]
            min(waiting, key=lambda one: one._since, default=self).transport.abort()  # noqa: SLF001 - its own

    @property
    def is_waiting(self) -> bool:
        """Whether the client has still to send something, or to take it; or its end has begun, and its place
        is free in a moment.
        """
        is_ending, is_unread = self.transport.is_closing(), self._stalled is not None
        return is_ending or is_unread or self.conn.their_state in _UNFINISHED

    def data_received(self, data: bytes) -> None:
        """Reads, slice by slice."""
        for begin in range(0, len(data), _SLICE):
            if self.transport.is_closing():
                return
            super().data_received(data[begin : begin + _SLICE])
        self._bound()

    def handle_events(self) -> None:
        """Requests that have come; one that breaks the protocol within its answer ends the connection."""
        try:
            super().handle_events()
        except h11.LocalProtocolError:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Says that it is no HTTP; what was answering before answers nobody."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the timers."""
        self._end_deadline()
        self._end_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads nothing for now."""
        super().pause_writing()
        self._stalled = self._stalled or self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        self._end_stall()
        super().resume_writing()

    def _bound(self) -> None:
        """Begins the time for a request that is not whole; that of one that is whole ends."""
        if self.conn.their_state not in _UNFINISHED:
            self._end_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(WHOLE_S, self.transport.abort)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def settings() -> dict[str, Any]:
    """What uvicorn has to be told for these connections."""
    return {
        "http": BoundedConnection,
        # No page has a socket: an upgrade is answered as the request that it is.
        "ws": "none",
        "limit_concurrency": CONNECTIONS_MAX,
        "h11_max_incomplete_event_size": HEAD_BYTES_MAX,
        # Each bad request would be a line.
        "log_level": "error",
    }

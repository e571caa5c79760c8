"""A plaintext socket on the loop that continues a send by itself (Kafka's ``KafkaChannel``), at either end.

What a flush waits for is over when the socket is writable again, or when a thread has read a cold range of a
file into memory. Then the next flush follows, and the owner hears what it came to.
"""

import asyncio
import socket
from concurrent.futures import Executor, Future
from typing import Final, Protocol

from barnabas.network.pagecache import read_ahead
from barnabas.network.send_queue import Flush, SendQueue

_DRAINED: Final = Flush.DRAINED


class ChannelOwner(Protocol):
    """The connection around a channel."""

    def flushed(self, outcome: Flush) -> None:
        """Something was sent in a later turn of the loop; with DRAINED, everything was."""

    def send_failed(self, error: Exception) -> None:
        """The socket or a file is broken: close the connection."""


class KafkaChannel(SendQueue):
    """A `SendQueue` that is continued by the loop."""

    __deletable__ = ("_owner",)

    __slots__ = ("_loop", "_owner", "_threads", "waits_for")

    def __init__(
        self, sock: socket.socket, loop: asyncio.AbstractEventLoop, threads: Executor, owner: ChannelOwner
    ) -> None:
        super().__init__(sock)
        self._loop = loop
        self._threads = threads
        self._owner = owner
        self.waits_for = _DRAINED
        """What the last flush came to; nothing may be sent, and is only queued, unless it is DRAINED."""

    def wait(self, outcome: Flush) -> None:
        """Sees to it that what a flush could not send is sent later."""
        self.waits_for = outcome
        if outcome is Flush.BLOCKED:
            self._loop.add_writer(self._socket, self._go_on)
        elif outcome is Flush.COLD:
            self._warm_up()

    def close(self) -> None:
        """Forgets everything, and with it the files and the owner:
        no cycle keeps a closed connection in memory.
        """
        if self.waits_for is Flush.BLOCKED:
            self._loop.remove_writer(self._socket)
        self.waits_for = _DRAINED
        self.clear()
        del self._owner

    def _go_on(self) -> None:
        try:
            outcome = self.flush()
        except OSError as error:
            self._owner.send_failed(error)
            return
        if outcome is not self.waits_for or outcome is Flush.COLD:
            if self.waits_for is Flush.BLOCKED:
                self._loop.remove_writer(self._socket)
            self.wait(outcome)
        self._owner.flushed(outcome)

    def _warm_up(self) -> None:
        piece, position, end = self.cold_range()
        loop = self._loop

        # The closure holds the slice, so the file stays open while the thread reads.
        def done(future: Future[None], _piece: object = piece) -> None:
            if not future.cancelled() and not loop.is_closed():
                loop.call_soon_threadsafe(self._on_warm, end, future.exception())

        reading = self._threads.submit(read_ahead, piece.file.fileno(), position, end)
        reading.add_done_callback(done)

    def _on_warm(self, end: int, error: BaseException | None) -> None:
        if self.waits_for is not Flush.COLD:
            # Closed meanwhile.
            return
        if isinstance(error, Exception):
            self._owner.send_failed(error)
            return
        self.warmed(end)
        self._go_on()

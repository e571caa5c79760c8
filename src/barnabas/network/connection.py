"""A plaintext connection that owns its socket.

Theory of operation
-------------------
asyncio's transports copy every byte twice and cost 4 us a frame; here the loop only says when the socket
is readable or writable. On readable: one ``recv`` into the shared buffer (or into the frame under way),
every complete request is handled, and all their responses go out with one ``send``, then files with
``sendfile``. What does not fit the socket waits for writable, and until it is gone nothing more is read.

The reader is taken off the loop lazily: only when the peer sends while the conversation does not want to
read. A client with one request in flight therefore never pays for the change.

A response that is completed by someone else (a timer, another connection) wakes the connection; all woken
in one turn of the loop are pumped together in the next, through `Hub.schedule`.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final, Protocol

from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.network.conversation import Conversation
from barnabas.network.errors import CloseConnection
from barnabas.network.frames import FrameReader
from barnabas.network.pagecache import read_ahead
from barnabas.network.peer import ListenerId, Service
from barnabas.network.sender import Flush, Sender

events = EventLog("network")

LITTLE_BYTES: Final = 64 * 1024
"""Output up to this is joined and sent at once; more is gathered without a copy."""


class Hub(Protocol):
    """What connections of one server share."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    service: Service

    @property
    def readers(self) -> Executor:
        """Threads that bring cold ranges of files into memory."""

    def new_reader(self) -> FrameReader:
        """A frame reader over the shared receive buffer."""

    def schedule(self, pump: Callable[[], None]) -> None:
        """Runs it in the next turn of the loop, once, with all others that were scheduled."""

    def forget(self, connection: "Connection") -> None:
        """The connection is closed."""


class Connection:
    """What plaintext and TLS connections have in common: the conversation, and how it ends."""

    __slots__ = (
        "_awake",
        "_busy",
        "_draining",
        "_hub",
        "active",
        "conversation",
        "idle_since_ms",
        "listener",
        "open",
    )

    def __init__(self, hub: Hub, listener: ListenerId, address: tuple[str, int]) -> None:
        self._hub = hub
        self.listener = listener
        self.conversation = Conversation(
            hub.service, self, hub.new_reader(), hub.clock, listener=listener, address=address
        )
        self.open = True
        self.active = True
        """Whether bytes went either way since the idle sweep last looked."""
        self.idle_since_ms = 0.0
        self._awake = False
        self._busy = False
        self._draining = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the peer."""
        return self.conversation.peer.address

    @property
    def sending(self) -> bool:
        """Whether something was handed to the system only in part."""
        raise NotImplementedError

    def wake(self) -> None:
        """The conversation has output, or wants to go on; see `Transport`."""
        if self.open and not self._awake and not self._busy:
            self._awake = True
            self._hub.schedule(self._on_awake)

    def _on_awake(self) -> None:
        self._awake = False
        if self.open:
            self._pump()

    def _pump(self) -> None:
        """Sends and handles until nothing is left or the peer does not keep up."""
        self._run(0)

    def _received(self, count: int) -> None:
        """Handles what has come, and goes on as `_pump` does."""
        self.active = True
        self._run(count)

    def _run(self, count: int) -> None:
        conversation = self.conversation
        self._busy = True
        try:
            if count:
                conversation.received(count)
            while self._send() and conversation.runnable:
                conversation.resume()
        except Exception as error:
            self.abort(error)
        self._busy = False
        if self._draining:
            self._close_if_settled()
        if self.open:
            self._read_on()

    def _send(self) -> bool:
        """Sends the conversation's output; False if the transport takes no more for now."""
        raise NotImplementedError

    def _read_on(self) -> None:
        """Reads again if it was paused and the conversation wants to."""
        raise NotImplementedError

    def abort(self, error: Exception) -> None:
        """Closes with one log line whose weight says whose fault it is."""
        if not self.open:
            return
        fields = {"peer": f"{self.address[0]}:{self.address[1]}", "listener": self.listener.name}
        if isinstance(error, CloseConnection):
            events.warning("network.connection_closed", **fields, reason=error.reason)
        elif isinstance(error, ConnectionError | TimeoutError):
            events.debug("network.connection_lost", **fields, reason=error)
        elif isinstance(error, OSError):
            events.error("network.connection_failed", **fields, reason=error)
        else:
            events.error("network.request_failed", **fields, reason=repr(error), exc_info=error)
        self.close()

    def close(self) -> None:
        """Ends the connection now; what was not sent is dropped. Harmless when it is closed."""
        if self.open:
            self.open = False
            self._close_transport()
            self.conversation.closed()
            self._hub.forget(self)

    def drain(self) -> None:
        """Takes no further request, sends what is owed, and closes then."""
        self._draining = True
        self.conversation.drain()
        self._close_if_settled()

    def _close_if_settled(self) -> None:
        if not self.conversation.waiting and not self.conversation.output_bytes and not self.sending:
            self.close()

    def _close_transport(self) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        host, port = self.address
        return (
            f"<{type(self).__name__} {host}:{port} {'open' if self.open else 'closed'} {self.conversation}>"
        )


class PlainConnection(Connection):
    """The connection of the module's docstring."""

    __slots__ = ("_cold", "_reading", "_sender", "_socket", "_writing")

    def __init__(self, hub: Hub, listener: ListenerId, sock: socket.socket, address: tuple[str, int]) -> None:
        super().__init__(hub, listener, address)
        self._socket = sock
        self._sender = Sender(sock)
        self._writing = False
        self._cold = False
        self._reading = True
        hub.loop.add_reader(sock, self._on_readable)

    @property
    def sending(self) -> bool:
        """Whether something waits for the socket or for the disk."""
        return self._writing or self._cold

    def _on_readable(self) -> None:
        conversation = self.conversation
        if self._writing or self._cold or not conversation.wants_read:
            self._hub.loop.remove_reader(self._socket)
            self._reading = False
            return
        buffers = conversation.buffers()
        try:
            if len(buffers) == 1:
                count = self._socket.recv_into(buffers[0])
            else:
                count = self._socket.recvmsg_into(buffers)[0]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.abort(error)
            return
        if count:
            self._received(count)
        else:
            # Like Kafka's selector: who closes its half is gone, and what it still waits for is dropped.
            self.close()

    def _send(self) -> bool:
        conversation = self.conversation
        while not (self._writing or self._cold):
            if not conversation.output_bytes:
                return True
            little = conversation.output_bytes <= LITTLE_BYTES
            output = conversation.take_output()
            if little:
                outcome = self._sender.send(output)
            else:
                self._sender.push(output)
                outcome = self._sender.flush()
            if outcome is not Flush.DRAINED:
                self._wait(outcome)
        return False

    def _wait(self, outcome: Flush) -> None:
        """Sees to it that sending goes on."""
        if outcome is Flush.COLD:
            self._warm_up()
        else:
            self._writing = True
            self._hub.loop.add_writer(self._socket, self._on_writable)

    def _on_writable(self) -> None:
        self.active = True
        try:
            outcome = self._sender.flush()
        except OSError as error:
            self.abort(error)
            return
        if self._writing and outcome is Flush.BLOCKED:
            return
        if self._writing:
            self._writing = False
            self._hub.loop.remove_writer(self._socket)
        if outcome is Flush.DRAINED:
            self._pump()
        else:
            self._wait(outcome)

    def _warm_up(self) -> None:
        """Lets a thread read the next range of a file, and goes on when it is in memory."""
        piece, position, end = self._sender.cold_range()
        self._cold = True
        reading = self._hub.readers.submit(read_ahead, piece.file.fileno(), position, end)
        loop = self._hub.loop

        # The closure holds the slice, so the file stays open while the thread reads.
        def done(future: "Future[None]", _piece: object = piece) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._on_warm, end, future.exception())

        reading.add_done_callback(done)

    def _on_warm(self, end: int, error: BaseException | None) -> None:
        self._cold = False
        if not self.open:
            return
        if isinstance(error, Exception):
            self.abort(error)
            return
        self._sender.warmed(end)
        self._on_writable()

    def _read_on(self) -> None:
        if not self._reading and not self.sending and self.conversation.wants_read:
            self._reading = True
            self._hub.loop.add_reader(self._socket, self._on_readable)

    def _close_transport(self) -> None:
        loop = self._hub.loop
        if self._reading:
            loop.remove_reader(self._socket)
        if self._writing:
            loop.remove_writer(self._socket)
        self._sender.clear()
        self._socket.close()

"""A plaintext connection that owns its socket.

Theory of operation
-------------------
asyncio's transports copy every byte twice and cost 4 us a frame; here the loop only says when the socket
is readable or writable. On readable: one ``recv`` into the shared buffer (or into the frame under way),
every complete request is handled, and all their responses go out with one ``send``, then files with
``sendfile``. What does not fit the socket waits for writable, and until it is gone nothing more is read.

The reader is taken off the loop lazily: only when the peer sends while the conversation does not want to
read. A client with one request in flight therefore never pays for the change.
"""

import socket
from concurrent.futures import Future
from typing import Final

from barnabas.network.connection import Connection, Hub
from barnabas.network.low_water import LowWater
from barnabas.network.pagecache import read_ahead
from barnabas.network.peer import ListenerId
from barnabas.network.sender import Flush, Sender

LITTLE_BYTES: Final = 64 * 1024
"""Output up to this is joined and sent at once; more is gathered without a copy."""


class PlainConnection(Connection):
    """A connection on a listener whose security protocol is PLAINTEXT (or SASL_PLAINTEXT)."""

    __slots__ = ("_cold", "_low_water", "_reading", "_sender", "_socket", "_writing")

    def __init__(self, hub: Hub, listener: ListenerId, sock: socket.socket, address: tuple[str, int]) -> None:
        super().__init__(hub, listener, address)
        self._socket = sock
        self._sender = Sender(sock)
        self._low_water = LowWater(sock)
        self._writing = False
        self._cold = False
        self._reading = True
        hub.loop.add_reader(sock, self._on_readable)

    @property
    def sending(self) -> bool:
        """Whether something waits for the socket or for the disk."""
        return self._writing or self._cold

    def _on_readable(self) -> None:
        """Reads once and answers."""
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
        if not count:
            # Like Kafka's selector: who closes its half is gone, and what it still waits for is dropped.
            self.close()
            return
        self._exchange(count)
        missing = conversation.missing
        if (missing or self._low_water.mark != 1) and self.open:
            self._low_water.expect(missing)

    def _exchange(self, count: int) -> None:
        """Handles what has come, and sends the responses."""
        self.active = self._busy = True
        try:
            answer = self.conversation.exchange(count)
            if answer is not None and self.open:
                outcome = self._sender.send_bytes(answer)
                if outcome is not Flush.DRAINED:
                    self._wait(outcome)
        except Exception as error:
            self._failed(error)
            answer = None
        self._busy = False
        if self.open and (answer is None or self._draining):
            self._run(0)

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
        def done(future: Future[None], _piece: object = piece) -> None:
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

    def look_closer(self) -> None:
        """A frame that comes slower than its low-water mark is under way all the same."""
        self._low_water.expect(0)

    def _close_transport(self) -> None:
        loop = self._hub.loop
        if self._reading:
            loop.remove_reader(self._socket)
        if self._writing:
            loop.remove_writer(self._socket)
        self._sender.clear()
        self._socket.close()

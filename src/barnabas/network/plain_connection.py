"""A plaintext connection that owns its socket.

Theory of operation
-------------------
asyncio's transports copy every byte twice and cost 4 us a frame; here the loop only says when the socket is
readable or writable. On readable: one ``recv`` into the shared buffer (or into the frame under way), every
complete request is handled, and all their responses go out with one ``send``, then files with ``sendfile``.
What does not fit the socket waits until it is writable, and nothing more is read before all of it is sent.

The reader is taken off the loop lazily: only when the peer sends while the conversation does not want to
read. A client with one request in flight therefore never pays for the change.
"""

import socket
from collections.abc import Callable
from typing import Final

from barnabas.network.connection import Connection
from barnabas.network.kafka_channel import KafkaChannel
from barnabas.network.low_water import LowWater
from barnabas.network.peer import ListenerId
from barnabas.network.processor import Processor
from barnabas.network.send_queue import Flush

LITTLE_BYTES: Final = 64 * 1024
"""Output up to this is joined and sent at once; more is gathered without a copy."""

_DRAINED: Final = Flush.DRAINED


class PlainConnection(Connection):
    """A connection on a listener whose security protocol is PLAINTEXT (or SASL_PLAINTEXT)."""

    __slots__ = ("_channel", "_low_water", "_reading", "_socket")

    def __init__(
        self,
        processor: Processor,
        listener: ListenerId,
        address: tuple[str, int],
        on_closed: Callable[[Connection], None],
        sock: socket.socket,
    ) -> None:
        super().__init__(processor, listener, address, on_closed)
        self._socket = sock
        self._channel = KafkaChannel(sock, processor.loop, processor.threads, self)
        self._low_water = LowWater(sock)
        self._reading = True
        processor.loop.add_reader(sock, self._on_readable)

    @property
    def sending(self) -> bool:
        return self._channel.waits_for is not _DRAINED

    def _on_readable(self) -> None:
        conversation = self.conversation
        if self._channel.waits_for is not _DRAINED or not conversation.wants_read:
            self._processor.loop.remove_reader(self._socket)
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
            # As in Kafka's selector: a peer that closes its half has closed the connection, and the answers
            # that it still waits for are dropped.
            self.close()
            return
        self.active = True
        self._run(count)
        missing = conversation.missing
        if (missing or self._low_water.mark != 1) and self.open:
            self._low_water.expect(missing)

    def _send(self) -> bool:
        conversation, channel = self.conversation, self._channel
        while channel.waits_for is _DRAINED:
            if not conversation.output_bytes:
                return True
            little = conversation.output_bytes <= LITTLE_BYTES
            output = conversation.take_output()
            if little:
                outcome = channel.send(output)
            else:
                channel.push(output)
                outcome = channel.flush()
            if outcome is not _DRAINED:
                channel.wait(outcome)
        return False

    def _send_bytes(self, answer: bytes) -> None:
        outcome = self._channel.send_bytes(answer)
        if outcome is not _DRAINED:
            self._channel.wait(outcome)

    def flushed(self, outcome: Flush) -> None:
        self.active = True
        if outcome is _DRAINED:
            self._run()

    def send_failed(self, error: Exception) -> None:
        self.abort(error)

    def _read_on(self) -> None:
        if not self._reading and not self.sending and self.conversation.wants_read:
            self._reading = True
            self._processor.loop.add_reader(self._socket, self._on_readable)

    def look_closer(self) -> None:
        """A frame that comes slower than its low-water mark is under way all the same."""
        self._low_water.expect(0)

    def _close_transport(self) -> None:
        if self._reading:
            self._processor.loop.remove_reader(self._socket)
        self._channel.close()
        self._socket.close()

"""A TLS connection: the same conversation over an asyncio transport.

asyncio does the handshake and the records; ranges of files are read in steps, each when the transport's
buffer has gone down, so that a slow peer holds two steps in memory however much it asked for.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final

from barnabas.core.chunks import Chunk, FileSlice
from barnabas.network.connection import Connection, events
from barnabas.network.peer import ListenerId
from barnabas.network.processor import Processor

STEP_BYTES: Final = 256 * 1024
"""How much of a file is read and encrypted at a time."""


class TlsConnection(Connection, asyncio.BufferedProtocol):
    """A connection on a listener whose security protocol is SSL or SASL_SSL."""

    def __init__(
        self,
        processor: Processor,
        listener: ListenerId,
        address: tuple[str, int],
        on_closed: Callable[[Connection], None],
        sock: socket.socket,
        context: ssl.SSLContext,
    ) -> None:
        super().__init__(processor, listener, address, on_closed)
        self._queue: deque[Chunk] = deque()
        self._full = False
        self._reading = True
        self._transport: asyncio.Transport | None = None
        self._handshake = processor.loop.create_task(self._shake_hands(sock, context))

    async def _shake_hands(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        try:
            await self._processor.loop.connect_accepted_socket(lambda: self, sock, ssl=context)
        except (OSError, ssl.SSLError) as error:
            events.info("network.tls_handshake_failed", peer=self.address[0], reason=error)
            sock.close()
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=STEP_BYTES)
        if not self.open:
            transport.abort()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next decrypted bytes go."""
        return self.conversation.buffers()[0]

    def buffer_updated(self, nbytes: int) -> None:
        if self.open:
            self.active = True
            self._run(nbytes)

    def eof_received(self) -> bool:
        """The peer will send no more; as on plaintext the connection is closed."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:
            self.abort(exc)
        self.close()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self.active = True
        if self.open and not self._busy:
            self._run()

    @property
    def sending(self) -> bool:
        """Whether the transport takes no more for now, or something was not handed to it yet."""
        return self._full or bool(self._queue)

    def _send(self) -> bool:
        transport = self._transport
        if transport is None:
            return False
        while not self._full:
            if not self._queue:
                if not self.conversation.output_bytes:
                    return True
                self._queue.extend(self.conversation.take_output())
            transport.write(b"".join(self._next_step()))
        return False

    def _send_bytes(self, answer: bytes) -> None:
        self._queue.append(answer)
        self._send()

    def _next_step(self) -> list[bytes | bytearray | memoryview]:
        parts: list[bytes | bytearray | memoryview] = []
        size = 0
        while self._queue and size < STEP_BYTES:
            chunk = self._queue.popleft()
            if isinstance(chunk, FileSlice):
                step = min(chunk.size, STEP_BYTES - size)
                if step < chunk.size:
                    rest = FileSlice(chunk.file, chunk.position + step, chunk.size - step)
                    self._queue.appendleft(rest)
                chunk = FileSlice(chunk.file, chunk.position, step).read()
            parts.append(chunk)
            size += len(chunk)
        return parts

    def _read_on(self) -> None:
        transport = self._transport
        wants = self.conversation.wants_read and not self._queue
        if transport is not None and wants != self._reading and not transport.is_closing():
            self._reading = wants
            if wants:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _close_transport(self) -> None:
        self._queue.clear()
        if self._transport is None:
            self._handshake.cancel()
        elif self.conversation.output_bytes or self._full:
            self._transport.abort()
        else:
            self._transport.close()

"""The sending half of a plaintext connection: memory with one system call, files with ``sendfile``.

Theory of operation
-------------------
Chunks queue up and `flush` sends as much as the socket takes. Memory in front of a range of a file goes out
with ``MSG_MORE``, so that header and file share segments. Small ranges are read and become memory: a
``sendfile`` costs more than the copy. A large range is sent in windows; of each window only the part that
is in the page cache, and where that is nothing, `flush` says COLD and names the range for a thread to read.

It refuses to know the event loop: `flush` returns what it waits for.
"""

import os
import socket
from collections import deque
from enum import Enum
from typing import Final

from barnabas.core.chunks import Buffer, Chunk, Chunks, FileSlice
from barnabas.network.pagecache import warm_until

SENDFILE_BYTES_MIN: Final = 64 * 1024
"""Ranges below this are read and copied."""

WINDOW_BYTES: Final = 1024 * 1024
"""How far ahead a range is looked up in the page cache, and how much a thread reads at a time."""

_JOIN_BYTES_MAX: Final = 64 * 1024
_GATHER_BYTES_MAX: Final = 1024 * 1024
_GATHER_CHUNKS_MAX: Final = 512
_COPY_BYTES: Final = 256 * 1024
_MORE: Final = getattr(socket, "MSG_MORE", 0)
"""0 where the system has no such flag: header and file then go in segments of their own."""


class Flush(Enum):
    """What a flush came to."""

    DRAINED = "everything was sent"
    BLOCKED = "the socket takes no more for now"
    COLD = "the next range must be read into memory first"


class SendQueue:
    """What waits to be sent on one socket."""

    __slots__ = ("_copies", "_descriptor", "_file_sent", "_queue", "_socket", "_warm_until", "sent_bytes")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._descriptor = sock.fileno()
        # What is encrypted on its way has to pass through memory.
        self._copies: bool = getattr(sock, "encrypts", False)
        self._queue: deque[Chunk] = deque()
        self._file_sent = 0
        self._warm_until = 0
        self.sent_bytes = 0

    def push(self, chunks: Chunks) -> None:
        self._queue.extend(chunk for chunk in chunks if chunk)

    def send(self, chunks: Chunks) -> Flush:
        """Queues chunks and flushes; raises like `flush`.

        When nothing waits and it is all a little memory, it is sent without passing through the queue.
        """
        if self._queue:
            self.push(chunks)
            return self.flush()
        try:
            data = b"".join(chunks)  # type: ignore[arg-type]
        except TypeError:
            # A range of a file among them.
            self.push(chunks)
            return self.flush()
        return self.send_bytes(data)

    def send_bytes(self, data: bytes) -> Flush:
        """Sends memory when nothing else waits; what the socket does not take is queued."""
        assert not self._queue, "what was queued before would be overtaken"
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        self.sent_bytes += sent
        if sent < len(data):
            self._queue.append(memoryview(data)[sent:])
            return Flush.BLOCKED
        return Flush.DRAINED

    def flush(self) -> Flush:
        """Sends what the socket takes. Raises OSError of the socket or of a file."""
        queue = self._queue
        try:
            while queue:
                head = queue[0]
                if not isinstance(head, FileSlice) or head.size < SENDFILE_BYTES_MIN:
                    self._send_memory()
                elif head.file.fileno() < 0:
                    self._copy_from(head)
                else:
                    stop = self._send_file(head)
                    if stop is not None:
                        return stop
        except (BlockingIOError, InterruptedError):
            return Flush.BLOCKED
        return Flush.DRAINED

    def cold_range(self) -> tuple[FileSlice, int, int]:
        """After COLD: the slice, and the range of its file to read. Keep the slice while reading."""
        head = self._queue[0]
        assert isinstance(head, FileSlice)
        position = head.position + self._file_sent
        return head, position, min(head.position + head.size, position + WINDOW_BYTES)

    def warmed(self, end: int) -> None:
        """The cold range was read up to `end`: it is sent without another look."""
        self._warm_until = end

    def clear(self) -> None:
        self._queue.clear()

    def _send_memory(self) -> None:
        parts, size, more = self._gather()
        if size <= _JOIN_BYTES_MAX:
            sent = self._socket.send(b"".join(parts) if len(parts) > 1 else parts[0], more)
        else:
            sent = self._socket.sendmsg(parts, (), more)
        self.sent_bytes += sent
        if sent == size and len(parts) == len(self._queue):
            self._queue.clear()
        else:
            self._drop(sent)

    def _gather(self) -> tuple[list[Buffer], int, int]:
        """The memory at the head of the queue, its size, and MSG_MORE if anything follows it.

        Small ranges of files become memory here, when they are about to be sent: a response may have
        thousands, and a peer that does not read must not make them all memory.
        """
        parts: list[Buffer] = []
        size = 0
        for position, chunk in enumerate(self._queue):
            if size > _GATHER_BYTES_MAX or len(parts) == _GATHER_CHUNKS_MAX:
                return parts, size, _MORE
            if isinstance(chunk, FileSlice):
                if chunk.size >= SENDFILE_BYTES_MIN:
                    return parts, size, _MORE
                chunk = self._queue[position] = chunk.read()
            parts.append(chunk)
            size += len(chunk)
        return parts, size, 0

    def _drop(self, sent: int) -> None:
        queue = self._queue
        while sent:
            head = queue[0]
            assert not isinstance(head, FileSlice)
            if len(head) > sent:
                queue[0] = memoryview(head)[sent:]
                return
            sent -= len(head)
            queue.popleft()

    def _send_file(self, piece: FileSlice) -> Flush | None:
        """Sends the next window of a range; what stands in the way of more, if anything does."""
        position = piece.position + self._file_sent
        end = piece.position + piece.size
        if self._warm_until <= position:
            self._warm_until = warm_until(piece.file.fileno(), position, min(end, position + WINDOW_BYTES))
            if self._warm_until <= position:
                return Flush.COLD
        wanted = min(self._warm_until, end) - position
        if self._copies:
            wanted = min(wanted, _COPY_BYTES)
            sent = self._socket.send(FileSlice(piece.file, position, wanted).read())
        else:
            sent = os.sendfile(self._descriptor, piece.file.fileno(), position, wanted)
        if not sent:
            # The response's length has been promised: only closing the connection is honest now.
            raise OSError(f"the file ends at {position}, inside a range up to {end}")
        self.sent_bytes += sent
        self._file_sent += sent
        if position + sent == end:
            self._queue.popleft()
            self._file_sent = self._warm_until = 0
        # The socket took a part: it is full.
        return Flush.BLOCKED if sent < wanted else None

    def _copy_from(self, piece: FileSlice) -> None:
        """Turns the next bytes of a file without a descriptor (a simulated disk) into memory."""
        step = min(piece.size, _COPY_BYTES)
        self._queue[0] = FileSlice(piece.file, piece.position, step).read()
        if step < piece.size:
            self._queue.insert(1, FileSlice(piece.file, piece.position + step, piece.size - step))

    def __repr__(self) -> str:
        return f"<SendQueue queued={len(self._queue)} sent={self.sent_bytes}>"

"""Cuts a stream of bytes into frames.

    Stream => Frame*
      Frame => Size Body
        Size => INT32          bytes of Body, at most socket.request.max.bytes
        Body => header and message

Theory of operation
-------------------
Bytes are received into a buffer that all connections of a loop share, so that ten thousand idle
connections cost no receive memory. Complete frames are copied out of it, all frames of one read with one
copy; they are views of a fresh, writable buffer that belongs to the service. A frame that is
not complete gets a buffer of its own, and the next read scatters: first into the rest of that frame, what
is left over into the shared buffer. So a large frame is received where it stays.

A length is only a claim. A large frame is received into a spare block, of which all connections together have
a few megabytes. Where those are in use or too small, the frame's buffer grows with what has really come (to
at most four times of it), so a peer that announces 100 MB and sends ten bytes holds 64 KB.
"""

from struct import Struct
from typing import Final

from barnabas.core.spare_blocks import SpareBlocks
from barnabas.network.errors import CloseConnection

RECEIVE_BYTES: Final = 128 * 1024
"""Size of the shared receive buffer."""

SPARE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Memory for large frames that the connections of one loop keep between them."""

_FIRST_ALLOCATION_BYTES: Final = 64 * 1024
_SIZE: Final = Struct(">i")
_HEAD: Final = 4


class ReceiveMemory:
    """What the readers of one event loop share: the buffer of every read, and blocks for large frames."""

    __slots__ = ("buffer", "spares")

    def __init__(self, spare_bytes_max: int = SPARE_BYTES_MAX) -> None:
        self.buffer = bytearray(_HEAD + RECEIVE_BYTES)
        self.spares = SpareBlocks(spare_bytes_max)

    def __repr__(self) -> str:
        return f"<ReceiveMemory {self.spares!r}>"


class FrameReader:
    """The receiving half of one connection: receive into `buffers`, then say how much to `received`."""

    __slots__ = (
        "_filled",
        "_frame",
        "_head",
        "_landing",
        "_shared",
        "_size",
        "_spares",
        "problem",
        "size_max",
    )

    def __init__(self, memory: ReceiveMemory, size_max: int) -> None:
        self.size_max = size_max
        self.problem: CloseConnection | None = None
        """Set when a size came that is not allowed: what came before it is fine, nothing after it can be."""
        self._shared = shared = memory.buffer
        self._spares = memory.spares
        # An incomplete size (up to three bytes) is kept aside and put back in front of the next read.
        self._landing = memoryview(shared)[_HEAD:]
        self._head = b""
        self._frame: bytearray | memoryview | None = None
        self._filled = 0
        self._size = 0

    def buffers(self) -> list[memoryview]:
        """Where the next bytes go, in this order; valid until the next call of anything here."""
        frame = self._frame
        if frame is None:
            return [self._landing]
        rest = memoryview(frame)[self._filled :]
        return [rest, self._landing] if len(frame) == self._size else [rest]

    @property
    def missing(self) -> int:
        """Bytes that must still come for the frame under way; 0 when none is."""
        return 0 if self._frame is None else self._size - self._filled

    def received(self, count: int) -> list[memoryview]:
        """The frames that these `count` bytes complete; look at `problem` after them."""
        frame = self._frame
        if frame is None:
            return self._cut(_HEAD, _HEAD + count)
        overflow = count - (len(frame) - self._filled)
        if overflow < 0 or len(frame) < self._size:
            self._filled += count
            self._grow(frame)
            return []
        self._frame = None
        return [memoryview(frame), *(self._cut(_HEAD, _HEAD + overflow) if overflow else ())]

    def clear(self) -> None:
        """Lets go of the frame under way: its connection is closed."""
        self._frame = self.problem = None
        self._head = b""

    def _cut(self, start: int, end: int) -> list[memoryview]:
        """The frames between two positions of the shared buffer; a rest begins the next one."""
        shared, size_max, unpack = self._shared, self.size_max, _SIZE.unpack_from
        if self._head:
            start -= len(self._head)
            shared[start:_HEAD] = self._head
            self._head = b""
        size: int
        if end - start >= _HEAD:
            (size,) = unpack(shared, start)
            if start + _HEAD + size == end and 0 <= size <= size_max:
                return [memoryview(shared[start + _HEAD : end])]
            if start + _HEAD + size > end or size < 0:
                # Not one complete frame: what there is of a large one is copied once, to where it stays.
                self._begin(size, memoryview(shared)[start + _HEAD : end])
                return []
        # All complete frames of a read leave the shared buffer with one copy.
        data = memoryview(shared[start:end])
        frames: list[memoryview] = []
        position, end = 0, len(data)
        while end - position >= _HEAD:
            (size,) = unpack(data, position)
            position += _HEAD
            after = position + size
            if after > end or not 0 <= size <= size_max:
                self._begin(size, data[position:])
                return frames
            frames.append(data[position:after])
            position = after
        if position < end:
            self._head = bytes(data[position:])
        return frames

    def _begin(self, size: int, start: memoryview) -> None:
        """A frame that is not complete yet, or never will be."""
        # The texts of InvalidReceiveException (NetworkReceive).
        if size < 0:
            self.problem = CloseConnection(f"Invalid receive (size = {size})")
            return
        if size > self.size_max:
            self.problem = CloseConnection(f"Invalid receive (size = {size} larger than {self.size_max})")
            return
        self._size = size
        self._filled = len(start)
        grown = max(_FIRST_ALLOCATION_BYTES, 4 * len(start))
        self._frame = frame = self._spares.take(size) or bytearray(min(size, grown))
        frame[: len(start)] = start

    def _grow(self, frame: bytearray | memoryview) -> None:
        if self._filled == len(frame) < self._size:
            self._frame = larger = bytearray(min(self._size, 4 * self._filled))
            larger[: self._filled] = frame

    def __repr__(self) -> str:
        if self._frame is None:
            return "<FrameReader between frames>"
        return f"<FrameReader {self._filled} of {self._size} bytes>"

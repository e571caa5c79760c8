"""Large blocks of memory that are used again, because fresh memory is paid for page by page.

Theory of operation
-------------------
The system hands out a megabyte by mapping it and takes it back when it is freed; each of its 256 pages costs
a fault when it is first touched: half a microsecond on bare metal, five on some virtual machines, which is
more than a second a gigabyte. So code that fills one large block after the other takes them from here.

Nothing has to be given back. What is handed out is a view, and Python refuses to resize a bytearray as long
as any view, array or Arrow buffer looks at it: a block that can be resized is free. What a block held before
is still in it, so its user shows only what it has written.
"""

from typing import Final

BLOCK_BYTES_MIN: Final = 64 * 1024
"""Smaller pieces are better left to the allocator, which reuses them by itself."""

_STEP_BYTES: Final = 256 * 1024


class SpareBlocks:
    """Blocks of at most `bytes_max` bytes in all, each free as soon as nothing refers to it."""

    __slots__ = ("_blocks", "_bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self._blocks: list[bytearray] = []
        self._bytes_max = bytes_max

    @property
    def bytes_held(self) -> int:
        """Size of all blocks, free or not."""
        return sum(map(len, self._blocks))

    def take(self, size: int) -> memoryview | None:
        """A writable view of `size` bytes;
        None for a small one, or when all blocks together would be too large.
        """
        if size < BLOCK_BYTES_MIN:
            return None
        for block in self._blocks:
            if len(block) >= size and _is_free(block):
                return memoryview(block)[:size]
        capacity = -(-size // _STEP_BYTES) * _STEP_BYTES
        if capacity > self._bytes_max or not self._make_room(capacity):
            return None
        block = bytearray(capacity)
        self._blocks.append(block)
        return memoryview(block)[:size]

    def _make_room(self, capacity: int) -> bool:
        """Lets go of free blocks, which were too small, until there is room for one of `capacity`."""
        excess = self.bytes_held + capacity - self._bytes_max
        kept = []
        for block in self._blocks:
            if excess > 0 and _is_free(block):
                excess -= len(block)
            else:
                kept.append(block)
        self._blocks = kept
        return excess <= 0

    def __repr__(self) -> str:
        return f"<SpareBlocks {len(self._blocks)} of {self.bytes_held} bytes, at most {self._bytes_max}>"


def _is_free(block: bytearray) -> bool:
    try:
        last = block.pop()
    except BufferError:
        return False
    block.append(last)  # a bytearray that shrinks by one byte keeps its memory
    return True

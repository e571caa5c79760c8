"""Whole batches of a segment, some megabytes at a time, and what is damaged between and behind them.

Theory of operation
-------------------
Three things can be wrong in a segment:

- A batch has a wrong checksum, or its records cannot be decoded. The batches behind it are read as ever.
- A header cannot be one. Its length leads nowhere, so the rest of the piece is lost with it.
- The file ends inside a batch, or in the zeros of a preallocated file. In the newest segment of a partition
  that is a torn tail, which a broker that died leaves behind and cuts off when it starts. In an older one it
  is corruption.

The file is read, not mapped: a broker that truncates a mapped file would end this process.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from barnabas.records.batch import HEADER_SIZE, parse_header
from barnabas.records.columnar import as_array, scan_as_far, wrong_crcs
from barnabas.records.columnar_kernel import HeaderColumn
from barnabas.spark.errors import CorruptBatchError
from barnabas.spark.logs.segments import BATCH_BYTES_MAX, Piece, Segment

STRETCH_BYTES: Final = 2 << 20
"""Stays in the processor's cache until it is decoded."""


class Damage(NamedTuple):
    """Bytes of a segment that are no batch or not to be believed."""

    segment: Segment
    position: int
    size: int
    offset: int
    """Of the batch; where its header is none, the one that should have come next."""
    reason: str
    torn: bool = False

    def error(self) -> CorruptBatchError:
        """What a reader raises that does not skip it."""
        return CorruptBatchError(self.segment.path, self.offset, self.position, self.reason)


class Stretch(NamedTuple):
    """Some whole batches of a segment. The bytes are overwritten when the next stretch is read."""

    segment: Segment
    position: int
    """Where in the file the bytes begin."""
    source: Any
    """The bytes, an array of uint8."""
    table: Any
    """A row of `HeaderColumn` for each batch."""
    damage: list[Damage]
    """In the order of the file. Those of `table` are damaged batches, one behind it is where reading ends."""
    wrong: list[int]
    """The rows of `table` with a wrong checksum."""


@dataclass(slots=True)
class Block:
    """A buffer that is used again for each stretch; it grows to the largest batch."""

    data: bytearray

    def read(self, file: int, position: int, size: int) -> memoryview:
        """The bytes of the file there, fewer at its end. Raises OSError."""
        if len(self.data) < size:
            self.data = bytearray(size)
        view = memoryview(self.data)[:size]
        filled = 0
        while filled < size:
            count = os.preadv(file, [view[filled:]], position + filled)
            if not count:
                break
            filled += count
        return view[:filled]


def stretches(piece: Piece) -> Iterator[Stretch]:
    """The batches of a piece. Raises OSError."""
    segment = piece.segment
    block = Block(bytearray())
    position, wanted = piece.start, STRETCH_BYTES
    next_offset = segment.base_offset
    file = os.open(segment.path, os.O_RDONLY)
    try:
        while position < piece.end:
            asked = min(wanted, piece.end - position)
            data = block.read(file, position, asked)
            source = as_array(data)
            table, reason = scan_as_far(source)
            used = int(table[-1, HeaderColumn.END]) if len(table) else 0
            next_offset = int(table[-1, HeaderColumn.LAST_OFFSET]) + 1 if len(table) else next_offset
            left = piece.end - position - used
            is_at_end = len(data) < asked or position + asked == piece.end
            if not used and reason is None and not is_at_end:
                wanted = parse_header(data).size  # a batch larger than the block
                if wanted <= BATCH_BYTES_MAX:
                    continue
                reason = f"a batch of {wanted} bytes"
            damage, wrong = _wrong_batches(segment, position, data, table)
            is_last = left == 0 or is_at_end or reason is not None
            if is_last and left:
                damage.append(
                    _end_of_batches(segment, position + used, left, next_offset, data[used:], reason)
                )
            yield Stretch(segment, position, source, table, damage, wrong)
            if is_last:
                return
            position, wanted = position + used, STRETCH_BYTES
    finally:
        os.close(file)


def _wrong_batches(
    segment: Segment, position: int, data: memoryview, table: Any
) -> tuple[list[Damage], list[int]]:
    damage, wrong = [], []
    for row, reason in wrong_crcs(data, table):
        at, end, offset = table[
            row, [HeaderColumn.POSITION, HeaderColumn.END, HeaderColumn.BASE_OFFSET]
        ].tolist()
        damage.append(Damage(segment, position + at, end - at, offset, reason))
        wrong.append(row)
    return damage, wrong


def _end_of_batches(
    segment: Segment, position: int, left: int, offset: int, rest: memoryview, reason: str | None
) -> Damage:
    """What is behind the last whole batch: a torn tail, or something that no broker leaves there."""
    is_zeros = not any(rest[:HEADER_SIZE])
    torn = segment.is_last and (reason is None or is_zeros)
    if reason is None:
        reason = "the file ends inside a batch"
    elif is_zeros:
        reason = "zeros where a batch should be"
    return Damage(segment, position, left, offset, reason.removeprefix("Corrupt record batch: "), torn)

"""Which parts of a topic's segments are packed again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.records.batch import HEADER_SIZE, parse_header
from barnabas.spark.logs.segments import BATCH_BYTES_MAX, Piece, Segment, batch_start

PIECES_MAX: Final = 16
BATCHES_A_PIECE: Final = 4
"""A piece has room for as many of the largest batches, as its last one is not full."""


class Sample(NamedTuple):
    """What is read of a topic."""

    topic: str
    pieces: Sequence[Piece]
    size: int
    """Bytes of the topic's segments, one replica of each."""

    @property
    def sampled_bytes(self) -> int:
        """Bytes of the pieces."""
        return sum(piece.size for piece in self.pieces)

    @property
    def is_whole(self) -> bool:
        """Whether all of the topic is read."""
        return self.sampled_bytes == self.size


def sample(topic: str, segments: Sequence[Segment], bytes_max: int, batch_size: int) -> Sample:
    """All of a topic's segments where they have at most `bytes_max`, else pieces spread evenly over them,
    which have about as many bytes together. Each has room for some batches of `batch_size`. Raises OSError.
    """
    size = sum(segment.size for segment in segments)
    held = [segment for segment in segments if segment.size]
    if size <= bytes_max:
        whole = [Piece(segment, 0, segment.size) for segment in held]
        return Sample(topic, whole, size)
    count = max(min(PIECES_MAX, bytes_max // (BATCHES_A_PIECE * batch_size)), 1)
    length = max(bytes_max // count, 1)
    pieces: list[Piece] = []
    for number in range(count):
        segment, position = _place(held, size * number // count)
        # A piece that would end behind its segment begins earlier.
        start, wanted = batch_start(segment, min(position, max(segment.size - length, 0))), length
        if pieces and pieces[-1].segment == segment and start < pieces[-1].end:
            start = pieces.pop().start  # the index has no place between the two: they become one
            wanted = (number + 1) * length - sum(piece.size for piece in pieces)
        end = start + max(wanted, _first_batch(segment, start))
        pieces.append(Piece(segment, start, min(end, segment.size)))
    return Sample(topic, pieces, size)


def _place(segments: Sequence[Segment], position: int) -> tuple[Segment, int]:
    """A position in all segments, one behind the other, as one in its segment."""
    for segment in segments:
        if position < segment.size:
            return segment, position
        position -= segment.size
    raise IndexError(position)


def _first_batch(segment: Segment, start: int) -> int:
    """Bytes of the batch there; 0 where none begins."""
    with Path(segment.path).open("rb") as file:
        file.seek(start)
        head = file.read(HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return 0
    size = parse_header(head).size
    return size if 0 < size <= BATCH_BYTES_MAX else 0

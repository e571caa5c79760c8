"""The segments in log directories, and how they are cut and packed into tasks.

Tasks are to be even, but a topic may have one segment of a gigabyte and many of a megabyte. Small segments
are packed together. A large one is cut at entries of its offset index, of which each names the position of a
batch; an index is believed only where a batch with the right checksum begins at that position.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from barnabas.core.ids import TopicPartition
from barnabas.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    offset_name,
    offset_of,
    partition_of,
)
from barnabas.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, has_valid_crc, parse_header
from barnabas.spark.errors import OptionError
from barnabas.spark.logs.options import LogOptions, View
from barnabas.spark.ranges import pack

TASK_BYTES_MIN: Final = 16 << 20
"""Less is read in 40 ms, the cost of a task."""
TASK_BYTES_MAX: Final = 128 << 20
TASKS_WANTED: Final = 32
_ENTRY: Final = Struct(">ii")
BATCH_BYTES_MAX: Final = 1 << 28
"""A header that says more is not believed. Brokers take 1 MB unless ``max.message.bytes`` is raised."""


class Segment(NamedTuple):
    """A ``.log`` file as it was when the read was planned."""

    tp: TopicPartition
    base_offset: int
    path: str
    size: int
    """Bytes; a preallocated tail counts."""
    modified_ms: int
    is_last: bool
    """Whether it is the newest of its partition, in which a broker may be writing now."""


class Piece(NamedTuple):
    """A part of a segment that a task reads: from a batch's first byte to another's, or to the end."""

    segment: Segment
    start: int
    end: int

    @property
    def tp(self) -> TopicPartition:
        """Whose it is."""
        return self.segment.tp

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


def find_segments(options: LogOptions) -> list[Segment]:
    """All segments of the wanted partitions, in order.

    A path is a log directory, as in ``log.dirs``, or a partition's own. Directories that wait for their
    deletion, strays and future replicas (``-delete``, ``-stray``, ``-future``) are left out. Raises
    OptionError.
    """
    found: list[Segment] = []
    for path in options.paths:
        directories = list(_partitions(Path(path)))
        if not directories:
            raise OptionError(f"{path} is neither a log directory nor a directory of a partition")
        for tp, directory in directories:
            if options.wants(tp):
                found += _segments_of(tp, directory, skip_unfinished=options.skip_corrupt)
    return sorted(_one_replica(found) if options.view is View.RECORDS else found)


def _one_replica(segments: list[Segment]) -> list[Segment]:
    """Of a partition that several directories have, the one that reaches farthest: a record is one row."""
    newest: dict[TopicPartition, list[Segment]] = {}
    for segment in segments:
        if segment.is_last:
            newest.setdefault(segment.tp, []).append(segment)
    # Replicas roll at offsets of their own, so the names of segments do not say it.
    farthest = {tp: max(ends, key=end_offset) if len(ends) > 1 else ends[0] for tp, ends in newest.items()}
    return [one for one in segments if Path(one.path).parent == Path(farthest[one.tp].path).parent]


def end_offset(segment: Segment) -> int:
    """The offset behind the last whole batch, by the headers behind the last entry of its index."""
    end = segment.base_offset
    try:
        position = batch_start(segment, segment.size)
        with Path(segment.path).open("rb") as log:
            while len(head := os.pread(log.fileno(), HEADER_SIZE, position)) == HEADER_SIZE:
                header = parse_header(head)
                if not _is_possible(header) or position + header.size > segment.size:
                    break
                end, position = header.last_offset + 1, position + header.size
    except FileNotFoundError:
        pass  # retention removed it meanwhile
    return end


def _partitions(path: Path) -> Iterator[tuple[TopicPartition, Path]]:
    if not path.is_dir():
        raise OptionError(f"{path} is not a directory")
    own = partition_of(path.resolve().name)
    if own is not None and any(one.name.endswith(LOG_SUFFIX) for one in path.iterdir()):
        yield own, path
        return
    for entry in sorted(path.iterdir()):
        tp = partition_of(entry.name)
        if tp is not None and entry.is_dir():
            yield tp, entry


def _segments_of(tp: TopicPartition, directory: Path, *, skip_unfinished: bool) -> list[Segment]:
    sizes: dict[int, tuple[Path, os.stat_result]] = {}
    for entry in directory.iterdir():
        if entry.name.endswith(LOG_SUFFIX + SWAP_SUFFIX) and not skip_unfinished:
            # A finished compaction that was not put in place: its file and those that it replaces hold the
            # same records.
            raise OptionError(
                f"{entry} is a compaction that was interrupted; the broker completes it when it starts. "
                "The option corruptBatches=skip reads the directory without it."
            )
        base_offset = offset_of(entry.name, LOG_SUFFIX)
        if base_offset is not None:
            try:
                sizes[base_offset] = entry, entry.stat()
            except FileNotFoundError:
                continue  # retention removed it meanwhile
    last = max(sizes, default=0)
    return [
        Segment(tp, base_offset, str(path), stat.st_size, stat.st_mtime_ns // 1_000_000, base_offset == last)
        for base_offset, (path, stat) in sizes.items()
    ]


def plan_tasks(segments: list[Segment], options: LogOptions) -> list[list[Piece]]:
    """What each task reads, in order within it."""
    total = sum(segment.size for segment in segments)
    wanted = options.bytes_per_task or min(max(total // TASKS_WANTED, TASK_BYTES_MIN), TASK_BYTES_MAX)
    pieces = [piece for segment in segments for piece in _cut(segment, wanted, options.view)]
    return [sorted(held) for held in pack(pieces, max(-(-total // wanted), 1))]


def _cut(segment: Segment, wanted: int, view: View) -> list[Piece]:
    # A row of the view `segments` is made in one place.
    cuts = [] if view is View.SEGMENTS or segment.size <= wanted else list(_batch_starts(segment, wanted))
    return [Piece(segment, start, end) for start, end in pairwise([0, *cuts, segment.size])]


def _batch_starts(segment: Segment, wanted: int) -> Iterator[int]:
    """Positions of batches, each at least `wanted` bytes behind the one before."""
    at = 0
    with Path(segment.path).open("rb") as log:
        for _, position in indexed(segment):
            if (
                position - at >= wanted
                and segment.size - position >= wanted // 2
                and begins(log.fileno(), position)
            ):
                at = position
                yield position


def batch_start(segment: Segment, before: int) -> int:
    """The last position up to `before` that the index names and where a batch begins; 0 without one.
    Raises OSError.
    """
    with Path(segment.path).open("rb") as log:
        positions = sorted(position for _, position in indexed(segment) if 0 < position <= before)
        return next((position for position in reversed(positions) if begins(log.fileno(), position)), 0)


def indexed(segment: Segment) -> Iterator[tuple[int, int]]:
    """What the segment's offset index says: the last offset of what was appended at a position, and the
    position. Without an index there is nothing.
    """
    path = Path(segment.path)
    try:
        entries = path.with_name(offset_name(segment.base_offset, INDEX_SUFFIX)).read_bytes()
    except OSError:
        return
    # The file of the newest segment's index is larger than what it holds: zeros follow.
    for relative, position in _ENTRY.iter_unpack(entries[: len(entries) // _ENTRY.size * _ENTRY.size]):
        yield segment.base_offset + relative, position


def begins(log: int, position: int) -> bool:
    """Whether a whole batch with the right checksum begins there."""
    head = os.pread(log, HEADER_SIZE, position)
    if len(head) < HEADER_SIZE:
        return False
    header = parse_header(head)
    if not _is_possible(header):
        return False
    data = os.pread(log, header.size, position)
    return len(data) == header.size and has_valid_crc(data, parse_header(data))


def _is_possible(header: BatchHeader) -> bool:
    return header.magic == MAGIC and HEADER_SIZE - LOG_OVERHEAD <= header.length <= BATCH_BYTES_MAX


def index_bytes(segment: Segment) -> int:
    """How much the segment's indexes take on the disk."""
    path = Path(segment.path)
    total = 0
    for suffix in SEGMENT_SUFFIXES:
        if suffix != LOG_SUFFIX:
            try:
                total += path.with_name(offset_name(segment.base_offset, suffix)).stat().st_size
            except OSError:
                continue
    return total

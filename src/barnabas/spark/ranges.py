"""Ranges of offsets, and how they are cut and packed into tasks.

The official connector runs a task for each topic-partition. A task of a Python source costs 25 to 60 ms, so
here a task reads several ranges (`pack`); with ``minPartitions`` or ``maxRecordsPerPartition`` large ranges
are cut as `KafkaOffsetRangeCalculator` does, and then, too, a task reads one.
"""

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.core.ids import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets from `start` up to but not including `end` of one partition."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The distance; in compacted or transactional partitions there are fewer records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Packing:
    """The wishes about tasks."""

    tasks: int
    min_partitions: int | None = None
    max_records: int | None = None


def plan_tasks(ranges: Sequence[OffsetRange], packing: Packing) -> list[list[OffsetRange]]:
    """What each task reads; nothing empty."""
    filled = [piece for piece in ranges if piece.size > 0]
    if packing.max_records is not None:
        filled = [cut for piece in filled for cut in split(piece, -(-piece.size // packing.max_records))]
    if packing.min_partitions is not None and packing.min_partitions > len(filled):
        filled = _split_large(filled, packing.min_partitions)
    if packing.min_partitions is not None or packing.max_records is not None:
        return [[piece] for piece in filled]
    return pack(filled, packing.tasks)


def split(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    """The range in `parts` pieces of about one size; fewer where it is shorter than that."""
    cuts = [piece.start + piece.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(piece.tp, start, end) for start, end in itertools.pairwise(cuts) if end > start]


def _split_large(ranges: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """About `wanted` ranges: small ones stay whole, the others are cut in proportion to their size."""
    total = sum(piece.size for piece in ranges)
    average = total / wanted
    small = [piece for piece in ranges if piece.size <= average]
    left, parts_left = total - sum(piece.size for piece in small), wanted - len(small)
    return [
        cut
        for piece in ranges
        for cut in (
            [piece]
            if piece.size <= average
            else split(piece, max(1, round(piece.size / left * max(1, parts_left))))
        )
    ]


def pack(ranges: Sequence[OffsetRange], tasks: int) -> list[list[OffsetRange]]:
    """At most `tasks` lists of about one size each: the largest range goes to the emptiest list."""
    bins: list[tuple[int, int, list[OffsetRange]]] = [
        (0, number, []) for number in range(min(tasks, len(ranges)))
    ]
    for piece in sorted(ranges, key=lambda piece: (-piece.size, piece.tp)):
        size, number, held = heapq.heappop(bins)
        held.append(piece)
        heapq.heappush(bins, (size + piece.size, number, held))
    return [held for _, _, held in sorted(bins, key=lambda entry: entry[1])]

"""Ranges of offsets, and how they are cut and packed into tasks.

A task reads one range, as with the official connector; with ``minPartitions`` or ``maxRecordsPerPartition``
large ranges are cut (``KafkaOffsetRangeCalculator``). A task of a Python source costs 25 to 60 ms, so where
there are many small partitions ``tasksPerBatch``, an option of ours, packs several ranges into a task
(`pack`).
"""

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

from barnabas.core.ids import TopicPartition

POLL_MS: Final = 500
"""How long one look for new records takes; ``kafkaConsumer.pollTimeoutMs`` bounds all of them together."""


class OffsetRange(NamedTuple):
    """The offsets from `start` up to but not including `end` of one partition."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The distance; in compacted or transactional partitions there are fewer records."""
        return self.end - self.start


class Progress:
    """How far a task has come in each of its ranges."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self.ends = {piece.tp: piece.end for piece in ranges if piece.size > 0}
        self.positions = {piece.tp: piece.start for piece in ranges if piece.size > 0}

    def advance(self, tp: TopicPartition, position: int) -> bool:
        """Goes on from `position`; whether the range is finished."""
        self.positions[tp] = position
        if position < self.ends[tp]:
            return False
        del self.ends[tp], self.positions[tp]
        return True

    def __repr__(self) -> str:
        left = ", ".join(f"{tp}: {self.positions[tp]}..{end}" for tp, end in sorted(self.ends.items()))
        return f"<Progress {left or 'finished'}>"


@dataclass(frozen=True, slots=True)
class Packing:
    """The wishes about tasks; None where the user has none."""

    tasks: int | None = None
    """At most this number (``tasksPerBatch``)."""
    min_partitions: int | None = None
    max_records: int | None = None


def plan_tasks(ranges: Sequence[OffsetRange], packing: Packing) -> list[list[OffsetRange]]:
    """What each task reads; nothing empty."""
    filled = [piece for piece in ranges if piece.size > 0]
    if packing.max_records is not None:
        filled = [cut for piece in filled for cut in split(piece, -(-piece.size // packing.max_records))]
    if packing.min_partitions is not None and packing.min_partitions > len(filled):
        filled = _split_large(filled, packing.min_partitions)
    cut_to_size = packing.min_partitions is not None or packing.max_records is not None
    if packing.tasks is None or cut_to_size:
        return [[piece] for piece in filled]
    return pack(filled, packing.tasks)


def split(piece: OffsetRange, parts: int) -> list[OffsetRange]:
    """The range in `parts` pieces of about one size; fewer where it is shorter than that."""
    cuts = [piece.start + piece.size * index // parts for index in range(parts + 1)]
    return [OffsetRange(piece.tp, start, end) for start, end in itertools.pairwise(cuts) if end > start]


def _split_large(ranges: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """About `wanted` ranges: small ones stay whole, the others are cut in proportion to their size."""
    total = sum(piece.size for piece in ranges)
    small = {piece for piece in ranges if _parts(piece.size, total, wanted) == 1}
    # What stays whole takes no part in the proportions of the others.
    total_left = total - sum(piece.size for piece in small)
    wanted_left = max(wanted - len(small), 1)
    return [
        cut
        for piece in ranges
        for cut in split(piece, 1 if piece in small else _parts(piece.size, total_left, wanted_left))
    ]


def _parts(size: int, total: int, wanted: int) -> int:
    """A range's share of `wanted` parts, rounded as Java rounds: 2.5 is 3."""
    return max(math.floor(size / total * wanted + 0.5), 1)


class RangeWork(Protocol):
    """A part of a partition that a task reads."""

    @property
    def tp(self) -> TopicPartition:
        """Of which partition."""

    @property
    def size(self) -> int:
        """How much, in a unit of the caller's."""


W = TypeVar("W", bound=RangeWork)


def pack(ranges: Sequence[W], tasks: int) -> list[list[W]]:
    """At most `tasks` lists of about one size each: the largest range goes to the emptiest list."""
    bins: list[tuple[int, int, list[W]]] = [(0, number, []) for number in range(min(tasks, len(ranges)))]
    for piece in sorted(ranges, key=lambda piece: (-piece.size, piece.tp)):
        size, number, held = heapq.heappop(bins)
        held.append(piece)
        heapq.heappush(bins, (size + piece.size, number, held))
    return [held for _, _, held in sorted(bins, key=lambda entry: entry[1])]

"""The method: many short rounds in turned order, all sides in turn, with a look at the machine
between them.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from bench.figures import Measure, Series
from bench.mood import Meter
from bench.sides import Side

Turn = Callable[[], Sequence[float]]
"""Drives one side for a moment; one number for each measure of the row."""


@dataclass(frozen=True)
class Effort:
    """How much is done for a figure."""

    rounds: Mapping[str, int]
    """By the length that a row gives its rounds."""
    seconds: float
    """Length of a short turn of one side."""
    window_seconds: float
    warm_requests: int
    windows_max: int
    round_bytes: int
    """Traffic of a turn where the measure is a cost for each byte."""
    perf_records: int
    memory_bytes: int
    crowd_seconds: float


FULL: Final = Effort(
    {"short": 15, "long": 5, "longest": 3, "once": 1},
    seconds=0.8,
    window_seconds=5,
    warm_requests=100_000,
    windows_max=10,
    round_bytes=10**9 // 4,
    perf_records=2 * 10**6,
    memory_bytes=3 * 10**9,
    crowd_seconds=12,
)
QUICK: Final = Effort(
    {"short": 5, "long": 2, "longest": 1, "once": 1},
    seconds=0.4,
    window_seconds=1,
    warm_requests=10_000,
    windows_max=4,
    round_bytes=10**8,
    perf_records=200_000,
    memory_bytes=5 * 10**8,
    crowd_seconds=6,
)


@dataclass(frozen=True)
class Row:
    """Some measures that are taken together."""

    title: str
    measures: Sequence[Measure]
    open: Callable[[Side, Effort], AbstractContextManager[Turn]]
    """Warms a side; its turns are taken inside."""
    length: str = "short"
    """Of a round: `short`, `long`, `longest` or `once`."""
    without: Collection[str] = ()
    """The sides that it is not for, by name: kfake has no files, Spark's own connector reads none."""


def take(row: Row, sides: Sequence[Side], effort: Effort, meter: Meter) -> Series:
    """Opens the row on every side that it is for, and runs its rounds."""
    with contextlib.ExitStack() as stack:
        turns = {
            side.name: stack.enter_context(row.open(side, effort))
            for side in sides
            if side.name not in row.without
        }
        moods, rounds = [meter.look()], []
        for number in range(effort.rounds[row.length]):
            rounds.append({name: turns[name]() for name in in_order([*turns], number)})
            moods.append(meter.look())
        return Series(rounds, moods)


def in_order(names: Sequence[str], number: int) -> list[str]:
    """The order of the sides in this round: each comes first, second ... and last equally often."""
    first = number // 2 % len(names)
    order = [*names[first:], *names[:first]]
    return order[::-1] if number % 2 else order

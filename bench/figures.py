"""What is measured, what it may cost, and whether it was met."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.mood import Mood

BASES: Final = {"compiled": "kafka", "barnabas": "connector"}
"""The sides that are judged, each with the one that its ratios are to. A table has one of them."""
FAST_SHARE_MIN: Final = 1 / 3
"""Of the rounds; a median of fewer says little."""


@dataclass(frozen=True)
class Measure:
    """One line of the table, with the budget of the compiled form if it has one."""

    name: str
    unit: str
    budget: float | None = None
    higher_is_better: bool = False
    is_ratio: bool = True
    """Whether the budget is a ratio to the base; otherwise it is in the unit."""
    is_difference: bool = False
    """Whether a budget in the unit is for what there is above the base."""
    ahead_of: str | None = None
    """A side that must be behind, where it runs."""
    any_mood: bool = False
    """Whether it counts while the machine is slow: memory does not depend on wake-ups."""

    def holds(self, found: float, limit: float) -> bool:
        """Whether this number is on the good side of the limit."""
        return found >= limit if self.higher_is_better else found <= limit

    @property
    def budget_text(self) -> str:
        """The budget for the table."""
        if self.budget is None:
            return ""
        sign = ">=" if self.higher_is_better else "<="
        above = "+" if self.is_difference else ""
        unit = "x" if self.is_ratio else f" {self.unit}"
        behind = f", ahead of {self.ahead_of}" if self.ahead_of else ""
        return f"{sign} {above}{self.budget:g}{unit.rstrip()}{behind}"


@dataclass(frozen=True)
class Series:
    """What all rounds of a row came to."""

    rounds: list[dict[str, Sequence[float]]]
    """The numbers of each side's turn, by the side's name."""
    moods: list[Mood]
    """Before each round, and after the last."""

    @property
    def fast_rounds(self) -> list[int]:
        """The numbers of the rounds before and after which the machine was fast."""
        return [
            number
            for number in range(len(self.rounds))
            if self.moods[number].fast and self.moods[number + 1].fast
        ]

    @property
    def mood(self) -> str:
        """The mood over all rounds, in words."""
        loops = sorted(mood.loop_ms for mood in self.moods)
        wakes = sorted(mood.wake_us for mood in self.moods)
        return (
            f"loop {statistics.median(loops):.0f} ms ({loops[0]:.0f}-{loops[-1]:.0f}),"
            f" ping-pong {statistics.median(wakes):.0f} us ({wakes[0]:.0f}-{wakes[-1]:.0f}),"
            f" {len(self.fast_rounds)} of {len(self.rounds)} rounds fast"
        )


@dataclass(frozen=True)
class Figure:
    """A measure with what it came to on each side."""

    measure: Measure
    series: Series
    place: int
    """Where a turn's numbers have it."""

    @property
    def sides(self) -> Sequence[str]:
        """The names of the sides that it was taken on."""
        return [*self.series.rounds[0]]

    def values(self, side: str, *, fast: bool = False) -> list[float]:
        """Of a side, round by round, or in the fast rounds only."""
        numbers = self.series.fast_rounds if fast else range(len(self.series.rounds))
        return [self.series.rounds[number][side][self.place] for number in numbers]

    def ratios(self, side: str, base: str, *, fast: bool = False) -> list[float]:
        """Of a side to another one, round by round: within a round both meet the machine in the same mood."""
        both = zip(self.values(side, fast=fast), self.values(base, fast=fast), strict=True)
        return [one / other for one, other in both]

    @property
    def judged(self) -> str | None:
        """The side that the budget is for, where it runs."""
        return next((side for side in self.sides if side in BASES), None)

    def judgeable(self, *, fast: bool = False) -> list[float]:
        """What the budget is compared with, round by round; empty without the sides for it."""
        judged = self.judged
        if judged is None:
            return []
        if not (self.measure.is_ratio or self.measure.is_difference):
            return self.values(judged, fast=fast)
        base = BASES[judged]
        if base not in self.sides:
            return []
        if self.measure.is_ratio:
            return self.ratios(judged, base, fast=fast)
        both = zip(self.values(judged, fast=fast), self.values(base, fast=fast), strict=True)
        return [one - other for one, other in both]

    def verdict(self) -> str:
        """`met`, `missed`, or `met, slow`: only while the machine was slow, which proves nothing.

        Empty where there is no budget, or not the sides to judge it by.
        """
        measure = self.measure
        if measure.budget is None or self.judged is None or not self.judgeable():
            return ""
        proven = len(self.series.fast_rounds) >= FAST_SHARE_MIN * len(self.series.rounds)
        fast = proven and not measure.any_mood
        if not measure.holds(statistics.median(self.judgeable(fast=fast)), measure.budget):
            return "missed"
        if measure.ahead_of in self.sides:
            lead = statistics.median(self.ratios(self.judged, measure.ahead_of, fast=fast))
            if not measure.holds(lead, 1):
                return f"missed: behind {measure.ahead_of}"
        return "met" if proven or measure.any_mood else "met, slow"

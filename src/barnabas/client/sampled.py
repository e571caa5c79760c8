"""`Sampled`: numbers as they come, and what they were lately: their rate, average and maximum.

As Kafka's clients count (``SampledStat``): two samples of 30 seconds each; a sample that is older than both
together is forgotten. Totals never are.
"""

import time
from collections.abc import Callable
from typing import Final

_SAMPLES: Final = 2
_WINDOW_S: Final = 30.0


class _Span:
    __slots__ = ("begun_at", "count", "most", "total")

    def __init__(self, begun_at: float) -> None:
        self.begun_at = begun_at
        self.count = 0
        self.total = 0.0
        self.most = float("-inf")


class Sampled:
    """One quantity. `total` and `count` are those of all time."""

    __slots__ = ("_clock", "_samples", "count", "total")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = 0.0
        self.count = 0
        self._clock = clock
        self._samples = [_Span(clock())]

    def record(self, value: float) -> None:
        """The quantity was this once more."""
        now = self._clock()
        sample = self._samples[-1]
        if now - sample.begun_at >= _WINDOW_S:
            sample = _Span(now)
            self._samples = [*self._samples, sample][-_SAMPLES:]
        sample.count += 1
        sample.total += value
        # As a comparison: `max` takes three times as long, and this is done ten times a request.
        if value > sample.most:  # noqa: PLR1730
            sample.most = value
        self.total += value
        self.count += 1

    def _recent(self) -> list[_Span]:
        oldest = self._clock() - _SAMPLES * _WINDOW_S
        return [sample for sample in self._samples if sample.begun_at > oldest]

    def rate(self) -> float:
        """How much of it there was in a second."""
        recent = self._recent()
        # A client that has just begun has not had its second yet: as Kafka, one whole window at least.
        elapsed_s = max(_WINDOW_S, self._clock() - recent[0].begun_at) if recent else _WINDOW_S
        return sum(sample.total for sample in recent) / elapsed_s

    def average(self) -> float:
        """Its mean; NaN where there was none lately."""
        recent = self._recent()
        count = sum(sample.count for sample in recent)
        return sum(sample.total for sample in recent) / count if count else float("nan")

    def most(self) -> float:
        """Its maximum; NaN where there was none lately."""
        recent = [sample.most for sample in self._recent() if sample.count]
        return max(recent, default=float("nan"))

    def __repr__(self) -> str:
        return f"<Sampled {self.count} times, {self.total} in all>"

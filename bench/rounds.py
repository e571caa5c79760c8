"""The method: warm both sides, then rounds in alternating order, then medians.

A JVM is three times slower cold than warm. So each side first gets at least 100 000 requests of the kind
that is measured, in windows, until three windows in a row agree within 5 %.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.sides import Side


@dataclass(frozen=True)
class Effort:
    """How much is done for a figure."""

    rounds: int
    seconds: float
    """Length of a timed round."""
    window_seconds: float
    warm_requests: int
    windows_max: int
    round_bytes: int
    """Traffic of a round where the measure is a cost for each byte."""
    perf_records: int
    latency_samples: int


FULL = Effort(5, 5.0, 10.0, 100_000, 12, 10**9, 3_000_000, 3000)
QUICK = Effort(3, 1.5, 2.0, 20_000, 6, 256 * 10**6, 500_000, 800)


def warm(side: Side, effort: Effort, run: Callable[[Side, float], float]) -> None:
    """Runs windows (`run` returns requests/s) until there were enough requests and the speed has settled."""
    speeds: list[float] = []
    requests = 0.0
    while len(speeds) < effort.windows_max:
        speeds.append(run(side, effort.window_seconds))
        requests += speeds[-1] * effort.window_seconds
        last = speeds[-3:]
        if requests >= effort.warm_requests and len(last) == 3 and min(last) >= 0.95 * max(last):
            return


def alternate(
    sides: Sequence[Side], rounds: int, measure: Callable[[Side], Sequence[float]]
) -> dict[str, list[float]]:
    """The median of each figure that `measure` returns, by the side's name; every round turns the order."""
    seen: dict[str, list[Sequence[float]]] = {side.name: [] for side in sides}
    for number in range(rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            seen[side.name].append(measure(side))
    return {
        name: [statistics.median(column) for column in zip(*figures, strict=True)]
        for name, figures in seen.items()
    }

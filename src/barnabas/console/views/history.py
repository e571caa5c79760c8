"""Plots of what is remembered: a series over a range, in as many steps as a page can show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.console.history.sampler import METRICS
from barnabas.console.history.samples import Points
from barnabas.console.watched import WatchedCluster

RANGES: Final = {
    "1h": 3_600_000,
    "6h": 21_600_000,
    "24h": 86_400_000,
    "7d": 604_800_000,
    "30d": 2_592_000_000,
    "90d": 7_776_000_000,
}
DEFAULT_RANGE: Final = "6h"
STEPS: Final = 120
_SERIES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the range with samples in it."""

    at_ms: int
    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True)
class Plot:
    """One series."""

    series: str
    title: str
    unit: str
    """How its numbers are written: number, size or seconds."""
    steps: Sequence[Step | None]
    """One for each part of the range; None where nothing was known."""
    samples: int
    low: float | None
    last: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class HistoryView:
    """The plots of a cluster, a broker, a topic, a group or a check."""

    kind: str
    subject: str
    range: str
    start_ms: int
    end_ms: int
    plots: Sequence[Plot]
    problem: str | None
    """Why nothing can be remembered now."""


def history(watched: WatchedCluster, now_ms: int, *, kind: str, subject: str, span: str) -> HistoryView:
    """The plots. Of a broker the directories are among them; a series without a sample is left out."""
    span = span if span in RANGES else DEFAULT_RANGE
    start_ms = now_ms - RANGES[span]
    kept = watched.history
    if kept is None:
        return HistoryView(kind, subject, span, start_ms, now_ms, [], "this console remembers nothing")
    names = [f"{metric}/{subject}" for metric in METRICS if metric.partition(".")[0] == kind]
    if kind == "broker":
        prefix = f"log_dir.usable_bytes/{subject}:"
        names += sorted(name for name in kept.series() if name.startswith(prefix))[:_SERIES_MAX]
    plots = [_plot(name, kept.points(name, start_ms, now_ms), start_ms, now_ms) for name in names]
    shown = [one for one in plots if one.samples]
    return HistoryView(kind, subject, span, start_ms, now_ms, shown, kept.problem)


def _plot(series: str, points: Points, start_ms: int, end_ms: int) -> Plot:
    metric, _, subject = series.partition("/")
    title, unit = METRICS[metric]
    if metric.startswith("log_dir."):
        title = f"{title} in {subject.partition(':')[2]}"
    values = [value for _, value in points]
    return Plot(
        series,
        title,
        unit,
        steps_of(points, start_ms, end_ms),
        len(points),
        min(values, default=None),
        values[-1] if values else None,
        max(values, default=None),
    )


def steps_of(points: Points, start_ms: int, end_ms: int, count: int = STEPS) -> list[Step | None]:
    """The range in so many parts, each with the least, the mean and the greatest of its samples."""
    width = max((end_ms - start_ms) / count, 1)
    parts: list[list[float]] = [[] for _ in range(count)]
    for at_ms, value in points:
        parts[min(int((at_ms - start_ms) / width), count - 1)].append(value)
    return [
        Step(int(start_ms + (place + 0.5) * width), min(part), sum(part) / len(part), max(part))
        if part
        else None
        for place, part in enumerate(parts)
    ]

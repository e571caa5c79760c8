"""The pictures of `barnabas.spark.analyses.disk`."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from barnabas.spark import charts
from barnabas.spark.analyses.columns import bytes_text, plain_text
from barnabas.spark.charts import Bar

SHOWN: Final = 12
_TIMES: Final = (
    (timedelta(0), "now"),
    (timedelta(hours=1), "within an hour"),
    (timedelta(days=1), "within a day"),
    (timedelta(days=7), "within a week"),
    (timedelta(days=30), "within 30 days"),
)


def topics(rows: Sequence[Mapping[str, Any]]) -> str:
    """A bar a topic, the largest on the disk first: what is on the disk, and what compression saves."""
    if not rows:
        return ""
    sizes = [(row["topic"], row["sizeInBytes"], row["uncompressedBytes"]) for row in rows]
    if rest := sizes[SHOWN:]:
        others = (f"{len(rest)} others", sum(size for _, size, _ in rest), sum(plain for *_, plain in rest))
        sizes = [*sizes[:SHOWN], others]
    bars = [
        Bar(
            short(name),
            [
                (size, "c1", f"{name}: {bytes_text(size)} on disk"),
                (max(plain - size, 0), "c4", f"{name}: {bytes_text(plain)} without compression"),
            ],
            f"{bytes_text(size)} · {plain / size:.1f} to 1",
        )
        for name, size, plain in sizes
    ]
    return charts.bars(bars, label_width=180) + charts.legend(
        [("on disk", "c1"), ("saved by compression", "c4")]
    )


def largest(rows: Sequence[tuple[str, int]]) -> str:
    """`shares`, the largest first; those behind the first twelve are one bar."""
    ordered = sorted(rows, key=lambda row: -row[1])
    if rest := ordered[SHOWN:]:
        ordered = [*ordered[:SHOWN], (f"{len(rest):,} others", sum(size for _, size in rest))]
    return shares(ordered)


def shares(rows: Sequence[tuple[str, int]]) -> str:
    """A bar for each name, with its bytes and their share of all that are given."""
    total = sum(size for _, size in rows) or 1
    named = [(plain_text(name), size) for name, size in rows]
    bars = [
        Bar(
            short(name), [(size, "c1", f"{name}: {size:,} bytes")], f"{bytes_text(size)} · {size / total:.0%}"
        )
        for name, size in named
    ]
    return charts.bars(bars, label_width=180) if bars else ""


def by_time(drops: Sequence[Mapping[str, Any]], now: datetime) -> list[tuple[str, int]]:
    """Bytes by when they go."""
    sums = dict.fromkeys([*(name for _, name in _TIMES), "later", "not by retention"], 0)
    for row in drops:
        at = row["dropsAt"]
        if at is None:
            sums["not by retention"] += row["sizeInBytes"]
        else:
            name = next((name for limit, name in _TIMES if at - now <= limit), "later")
            sums[name] += row["sizeInBytes"]
    return [(name, size) for name, size in sums.items() if size]


def short(name: str) -> str:
    """A name that fits beside a bar."""
    return name if len(name) <= 24 else f"{name[:12]}…{name[-11:]}"

"""The pictures of `barnabas.spark.analyses.disk`."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from barnabas.spark.analyses import pictures
from barnabas.spark.analyses.columns import bytes_text
from barnabas.spark.pages import charts
from barnabas.spark.pages.charts import Bar

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
    if rest := sizes[pictures.SHOWN :]:
        others = (f"{len(rest)} others", sum(size for _, size, _ in rest), sum(plain for *_, plain in rest))
        sizes = [*sizes[: pictures.SHOWN], others]
    bars = [
        Bar(
            pictures.short(name),
            [
                (size, "c1", f"{name}: {bytes_text(size)} on disk"),
                (max(plain - size, 0), "c4", f"{name}: {bytes_text(plain)} without compression"),
            ],
            f"{bytes_text(size)} · {plain / size:.1f} to 1",
        )
        for name, size, plain in sizes
    ]
    return charts.bars(bars, label_width=pictures.LABEL_WIDTH) + charts.legend(
        [("on disk", "c1"), ("saved by compression", "c4")]
    )


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

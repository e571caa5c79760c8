"""The pictures that several analyses have: bars of bytes, with names that fit beside them."""

from collections.abc import Sequence
from typing import Final

from barnabas.spark.analyses.columns import bytes_text, plain_text
from barnabas.spark.pages import charts
from barnabas.spark.pages.charts import Bar

SHOWN: Final = 12
LABEL_WIDTH: Final = 180


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
    return charts.bars(bars, label_width=LABEL_WIDTH) if bars else ""


def short(name: str) -> str:
    """A name that fits beside a bar."""
    return name if len(name) <= 24 else f"{name[:12]}…{name[-11:]}"

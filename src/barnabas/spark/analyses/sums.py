"""Rows put together in the driver, where there are as many as topics, partitions or classes."""

from collections.abc import Iterable, Sequence
from typing import Any

from barnabas.spark.analyses.table import Row, Rows


def grouped(rows: Rows, by: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    """The rows by their values in some columns, in the order in which these come first."""
    groups: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return groups


def by_topic(rows: Iterable[Row], name: str) -> dict[str, int]:
    """The sum of a column by topic."""
    found: dict[str, int] = {}
    for row in rows:
        found[row["topic"]] = found.get(row["topic"], 0) + row[name]
    return found

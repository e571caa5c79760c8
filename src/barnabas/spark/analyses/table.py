"""A table of an analysis: its rows, and how they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from barnabas.spark.analyses.columns import COLUMNS

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
"""Of a table that is being made."""


@dataclass(frozen=True, slots=True)
class AnalysisTable:
    """A table of an analysis."""

    title: str
    columns: Sequence[str]
    """Those that are shown, by their names in `COLUMNS`."""
    rows: Sequence[Row]
    words: str = ""
    """What it shows and how it was counted, for the page."""
    chart: str = ""
    """HTML of `charts`."""
    hidden: Sequence[str] = ()
    """Columns that only the Parquet file has."""

    def to_arrow(self) -> pa.Table:
        """All rows and columns."""
        schema = pa.schema([(name, COLUMNS[name].type) for name in (*self.columns, *self.hidden)])
        return pa.Table.from_pylist([dict(row) for row in self.rows], schema=schema)

    def texts(self, limit: int) -> list[list[str]]:
        """The first rows as they are shown; what is not known is a dash."""
        return [
            ["-" if row.get(name) is None else COLUMNS[name].text(row[name]) for name in self.columns]
            for row in self.rows[:limit]
        ]

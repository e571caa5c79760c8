"""What an analysis gives: tables, with words and charts around them, for a terminal, a browser and Parquet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.spark.analyses.columns import COLUMNS
from barnabas.spark.analyses.page import page

if TYPE_CHECKING:
    from rich.console import RenderableType

Row = Mapping[str, Any]
Rows = list[dict[str, Any]]
"""Of a table that is being made."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of an analysis."""

    title: str
    columns: Sequence[str]
    """Those that are shown, by their names in `COLUMNS`."""
    rows: Sequence[Row]
    words: str = ""
    """What it shows and how it was counted, for the page."""
    chart: str = ""
    """SVG."""
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


@dataclass(frozen=True, slots=True)
class Analysis:
    """A finished analysis."""

    title: str
    lead: str
    """Its answer, in a sentence or two."""
    figures: Sequence[tuple[str, str]]
    """Numbers to begin with, each with what it counts."""
    tables: Mapping[str, Table]
    """By the names of their Parquet files."""
    notes: Sequence[str] = field(default=())
    """What was left out, such as corrupt batches."""

    def write(self, folder: str | Path) -> Path:
        """Writes ``report.html`` and a Parquet file for each table; the path of the page. Raises OSError."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables.items():
            pq.write_table(table.to_arrow(), folder / f"{name}.parquet")
        report = folder / "report.html"
        report.write_text(self.html(), encoding="utf-8")
        return report

    def html(self) -> str:
        """The page, with everything in it."""
        return page(self)

    def printable(self, limit: int = 10) -> "list[RenderableType]":
        """What a terminal shows: the answer, the notes, and the first rows of each table."""
        from barnabas.spark.analyses import terminal

        return terminal.printable(self, limit)

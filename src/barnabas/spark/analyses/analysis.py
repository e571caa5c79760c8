"""What an analysis gives: tables, with words and charts around them, for a terminal, a browser and
Parquet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from barnabas.spark.analyses.page import page
from barnabas.spark.analyses.table import AnalysisTable

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Analysis:
    """A finished analysis."""

    title: str
    lead: str
    """Its answer, in a sentence or two."""
    figures: Sequence[tuple[str, str]]
    """Numbers to begin with, each with what it counts."""
    tables: Mapping[str, AnalysisTable]
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
        return page(self.title, self.lead, self.figures, self.notes, self.tables)

    def printable(self, limit: int = 10) -> "list[RenderableType]":
        """What a terminal shows: the answer, the notes, and the first rows of each table."""
        from barnabas.spark.analyses import terminal

        return terminal.printable(self.title, self.lead, self.notes, self.tables, limit)

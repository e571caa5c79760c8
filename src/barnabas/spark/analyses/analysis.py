"""What an analysis gives: tables, with words and charts around them, for a terminal, a browser and Parquet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from barnabas.spark.analyses.columns import COLUMNS

if TYPE_CHECKING:
    from rich.console import RenderableType

Row = Mapping[str, Any]
PAGE_ROWS: Final = 50
"""More rows than these are in the Parquet file only."""
NAME_WIDTH_MAX: Final = 40


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
        page = folder / "report.html"
        page.write_text(self.html(), encoding="utf-8")
        return page

    def html(self) -> str:
        """The page, with everything in it."""
        template = (
            resources.files("barnabas.spark.analyses").joinpath("page.html").read_text(encoding="utf-8")
        )
        return Template(template).substitute(
            title=escape(self.title),
            lead=escape(self.lead),
            figures="".join(
                f"<div><b>{escape(value)}</b><span>{escape(words)}</span></div>"
                for value, words in self.figures
            ),
            notes="".join(f'<p class="warning">{escape(note)}</p>' for note in self.notes),
            tables="".join(_section(name, table) for name, table in self.tables.items() if table.rows),
        )

    def printable(self, limit: int = 10) -> "list[RenderableType]":
        """What a terminal shows: the answer, the notes, and the first rows of each table."""
        from rich.text import Text

        shown: list[RenderableType] = [Text(self.title, style="bold"), Text(self.lead)]
        shown += [Text(note, style="yellow") for note in self.notes]
        return shown + [_terminal_table(table, limit) for table in self.tables.values() if table.rows]


def _section(name: str, table: Table) -> str:
    heads = "".join(f"<th{_numeric(column)}>{escape(COLUMNS[column].title)}</th>" for column in table.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{_numeric(column)}>{escape(text)}</td>"
            for column, text in zip(table.columns, texts, strict=True)
        )
        + "</tr>"
        for texts in table.texts(PAGE_ROWS)
    )
    left = len(table.rows) - PAGE_ROWS
    more = f"<p>{left:,} more rows are in <code>{name}.parquet</code>.</p>" if left > 0 else ""
    return (
        f"<section><h2>{escape(table.title)}</h2><p>{escape(table.words)}</p>{table.chart}"
        f'<div class="scroll"><table><tr>{heads}</tr>{rows}</table></div>{more}</section>'
    )


def _numeric(column: str) -> str:
    return ' class="n"' if COLUMNS[column].is_number else ""


def _terminal_table(table: Table, limit: int) -> "RenderableType":
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    left = len(table.rows) - limit
    shown = RichTable(
        title=f"\n{table.title}",
        title_justify="left",
        title_style="bold",
        header_style="bold",
        caption=f"and {left:,} more" if left > 0 else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    rows = table.texts(limit)
    for place, name in enumerate(table.columns):
        column = COLUMNS[name]
        # Where the terminal is narrow, heads break into lines and figures stay whole.
        width = min(max((len(texts[place]) for texts in rows), default=0), NAME_WIDTH_MAX)
        shown.add_column(column.title, justify="right" if column.is_number else "left", min_width=width)
    for texts in rows:
        shown.add_row(*map(Text, texts))
    return shown

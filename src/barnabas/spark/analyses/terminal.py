"""An analysis as a terminal shows it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from barnabas.spark.analyses.columns import COLUMNS
from barnabas.spark.analyses.table import AnalysisTable

if TYPE_CHECKING:
    from rich.console import RenderableType

NAME_WIDTH_MAX: Final = 40


def printable(
    title: str, lead: str, notes: Sequence[str], tables: Mapping[str, AnalysisTable], limit: int
) -> "list[RenderableType]":
    """The answer, the notes, and the first rows of each table that has some."""
    shown: list[RenderableType] = [Text(title, style="bold"), Text(lead)]
    shown += [Text(note, style="yellow") for note in notes]
    return shown + [_table(table, limit) for table in tables.values() if table.rows]


def _table(table: AnalysisTable, limit: int) -> RichTable:
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

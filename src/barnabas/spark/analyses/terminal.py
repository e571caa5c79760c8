"""An analysis as a terminal shows it."""

from typing import TYPE_CHECKING, Final

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from barnabas.spark.analyses.columns import COLUMNS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from barnabas.spark.analyses.analysis import Analysis, Table

NAME_WIDTH_MAX: Final = 40


def printable(analysis: "Analysis", limit: int) -> "list[RenderableType]":
    """The answer, the notes, and the first rows of each table that has some."""
    shown: list[RenderableType] = [Text(analysis.title, style="bold"), Text(analysis.lead)]
    shown += [Text(note, style="yellow") for note in analysis.notes]
    return shown + [_table(table, limit) for table in analysis.tables.values() if table.rows]


def _table(table: "Table", limit: int) -> RichTable:
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

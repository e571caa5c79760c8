"""An analysis as a page for a browser, everything in one file."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from barnabas.spark import pages
from barnabas.spark.analyses.columns import COLUMNS
from barnabas.spark.analyses.table import AnalysisTable

PAGE_ROWS: Final = 50
"""More rows than these are in the Parquet file only."""
_FOOTER: Final = (
    "Made by <code>barnabas analyze</code>. A KB is 1,024 bytes. All rows are in the Parquet files beside "
    "this page."
)


def page(
    title: str,
    lead: str,
    figures: Sequence[tuple[str, str]],
    notes: Sequence[str],
    tables: Mapping[str, AnalysisTable],
) -> str:
    """The page, HTML, of the parts of an analysis. Tables without rows are left out."""
    sections = "".join(_section(name, table) for name, table in tables.items() if table.rows)
    return pages.page(title, escape(lead), figures, sections, _FOOTER, warnings=notes)


def _section(name: str, table: AnalysisTable) -> str:
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

"""An analysis as a page for a browser, everything in one file."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from barnabas.spark import pages
from barnabas.spark.analyses.columns import COLUMNS
from barnabas.spark.analyses.table import AnalysisTable

PAGE_ROWS: Final = 50
"""More rows than these are in the Parquet file only."""


def page(
    title: str,
    lead: str,
    figures: Sequence[tuple[str, str]],
    notes: Sequence[str],
    tables: Mapping[str, AnalysisTable],
) -> str:
    """The page, HTML, of the parts of an analysis. Tables without rows are left out."""
    words_of_page = {
        "title": escape(title),
        "lead": escape(lead),
        "figures": "".join(
            f"<div><b>{escape(value)}</b><span>{escape(words)}</span></div>" for value, words in figures
        ),
        "notes": "".join(f'<p class="warning">{escape(note)}</p>' for note in notes),
        "tables": "".join(_section(name, table) for name, table in tables.items() if table.rows),
    }
    return pages.fill("barnabas.spark.analyses", "page.html", words_of_page)


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

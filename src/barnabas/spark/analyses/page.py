"""An analysis as a page for a browser, everything in one file."""

from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Final

from barnabas.spark.analyses.columns import COLUMNS

if TYPE_CHECKING:
    from barnabas.spark.analyses.analysis import Analysis, Table

PAGE_ROWS: Final = 50
"""More rows than these are in the Parquet file only."""


def page(analysis: "Analysis") -> str:
    """The page, HTML. Tables without rows are left out."""
    template = resources.files("barnabas.spark.analyses").joinpath("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(analysis.title),
        lead=escape(analysis.lead),
        figures="".join(
            f"<div><b>{escape(value)}</b><span>{escape(words)}</span></div>"
            for value, words in analysis.figures
        ),
        notes="".join(f'<p class="warning">{escape(note)}</p>' for note in analysis.notes),
        tables="".join(_section(name, table) for name, table in analysis.tables.items() if table.rows),
    )


def _section(name: str, table: "Table") -> str:
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

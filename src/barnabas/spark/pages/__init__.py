"""What the pages of the demo, of the analyses and of pipelines share:
their frame and style, and the library that draws the charts.
"""

from collections.abc import Iterable
from html import escape
from importlib import resources
from string import Template

from bokeh.resources import Resources


def page(
    title: str,
    lead: str,
    figures: Iterable[tuple[str, str]],
    sections: str,
    footer: str,
    *,
    heading: str | None = None,
    warnings: Iterable[str] = (),
) -> str:
    """A page, HTML: one file that needs no network. Lead, sections and footer are HTML, the others texts;
    the heading is the title unless given. A figure is its value and what it says.
    """
    return fill(
        __name__,
        "page.html",
        {
            "title": escape(title),
            "head": _head(),
            "heading": escape(title if heading is None else heading),
            "lead": lead,
            "warnings": "".join(f'<p class="warning">{escape(one)}</p>' for one in warnings),
            "figures": "".join(
                f"<div><b>{escape(value)}</b><span>{escape(words)}</span></div>" for value, words in figures
            ),
            "sections": sections,
            "footer": footer,
        },
    )


def fill(package: str, template: str, words: dict[str, str]) -> str:
    """A template of a package with these words, which are HTML."""
    return Template(_text(package, template)).substitute(words)


def _head() -> str:
    """Style, Bokeh and what gives charts the colours of the page."""
    bokeh = Resources(mode="inline", components=["bokeh"]).render_js()
    style, paint = (_text(__name__, name) for name in ("page.css", "page.js"))
    return f"<style>\n{style}</style>\n{bokeh}\n<script>\n{paint}</script>"


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")

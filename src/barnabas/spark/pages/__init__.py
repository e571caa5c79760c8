"""What the pages of the demo, of the analyses and of pipelines share:
their style, and the library that draws the charts.
"""

from importlib import resources
from string import Template

from bokeh.resources import Resources


def fill(package: str, template: str, words: dict[str, str]) -> str:
    """The page of a package's template with these words: one file that needs no network."""
    return Template(_text(package, template)).substitute(words, head=_head())


def _head() -> str:
    """Style, Bokeh and what gives charts the colours of the page."""
    bokeh = Resources(mode="inline", components=["bokeh"]).render_js()
    style, paint = (_text(__name__, name) for name in ("page.css", "page.js"))
    return f"<style>\n{style}</style>\n{bokeh}\n<script>\n{paint}</script>"


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")

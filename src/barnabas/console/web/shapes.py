"""How pages write times, trends, addresses and commands: filters and functions of the templates."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

from barnabas.console.units import number, when

_MESSAGES_FLAGS: Final = (
    ("topic", "--topic"),
    ("partition", "--partition"),
    ("start", "--from"),
    ("positions", "--positions"),
    ("contains", "--contains"),
    ("where", "--where"),
    ("count", "--count"),
    ("key", "--key"),
    ("value", "--value"),
)
"""The parameters of the page and the options of ``barnabas messages``."""
_WIDTH: Final = 120
_HEIGHT: Final = 24


def when_element(ms: object) -> Markup:
    """The time for a page, which does not break it."""
    return Markup("<time>{}</time>").format(when(ms))


def sparkline(samples: Sequence[float], name: str) -> Markup:
    """The samples as a line, drawn here; its text says the least, the last and the greatest."""
    if len(samples) < 2:
        return Markup('<span class="none">no trend yet</span>')
    low, high = min(samples), max(samples)
    span = (high - low) or 1
    step = _WIDTH / (len(samples) - 1)
    points = " ".join(
        f"{number_:.1f},{_HEIGHT - 2 - (value - low) / span * (_HEIGHT - 4):.1f}"
        for number_, value in ((place * step, value) for place, value in enumerate(samples))
    )
    text = f"{name}: least {number(low)}, now {number(samples[-1])}, most {number(high)}"
    return Markup(
        '<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'aria-label="{text}"><title>{text}</title><polyline points="{points}" fill="none" '
        'stroke="currentColor" stroke-width="1.5"/></svg>'
    ).format(width=_WIDTH, height=_HEIGHT, text=text, points=points)


_DOTS: Final = re.compile(r"~*\.{1,2}")
"""Names that are steps in a path to browsers, and what these are written as."""


def segment(name: str) -> str:
    """A name as the last part of a path. A slash within it is none of the path's, and ``..`` alone would lead
    elsewhere: browsers take that as a step upwards however it is written, so it gets a mark in front.
    """
    return quote(f"~{name}" if _DOTS.fullmatch(name) else name, safe="")


def name_of(segment_: str) -> str:
    """The name that `segment` has made a part of a path of, decoded."""
    return segment_.removeprefix("~") if _DOTS.fullmatch(segment_) else segment_


def query_without(query: Mapping[str, str], names: Sequence[str]) -> str:
    """The parameters of the page but these, for a link that adds them anew."""
    left = {name: value for name, value in query.items() if name not in names}
    return urlencode(left) + "&" if left else ""


def query_without_page(query: Mapping[str, str]) -> str:
    """The parameters for a link to another page of the table."""
    return query_without(query, ["page"])


def messages_command(bootstrap: str, query: Mapping[str, str]) -> str:
    """What says at a terminal what the page of messages says."""
    words = ["barnabas", "messages", "--bootstrap-server", bootstrap]
    for name, flag in _MESSAGES_FLAGS:
        if query.get(name):
            words += [flag, query[name]]
    for line in query.get("filter", "").splitlines():
        words += ["--filter", line]
    words += [
        flag
        for name, flag in (("committed_only", "--committed-only"), ("follow", "--follow"))
        if query.get(name) == "true"
    ]
    return shlex.join(words)

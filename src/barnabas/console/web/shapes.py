"""How pages write numbers, bytes, times and trends: filters and functions of the templates."""

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlencode

from markupsafe import Markup

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
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WIDTH: Final = 120
_HEIGHT: Final = 24
_DIGITS_OF_FLOAT: Final = 1e15
"""From here on the digits of a number with a fraction say nothing; a metric of a client may have 308."""
_MS_MAX: Final = 253_402_300_799_000
"""The end of the year 9999."""


def number(value: object) -> str:
    """A number with its thousands apart; other values as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if isinstance(value, float) and (0 < abs(value) < 1 or abs(value) >= _DIGITS_OF_FLOAT):
        return f"{value:.2g}"
    if isinstance(value, float) and abs(value) < 100 and not value.is_integer():
        return f"{value:,.1f}"
    return f"{round(value):,}"


def counted(count: int, what: str) -> str:
    """So many of something: 1 record, 2 records."""
    return f"{number(count)} {what}{'' if count == 1 else 's'}"


def size(value: object) -> str:
    """Bytes in a unit that fits."""
    if not isinstance(value, int | float):
        return "" if value is None else str(value)
    left = float(value)
    for unit in _UNITS:
        if abs(left) < 1024 or unit == _UNITS[-1]:
            return f"{left:,.0f} {unit}" if unit == "B" else f"{left:,.1f} {unit}"
        left /= 1024
    raise AssertionError("the last unit takes everything")


def seconds(value: object) -> str:
    """A span of time in the largest units that matter."""
    if not isinstance(value, int | float):
        return "" if value is None else str(value)
    if value < 0:
        return "overdue"
    if value < 60:
        return f"{value:.0f} s" if value == round(value) else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def in_unit(value: object, unit: str) -> str:
    """A number of a series: a size, a span of time, or itself."""
    return {"size": size, "seconds": seconds}.get(unit, number)(value)


def when(ms: object) -> str:
    """A time in UTC; milliseconds as they are where no calendar goes that far: any client says when a record
    was written.
    """
    if not isinstance(ms, int) or ms <= 0:
        return "unknown"
    if ms > _MS_MAX:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


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

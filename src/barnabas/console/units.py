"""How the console writes numbers, bytes, spans of time and times, on its pages and in its sentences."""

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
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

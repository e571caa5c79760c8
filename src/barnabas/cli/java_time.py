"""Dates and durations as Kafka's tools read them (``Utils.getDateTime``, ``java.time.Duration.parse``)."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_DATE: Final = re.compile(
    r"(\d{1,4})-(\d{1,2})-(\d{1,2})T(\d{1,2}):(\d{1,2}):(\d{1,2})\.(\d{1,3})(?:Z|([-+])(\d\d)(?::?(\d\d))?)"
)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?"
    r"(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_datetime_ms(text: str) -> int:
    """``YYYY-MM-DDTHH:mm:SS.sss``, with Z, an offset or (meaning UTC) nothing behind it, in ms since 1970.

    Raises ValueError with Java's text.
    """
    _, t, time = text.partition("T")
    if not t:
        raise ValueError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to "
            "ISO8601 format"
        )
    zoned = text if any(mark in time for mark in "+-Z") else f"{text}Z"
    try:
        return _timestamp_ms(zoned)
    except ValueError:
        raise ValueError(f'java.text.ParseException: Unparseable date: "{zoned}"') from None


def _timestamp_ms(text: str) -> int:
    match = _DATE.match(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, millisecond = map(int, match.groups()[:7])
    sign, hours, minutes = match.groups()[7:]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    # The last field counts milliseconds, not a fraction: .5 are 5 of them, as in Java's SimpleDateFormat.
    zone = timezone(offset)
    moment = datetime(year, month, day, hour, minute, second, millisecond * 1000, tzinfo=zone)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_duration_ms(text: str) -> int:
    """``PnDTnHnMnS`` in ms; raises ValueError with Java's text."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(part is not None for part in match.groups()[1:5]):
        raise ValueError("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60_000
    part_ms = int((fraction or "").ljust(9, "0")) // 1_000_000
    rest = int(seconds or 0) * 1000 + (-part_ms if (seconds or "").startswith("-") else part_ms)
    return -(whole + rest) if sign == "-" else whole + rest

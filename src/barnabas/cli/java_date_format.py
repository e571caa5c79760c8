"""``java.text.SimpleDateFormat`` for printing: patterns of letters, in local time and English."""

import calendar
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeAlias

_TOKEN: Final = re.compile(r"''|'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'])|(')")
_ABBREVIATED: Final = 3
_FULL: Final = 4
_YEAR_OF_TWO_DIGITS: Final = 2

_Piece: TypeAlias = Callable[[datetime], str]


def _name(name: str, count: int) -> str:
    return name if count >= _FULL else name[:_ABBREVIATED]


def _year(time: datetime, count: int) -> str:
    return f"{time.year % 100:02}" if count == _YEAR_OF_TWO_DIGITS else f"{time.year:0{count}}"


def _month(time: datetime, count: int) -> str:
    return (
        _name(calendar.month_name[time.month], count) if count >= _ABBREVIATED else f"{time.month:0{count}}"
    )


def _iso_zone(time: datetime, count: int) -> str:
    zone = time.strftime("%z")
    if zone == "+0000":
        return "Z"
    return (zone[:3], zone[:5], f"{zone[:3]}:{zone[3:5]}")[count - 1]


_NUMBERS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "D": lambda time: time.timetuple().tm_yday,
    "d": lambda time: time.day,
    "H": lambda time: time.hour,
    "k": lambda time: time.hour or 24,
    "K": lambda time: time.hour % 12,
    "h": lambda time: time.hour % 12 or 12,
    "m": lambda time: time.minute,
    "s": lambda time: time.second,
    "S": lambda time: time.microsecond // 1000,
    "u": datetime.isoweekday,
}
_WORDS: Final[Mapping[str, Callable[[datetime, int], str]]] = {
    "G": lambda _time, _count: "AD",
    "y": _year,
    "M": _month,
    "L": _month,
    "E": lambda time, count: _name(calendar.day_name[time.weekday()], count),
    "a": lambda time, _count: "AM" if time.hour < 12 else "PM",
    "z": lambda time, _count: time.strftime("%Z"),
    "Z": lambda time, _count: time.strftime("%z"),
    "X": _iso_zone,
}
_WEEKS: Final = "YwWF"
_LONGEST_ISO_ZONE: Final = 3


class SimpleDateFormat:
    """A pattern such as ``yyyy-MM-dd HH:mm:ss:SSS``.

    Raises ValueError with Java's text for a pattern that is not one, and for letters that count weeks: which
    week is the first depends on the country.
    """

    def __init__(self, pattern: str) -> None:
        self._pieces = [_piece(match) for match in _TOKEN.finditer(pattern)]

    def format(self, timestamp_ms: int) -> str:
        """A time in ms since 1970."""
        seconds, ms = divmod(timestamp_ms, 1000)
        time = datetime.fromtimestamp(seconds).astimezone().replace(microsecond=ms * 1000)
        return "".join(piece(time) for piece in self._pieces)


def _piece(match: re.Match[str]) -> _Piece:
    quoted, run, letter, other, open_quote = match.groups()
    if open_quote:
        raise ValueError("Unterminated quote")
    if run is None:
        text = other or ("'" if quoted is None else quoted.replace("''", "'"))
        return lambda _time: text
    count = len(run)
    if letter in _NUMBERS:
        number = _NUMBERS[letter]
        return lambda time: f"{number(time):0{count}}"
    if letter in _WEEKS:
        raise ValueError(f"Pattern character '{letter}' counts weeks, which this tool does not")
    if letter not in _WORDS:
        raise ValueError(f"Illegal pattern character '{letter}'")
    if letter == "X" and count > _LONGEST_ISO_ZONE:
        raise ValueError(f"invalid ISO 8601 format: length={count}")
    word = _WORDS[letter]
    return lambda time: word(time, count)

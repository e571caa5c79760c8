"""Lines to records, with the properties of kafka-console-producer.sh (``LineMessageReader``)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import click

from barnabas.cli.options import is_true, known_properties
from barnabas.client.types import Header

_DEFAULTS: Final = {
    "parse.key": "false",
    "parse.headers": "false",
    "ignore.error": "false",
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": None,
}
_DISTINCT: Final = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    ("null.marker", "key.separator"),
    ("null.marker", "headers.separator"),
    ("null.marker", "headers.delimiter"),
    ("null.marker", "headers.key.separator"),
)
_SHOWN_MAX: Final = 1000
"""How much of a line an error repeats."""


class LineRecord(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


class LineReader:
    """Parses lines ``[headers<TAB>][key<TAB>]value``;
    raises ClickException for properties that contradict.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        given = known_properties(properties, _DEFAULTS)
        for one, other in _DISTINCT:
            if given[one] == given[other]:
                raise click.ClickException(f"{one} and {other} may not be equal")
        self._parse_key = is_true(given["parse.key"])
        self._parse_headers = is_true(given["parse.headers"])
        self._ignore_error = is_true(given["ignore.error"])
        self._key_separator = given["key.separator"]
        self._headers_delimiter = given["headers.delimiter"]
        self._headers_separator = given["headers.separator"]
        self._headers_key_separator = given["headers.key.separator"]
        self._null_marker = given["null.marker"]
        self._line_number = 0

    def parse(self, line: str) -> LineRecord:
        """The record of the next line; raises ClickException that names the line."""
        self._line_number += 1
        headers_text, rest = self._split(
            line, line, self._headers_delimiter, "headers delimiter", wanted=self._parse_headers
        )
        key, value = self._split(line, rest, self._key_separator, "key separator", wanted=self._parse_key)
        return LineRecord(self._encode(key), self._encode(value), self._headers(headers_text))

    def _split(
        self, line: str, text: str, separator: str, name: str, *, wanted: bool
    ) -> tuple[str | None, str]:
        if not wanted:
            return None, text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self._ignore_error:
            return None, text
        shown = line if len(line) <= _SHOWN_MAX else f"{line[:_SHOWN_MAX]}..."
        raise click.ClickException(f"No {name} found on line number {self._line_number}: '{shown}'")

    def _encode(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null_marker else text.encode("utf-8", "surrogateescape")

    def _headers(self, text: str | None) -> list[Header]:
        if text is None or text == self._null_marker:
            return []
        return [self._header(pair) for pair in text.split(self._headers_separator)]

    def _header(self, pair: str) -> Header:
        key, found, value = pair.partition(self._headers_key_separator)
        if not found:
            if self._ignore_error:
                return pair, None
            raise click.ClickException(
                f"No header key separator found in pair '{pair}' on line number {self._line_number}"
            )
        if key == self._null_marker:
            raise click.ClickException(
                f"Header keys should not be equal to the null marker '{self._null_marker}' as they can't be "
                "null"
            )
        return key, self._encode(value)

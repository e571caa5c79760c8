"""The arguments of `send`, checked by name before anything waits or is kept.

A value that cannot be encoded must not come as far as a batch or a request: it would fail there for all the
records beside it.
"""

import operator
from collections.abc import Mapping
from typing import Any, Final

from barnabas.client.errors import InvalidRecordError
from barnabas.client.types import Header, Headers

PARTITION_MAX: Final = 2**31 - 1
TIMESTAMP_MAX: Final = 2**63 - 1


def as_bytes(what: str, value: Any) -> bytes:
    """A key or value as bytes, a text in UTF-8; raises TypeError, InvalidRecordError."""
    if isinstance(value, str):
        return _encoded(what, value)
    if isinstance(value, bytearray | memoryview | bytes):
        return bytes(value)
    raise TypeError(
        f"a record's {what} must be bytes, str or None, not {type(value).__name__}: for other types give the"
        f" producer a {what}_serializer"
    )


def _encoded(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecordError(f"a record's {what} cannot be encoded in UTF-8: {error.reason}") from None


def function_or_none(name: str, value: Any) -> None:
    """Raises TypeError for what cannot be called."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function or None, not {type(value).__name__}")


def whole_number(name: str, value: Any, most: int) -> int:
    """An int from 0 to `most`; raises TypeError, InvalidRecordError."""
    if value.__class__ is int and 0 <= value <= most:
        return value
    try:
        number = int(operator.index(value))
    except TypeError:
        raise TypeError(f"a record's {name} must be an int or None, not {type(value).__name__}") from None
    if not 0 <= number <= most:
        raise InvalidRecordError(f"a record's {name} must be from 0 to {most}, and it is {number}")
    return number


def plain_headers(headers: Any) -> Headers:
    """Headers as pairs of text and bytes, of a list or a mapping; raises TypeError, InvalidRecordError."""
    if isinstance(headers, Mapping):
        headers = list(headers.items())
    if not isinstance(headers, list | tuple):
        raise TypeError(
            f"a record's headers must be a list of (name, value) pairs, not {type(headers).__name__}"
        )
    return [
        header if _is_plain(header) else _plain_header(index, header) for index, header in enumerate(headers)
    ]


def _is_plain(header: Any) -> bool:
    """Whether nothing needs to be done about the header; says so of nearly all of them, for little."""
    if header.__class__ is not tuple or len(header) != 2:
        return False
    name, value = header
    return name.__class__ is str and name.isascii() and (value is None or value.__class__ is bytes)


def _plain_header(index: int, header: Any) -> Header:
    if not isinstance(header, list | tuple) or len(header) != 2:
        raise TypeError(f"headers[{index}] must be a pair of name and value, and it is {header!r:.100}")
    name, value = header
    if not isinstance(name, str):
        raise TypeError(f"the name in headers[{index}] must be str, not {type(name).__name__}")
    _encoded(f"headers[{index}]", name)
    if value is None or value.__class__ is bytes:
        return name, value
    if not isinstance(value, bytearray | memoryview | bytes):
        # A text is refused, not encoded: a reader gets bytes, and which encoding they are in is the sender's
        # word.
        raise TypeError(
            f"the value in headers[{index}] must be bytes or None, not {type(value).__name__}"
            + (": encode it" if isinstance(value, str) else "")
        )
    return name, bytes(value)

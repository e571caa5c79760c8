"""The JSON objects that znodes hold, with each field checked before it is used.

A client that may write to ZooKeeper may write anything there. What is read from a znode goes into requests
with fields of 32 bits, and is compared, counted and iterated far from here. So each field must have the type
and the range that Kafka writes. Otherwise the znode is unreadable: UnreadableZnodeError is the one error that
callers of `znodes` have to know.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from barnabas.core.errors import BarnabasError

T = TypeVar("T")

INT_MAX: Final = 2**31 - 1
_SHOWN_MAX: Final = 60
"""How many characters of a wrong value are shown."""
_TYPES: Final = {dict: "an object", list: "a list", str: "a text", int: "a number"}
_REQUIRED: Final[Any] = object()


class UnreadableZnodeError(BarnabasError):
    """A znode does not hold what Kafka writes there; the text says what is wrong."""


def encode_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes | None) -> dict[str, Any]:
    """The object in a payload. Raises UnreadableZnodeError."""
    if not data:
        raise UnreadableZnodeError("it is empty")
    try:
        value = json.loads(data)
    except UnicodeDecodeError as error:
        raise UnreadableZnodeError(f"it is no UTF-8: {error.reason} at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise UnreadableZnodeError(f"it is no JSON: {error}") from error
    return typed(value, dict, "it")


def typed(value: Any, kind: type[T], name: str) -> T:
    """The value, which is of this type. Raises UnreadableZnodeError."""
    # JSON's true is an int to Python.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UnreadableZnodeError(f"{name} is {_shown(value)} instead of {_TYPES[kind]}")
    return value


def field(fields: Mapping[str, Any], name: str, kind: type[T], default: T = _REQUIRED) -> T:
    """A field of this type; the default where it is missing. Raises UnreadableZnodeError."""
    if name not in fields:
        if default is _REQUIRED:
            raise UnreadableZnodeError(f"it has no field {name}")
        return default
    return typed(fields[name], kind, name)


def number(value: Any, name: str, *, least: int = 0, most: int = INT_MAX) -> int:
    """A number in this range. Raises UnreadableZnodeError."""
    if not least <= typed(value, int, name) <= most:
        raise UnreadableZnodeError(f"{name} is {_shown(value)}, which is not between {least} and {most}")
    return int(value)


def number_field(
    fields: Mapping[str, Any],
    name: str,
    default: int = _REQUIRED,
    *,
    least: int = 0,
    most: int = INT_MAX,
) -> int:
    """A field that is a number in this range. Raises UnreadableZnodeError."""
    return number(field(fields, name, int, default), name, least=least, most=most)


def number_of_text(text: Any, name: str, *, most: int = INT_MAX) -> int:
    """A number that is written as a text. Raises UnreadableZnodeError."""
    digits = str(text)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(most))):
        raise UnreadableZnodeError(f"{name} is {_shown(text)} instead of a number")
    return number(int(digits), name, most=most)


def broker_ids(value: Any, name: str) -> tuple[int, ...]:
    """A list of broker ids. Raises UnreadableZnodeError."""
    return tuple(number(each, f"a broker in {name}") for each in typed(value, list, name))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."

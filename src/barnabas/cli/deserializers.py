"""Kafka's own deserializers by the names of their Java classes:
bytes to the text that Java prints of the value.
"""

import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Final, TypeAlias

import click

from barnabas.core.errors import BarnabasError

Deserializer: TypeAlias = Callable[[bytes], bytes]

_PACKAGE: Final = "org.apache.kafka.common.serialization."
_BOOLEANS: Final = {b"\0": b"false", b"\1": b"true"}
_PLAIN_MIN, _PLAIN_MAX = Decimal("1e-3"), Decimal("1e7")
"""Between these, Java prints a floating-point number without an exponent."""


class DeserializationError(BarnabasError):
    """Bytes are not what they are to be read as (``SerializationException``)."""


def deserializer(name: str) -> Deserializer:
    """The one of this Java class. Raises ClickException for a class that is not among them."""
    found = _DESERIALIZERS.get(name.removeprefix(_PACKAGE))
    if found is None or not name.startswith(_PACKAGE):
        known = ", ".join(_DESERIALIZERS)
        raise click.ClickException(
            f"{name} is a Java class that this tool cannot run; of {_PACKAGE}* it knows {known}"
        )
    return found


def _whole(size: int, kind: str) -> Deserializer:
    def read(data: bytes) -> bytes:
        _check(data, size, kind)
        return b"%d" % int.from_bytes(data, "big", signed=True)

    return read


def _floating(size: int, kind: str, digits: int) -> Deserializer:
    code = {4: ">f", 8: ">d"}[size]

    def read(data: bytes) -> bytes:
        _check(data, size, kind)
        return _java_text(struct.unpack(code, data)[0], code, digits).encode()

    return read


def _check(data: bytes, size: int, kind: str) -> None:
    if len(data) != size:
        raise DeserializationError(f"Size of data received by {kind} is not {size}")


def _java_text(value: float, code: str, digits: int) -> str:
    """``Double.toString`` and ``Float.toString``:
    as few digits as tell the number from its neighbours, at least two.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    texts = (f"{value:.{count}g}" for count in range(2, digits + 1))
    number = Decimal(next(text for text in texts if _is(text, value, code)))
    if not number or _PLAIN_MIN <= abs(number) < _PLAIN_MAX:
        text = f"{number:f}"
        return text if "." in text else f"{text}.0"
    _, found, _ = number.normalize().as_tuple()
    shown = "".join(map(str, found))
    return f"{'-' * (number < 0)}{shown[0]}.{shown[1:] or '0'}E{number.adjusted()}"


def _is(text: str, value: float, code: str) -> bool:
    try:
        return struct.pack(code, float(text)) == struct.pack(code, value)
    except OverflowError:
        return False  # rounded to beyond the largest number


def _boolean(data: bytes) -> bytes:
    if data not in _BOOLEANS:
        raise DeserializationError("a boolean is one byte, 0 or 1")
    return _BOOLEANS[data]


def _uuid(data: bytes) -> bytes:
    try:
        return str(uuid.UUID(data.decode())).encode()
    except ValueError:
        raise DeserializationError("Error parsing data into UUID") from None


_DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "StringDeserializer": lambda data: data.decode("utf-8", "replace").encode(),
    "LongDeserializer": _whole(8, "LongDeserializer"),
    "IntegerDeserializer": _whole(4, "IntegerDeserializer"),
    "ShortDeserializer": _whole(2, "ShortDeserializer"),
    "DoubleDeserializer": _floating(8, "Deserializer", 17),
    "FloatDeserializer": _floating(4, "Deserializer", 9),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "ByteArrayDeserializer": lambda data: data,  # Java prints where the array is, which tells nobody anything
}

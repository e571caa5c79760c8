"""Thrift's compact protocol, as much of it as the headers and the footer of a Parquet file need.

A struct is a sequence of ``(field id, value)``; which kind a value has follows from its Python type: `I64` or
int (an i32), bytes (binary), a list of one kind, a nested `Struct`, () for one without fields. Reading
gives a dictionary by field id.
"""

from typing import Any, Final, TypeAlias

Struct: TypeAlias = list[tuple[int, Any]]

_I32: Final = 5
_I64: Final = 6
_BINARY: Final = 8
_LIST: Final = 9
_STRUCT: Final = 12
_DEPTH_MAX: Final = 16


class I64(int):
    """An integer of 64 bits; a plain int has 32."""


def varint(value: int) -> bytes:
    """An unsigned number, seven bits a byte, the lowest first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def encode(struct: Struct | tuple[()]) -> bytes:
    """A struct, with its end."""
    found, last = bytearray(), 0
    for number, value in struct:
        found.append((number - last) << 4 | _kind(value))
        found += _encoded(value)
        last = number
    found.append(0)
    return bytes(found)


def _kind(value: Any) -> int:
    if isinstance(value, I64):
        return _I64
    if isinstance(value, int):
        return _I32
    if isinstance(value, bytes):
        return _BINARY
    return _STRUCT if value == () or (value and isinstance(value[0], tuple)) else _LIST


def _encoded(value: Any) -> bytes:
    if isinstance(value, int):
        return varint(value << 1 if value >= 0 else (-value << 1) - 1)
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if _kind(value) == _STRUCT:
        return encode(value)
    kind, count = _kind(value[0]) if value else _STRUCT, len(value)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)
    return head + b"".join(map(_encoded, value))


def decode(data: bytes | memoryview, at: int = 0) -> tuple[dict[int, Any], int]:
    """A struct and where it ends. Raises ValueError where it is cut off or is none."""
    try:
        return _struct(data, at, 0)
    except IndexError as error:
        raise ValueError("the header is cut off") from error


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """An unsigned number and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _struct(data: bytes | memoryview, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _DEPTH_MAX:
        raise ValueError("structs are nested too deep")
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            value, at = read_varint(data, at)
            number = value >> 1 ^ -(value & 1)
        kind = head & 0x0F
        if kind in {1, 2}:  # a boolean is in its header
            found[number] = kind == 1
        else:
            found[number], at = _value(data, at, kind, depth)
    return found, at + 1


def _value(data: bytes | memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in {4, _I32, _I64}:
        value, at = read_varint(data, at)
        return value >> 1 ^ -(value & 1), at
    if kind == _BINARY:
        size, at = read_varint(data, at)
        if at + size > len(data):
            raise ValueError("a text is cut off")
        return bytes(data[at : at + size]), at + size
    if kind == _LIST:
        head, at = data[at], at + 1
        count = head >> 4
        if count == 15:
            count, at = read_varint(data, at)
        found = []
        for _ in range(count):
            one, at = _value(data, at, head & 0x0F, depth)
            found.append(one)
        return found, at
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    raise ValueError(f"a field of kind {kind}, which these files do not have")

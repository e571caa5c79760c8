"""The types of Kafka's protocol, and how their values lie on the wire.

Grammar (``https://kafka.apache.org/protocol``; compact forms belong to flexible versions, KIP-482)::

    INT8..INT64, UINT16, UINT32, FLOAT64   big-endian
    UUID                                   16 bytes
    STRING          INT16 length, bytes    length -1: null
    COMPACT_STRING  UVARINT length+1, bytes                0: null
    BYTES, RECORDS  INT32 length, bytes    length -1: null
    COMPACT_BYTES   UVARINT length+1, bytes                0: null
    ARRAY           INT32 count, items     count -1: null
    COMPACT_ARRAY   UVARINT count+1, items                 0: null
    nullable struct INT8 -1 (null; as a tagged field 0) or 1, then the struct
    TAGS            UVARINT count, then count * (UVARINT tag, UVARINT size, bytes), tags ascending
"""

from dataclasses import dataclass
from struct import Struct
from typing import Annotated, Final, NoReturn, TypeAlias

from barnabas.core.chunks import Buffer, Chunk
from barnabas.protocol.errors import Malformed

ELEMENTS_MAX: Final = 1 << 20
"""No array has more elements than this, also where the frame's size would allow it."""
STRING_LENGTH_MAX: Final = 0x7FFF
TAGS_MAX: Final = 32
"""Tagged fields in one struct. Kafka has no bound; no schema of any release has more than five."""
TABLE_SIZE: Final = 32
"""Arrays shorter than this (replicas, mostly) are packed by a ready-made `Struct`."""
_PYTHON: Final = {
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "float64": "float",
    "records": "Chunk",
}
"""The types of values that are no integers."""


@dataclass(frozen=True, slots=True)
class Wire:
    """How one primitive type is written: Kafka's name and, for a fixed size, the letter of `struct`."""

    name: str
    code: str = ""

    @property
    def size(self) -> int:
        """Bytes on the wire; the least there can be when the size varies."""
        return Struct(">" + self.code).size if self.code else 1

    @property
    def python(self) -> str:
        """The type of its values."""
        return _PYTHON.get(self.name, "int")


int8 = Annotated[int, Wire("int8", "b")]
int16 = Annotated[int, Wire("int16", "h")]
int32 = Annotated[int, Wire("int32", "i")]
int64 = Annotated[int, Wire("int64", "q")]
uint16 = Annotated[int, Wire("uint16", "H")]
uint32 = Annotated[int, Wire("uint32", "I")]
float64 = Annotated[float, Wire("float64", "d")]
Uuid: TypeAlias = Annotated[bytes, Wire("uuid", "16s")]
Records: TypeAlias = Annotated[Chunk | None, Wire("records")]
"""Record batches: never copied. Decoding gives a memoryview of the frame; encoding takes any buffer or a
`FileSlice`, which becomes a chunk of its own."""

BUILTIN: Final = {
    bool: Wire("bool", "?"),
    str: Wire("string"),
    bytes: Wire("bytes"),
}


def too_long(length: int, left: int) -> NoReturn:
    """Refuses a length that points behind the end."""
    raise Malformed(f"a length of {length}, where {left} bytes are left")


def too_many(count: int, left: int) -> NoReturn:
    """Refuses a count of elements for which there cannot be enough bytes."""
    raise Malformed(f"a count of {count}, where {left} bytes are left")


def string_too_long(length: int) -> NoReturn:
    """Refuses a string that Kafka's clients could not have written either."""
    raise Malformed(f"a string of {length} bytes, longer than {STRING_LENGTH_MAX}")


def too_many_tags(count: int) -> NoReturn:
    """Refuses tagged fields that no schema can have."""
    raise Malformed(f"{count} tagged fields in one place, more than {TAGS_MAX}")


def must_not_be_null() -> NoReturn:
    """Refuses null where this version has none."""
    raise Malformed("null, which it must not be")


def wrong_size() -> NoReturn:
    """Refuses a tagged field that ends elsewhere than its size says."""
    raise Malformed("a tagged field whose size is not that of its content")


def read_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Goes on with an unsigned varint whose first byte, already read, has its high bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise Malformed("a varint of more than 32 bits")


def read_unknown_tags(buffer: Buffer, position: int, end: int, count: int) -> tuple[dict[int, bytes], int]:
    """Tagged fields of a struct whose schema has none, and the position behind them."""
    if count > TAGS_MAX:
        too_many_tags(count)
    tags = {}
    for _ in range(count):
        tag, position = whole_uvarint(buffer, position)
        size, position = whole_uvarint(buffer, position)
        if position + size > end:
            too_long(size, end - position)
        tags[tag] = bytes(buffer[position : position + size])
        position += size
    return tags, position


def skip_unknown_tags(buffer: Buffer, position: int, end: int, count: int) -> int:
    """The position behind tagged fields that are skipped."""
    if count > TAGS_MAX:
        too_many_tags(count)
    for _ in range(count):
        _, position = whole_uvarint(buffer, position)
        size, position = whole_uvarint(buffer, position)
        if position + size > end:
            too_long(size, end - position)
        position += size
    return position


def whole_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint, and the position behind it."""
    first = buffer[position]
    return (first, position + 1) if first < 0x80 else read_uvarint(buffer, position + 1, first)


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_length(length: int) -> bytes:
    """The compact length of a string that is too long for one byte of length."""
    if length > STRING_LENGTH_MAX:
        raise Malformed(f"a string of {length} bytes is longer than {STRING_LENGTH_MAX}")
    return uvarint(length + 1)


def data_length(length: int) -> bytes:
    """The compact length of bytes or of an array that is too long for one byte of length."""
    return uvarint(length + 1)


def uuid(value: bytes) -> bytes:
    """The 16 bytes of a UUID; `struct` would silently pad a shorter one."""
    if len(value) != 16:
        raise Malformed(f"a UUID of {len(value)} bytes, not 16")
    return value


def tag_section(tags: dict[int, bytes]) -> bytes:
    """The tagged fields of a struct, ascending as KIP-482 wants them."""
    parts = [uvarint(len(tags))]
    for tag in sorted(tags):
        parts += (uvarint(tag), uvarint(len(tags[tag])), tags[tag])
    return b"".join(parts)


ARRAY_STRUCTS: Final = {
    code: tuple(Struct(f">{n}{code}") for n in range(TABLE_SIZE)) for code in ("b", "h", "i", "q")
}
"""For arrays of integers: code -> n -> the `Struct` of n elements."""

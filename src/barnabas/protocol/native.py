"""What the compiled codecs of the hot messages share: numbers and strings to and from bytes.

Only modules that `barnabas.protocol.ahead` has written use this, and only after they were compiled:
interpreted, the `struct` module is several times as fast. Reading behind the end raises IndexError, a value
that does not fit its type OverflowError; a codec that meets either leaves the message to the codec that is
made at first use.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.chunks import Buffer, Chunks
from barnabas.protocol.message import Message, declare
from barnabas.protocol.schema import Field, Struct, same, text_of
from barnabas.protocol.wire import STRING_LENGTH_MAX

if TYPE_CHECKING:  # i64 is a type of the compiler; nothing imports it when the code runs
    from mypy_extensions import i64

UNSET: Final[list[Any]] = []
"""The default of parameters whose default is a list of their own; never filled."""
WINDOW: Final = 1024
"""Bytes of a message with records that are copied, to be read faster than through a view."""
WINDOW_REST: Final = 512
"""What must be left of them after records:
more than there is between two batches in any request of a client.
"""
_BYTES: Final[list[bytes]] = [bytes((value,)) for value in range(256)]
_INT16: Final[list[bytes]] = [value.to_bytes(2, "big") for value in range(256)]
_INT32: Final[list[bytes]] = [value.to_bytes(4, "big") for value in range(256)]
_INT64: Final[list[bytes]] = [value.to_bytes(8, "big") for value in range(256)]
_MINUS_ONE: Final = b"\xff" * 8
_NULL_STRING: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_ZERO: Final = b"\0"


class GiveUp(Exception):  # noqa: N818 - no error: the codec made at first use goes on
    """Raised by a codec for what is rare, or wrong."""


def int16_at(b: bytes, p: "i64") -> "i64":
    n: i64 = b[p]
    n = n << 8 | b[p + 1]
    return n - 0x10000 if n > 0x7FFF else n


def int32_at(b: bytes, p: "i64") -> "i64":
    n: i64 = b[p]
    n = n << 24 | b[p + 1] << 16 | b[p + 2] << 8 | b[p + 3]
    return n - 0x100000000 if n > 0x7FFFFFFF else n


def int64_at(b: bytes, p: "i64") -> "i64":
    high = int32_at(b, p)
    low: i64 = b[p + 4]
    low = low << 24 | b[p + 5] << 16 | b[p + 6] << 8 | b[p + 7]
    return high << 32 | low


def int8_at(b: bytes, p: "i64") -> "i64":
    n: i64 = b[p]
    return n - 0x100 if n > 0x7F else n


def uvarint_at(b: bytes, p: "i64") -> "i64":
    """An unsigned varint whose first byte has its high bit set, times 8, plus the number of its bytes."""
    value: i64 = 0
    shift: i64 = 0
    size: i64 = 0
    while size < 5:
        byte: i64 = b[p + size]
        size += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise GiveUp
            return value << 3 | size
        shift += 7
    raise GiveUp


def text_at(b: bytes, p: "i64", n: "i64") -> str:
    if n > STRING_LENGTH_MAX or p + n > len(b):
        raise GiveUp
    return b[p : p + n].decode("utf-8", "replace")


def bytes_at(b: bytes, p: "i64", n: "i64") -> bytes:
    if p + n > len(b):
        raise GiveUp
    return b[p : p + n]


def int8_bytes(n: "i64") -> bytes:
    if not -0x80 <= n <= 0x7F:
        raise GiveUp
    return _BYTES[n & 0xFF]


def int16_bytes(n: "i64") -> bytes:
    if 0 <= n <= 0xFF:
        return _INT16[n]
    if not -0x8000 <= n <= 0x7FFF:
        raise GiveUp
    return b"%b%b" % (_BYTES[n >> 8 & 0xFF], _BYTES[n & 0xFF])


def int32_bytes(n: "i64") -> bytes:
    if 0 <= n <= 0xFF:
        return _INT32[n]
    if not -0x80000000 <= n <= 0x7FFFFFFF:
        raise GiveUp
    return b"%b%b%b%b" % (
        _BYTES[n >> 24 & 0xFF],
        _BYTES[n >> 16 & 0xFF],
        _BYTES[n >> 8 & 0xFF],
        _BYTES[n & 0xFF],
    )


def int64_bytes(n: "i64") -> bytes:
    if 0 <= n <= 0xFF:
        return _INT64[n]
    if n == -1:
        return _MINUS_ONE
    return b"%b%b%b%b%b%b%b%b" % (
        _BYTES[n >> 56 & 0xFF],
        _BYTES[n >> 48 & 0xFF],
        _BYTES[n >> 40 & 0xFF],
        _BYTES[n >> 32 & 0xFF],
        _BYTES[n >> 24 & 0xFF],
        _BYTES[n >> 16 & 0xFF],
        _BYTES[n >> 8 & 0xFF],
        _BYTES[n & 0xFF],
    )


def bool_bytes(value: bool) -> bytes:
    return _BYTES[1] if value else _ZERO


def compact(n: "i64") -> bytes:
    """A length or count in a flexible version."""
    n += 1
    if n < 0x80:
        return _BYTES[n]
    if n < 0x4000:
        return b"%b%b" % (_BYTES[n & 0x7F | 0x80], _BYTES[n >> 7])
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def compact_text(text: str | None) -> bytes:
    if text is None:
        return _ZERO
    s = text.encode()
    n = len(s)
    if n > STRING_LENGTH_MAX:
        raise GiveUp
    return b"%b%b" % (compact(n), s)


def classic_text(text: str | None) -> bytes:
    if text is None:
        return _NULL_STRING
    s = text.encode()
    return b"%b%b" % (int16_bytes(len(s)), s)


def compact_bytes(s: bytes | None) -> bytes:
    return _ZERO if s is None else b"%b%b" % (compact(len(s)), s)


def classic_bytes(s: bytes | None) -> bytes:
    return _NULL if s is None else b"%b%b" % (int32_bytes(len(s)), s)


def view_of(buffer: Buffer) -> memoryview:
    return memoryview(buffer) if isinstance(buffer, (bytes, bytearray)) else buffer


def uuid(value: bytes) -> bytes:
    if len(value) != 16:
        raise GiveUp
    return value


def join(pieces: list[bytes]) -> bytes:
    return b"".join(pieces)


def framed(pieces: list[bytes], chunks: Chunks, correlation_id: "i64", tags: bytes) -> Chunks:
    """The whole answer: its length, id and tags, what is in the chunks and then in the pieces."""
    size: i64 = 4 + len(tags)
    if not chunks:
        for piece in pieces:
            size += len(piece)
        pieces.insert(0, b"%b%b%b" % (int32_bytes(size), int32_bytes(correlation_id), tags))
        return [b"".join(pieces)]
    if pieces:
        chunks.append(b"".join(pieces))
    for chunk in chunks:
        size += len(chunk)
    chunks[0] = b"".join((int32_bytes(size), int32_bytes(correlation_id), tags, chunks[0]))  # type: ignore[arg-type]
    return chunks


def finished(pieces: list[bytes], chunks: Chunks) -> Chunks:
    if pieces or not chunks:
        chunks.append(b"".join(pieces))
    return chunks


class NativeStruct:  # noqa: PLW1641 - like `Struct` it is mutable and has no hash
    """What a native class has besides its fields: the same as `schema.Struct`."""

    unknown_tags: dict[int, bytes] | None

    def __eq__(self, other: object) -> bool:
        return same(self, other) if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        return text_of(self)


class NativeMessage(NativeStruct):
    """The base of native messages.
    Their codecs are written ahead; all else `adopt` lends them from `message.Message`.
    """

    def encode_otherwise(self, version: int) -> Chunks | None:
        """``encode_small`` with the encoder that is made at first use."""
        chunks: Chunks | None = _MESSAGE.encode_small(self, version)
        return chunks

    def frame_otherwise(self, correlation_id: int, version: int) -> Chunks | None:
        """``small_frame`` with that encoder."""
        chunks: Chunks | None = _MESSAGE.small_frame(self, correlation_id, version)
        return chunks


def decode_otherwise(cls: Any, buffer: Buffer, version: int, offset: int) -> tuple[Any, int]:
    """``decode`` with the decoder that is made at first use."""
    found: tuple[Any, int] = _MESSAGE.decode.__func__(cls, buffer, version, offset)
    return found


_MESSAGE: Final[Any] = Message
"""Its methods serve every class that has the names which `declare` gives;
the type checker cannot know that.
"""
_LENT: Final = (
    "is_flexible",
    "encode",
    "encode_small",
    "small_frame",
    "encode_in_steps",
    "decode",
    "decode_in_steps",
    "encoder",
    "decoder",
    "_layout",
)


def adopt(
    cls: Any,
    fields: list[Field],
    base: type[Struct] = Struct,
    *,
    api: int | None = None,
    versions: str = "0",
    flexible: str | None = None,
) -> None:
    """Makes a native class known as the one that the schema declares with these fields and options."""
    cls.__fields__ = MappingProxyType({field.name: field for field in fields})
    cls.__resolved__ = True
    cls.__stands_for__ = base.__mro__[:-1]
    if issubclass(base, Message):
        cls.keeps_unknown_tags = base.keeps_unknown_tags
        declare(cls, api, versions, flexible)
        for name in _LENT:
            if name not in vars(cls):
                setattr(cls, name, vars(Message)[name])

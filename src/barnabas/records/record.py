"""One record, and the records section of a batch (``DefaultRecord``).

::

    record  = length:varint attributes:int8 timestampDelta:varlong offsetDelta:varint
              keyLength:varint key valueLength:varint value headerCount:varint header*
    header  = keyLength:varint key:utf8 valueLength:varint value

All varints are zig-zag; a length of -1 is null. The section knows nothing of its batch: deltas are resolved
against the base that the caller hands in.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from barnabas.core.errors import ErrorCode, KafkaError

Header: TypeAlias = tuple[str, bytes | None]

RUN_RECORDS: Final = 8192
"""Records that `decode_runs` has in memory at a time."""


class Record(NamedTuple):
    """A record with its place and time resolved."""

    offset: int
    timestamp: int
    """Milliseconds since 1970; -1 for none."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


def encode_varint(value: int) -> bytes:
    """The zig-zag varint of a signed number of up to 64 bits."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


_ONE_BYTE: Final = [bytes((number,)) for number in range(128)]


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it.

    Raises IndexError at the end of the data, ValueError when it is longer than 64 bits.
    """
    number = data[position]
    position += 1
    if number > 0x7F:
        number &= 0x7F
        shift = 7
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise ValueError("a varint is longer than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> bytes:
    """The bytes of one record, its length in front."""
    parts = [b"\x00", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    parts += (b"\x01",) if key is None else (encode_varint(len(key)), key)
    parts += (b"\x01",) if value is None else (encode_varint(len(value)), value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        text = name.encode()
        parts += (encode_varint(len(text)), text)
        parts += (b"\x01",) if content is None else (encode_varint(len(content)), content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def decode_records(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None = None
) -> list[Record]:
    """All records of a (decompressed) section; `append_time` replaces their timestamps (LogAppendTime).

    Raises INVALID_RECORD when the section does not hold exactly `count` well-formed records: that is what
    a broker answers to a batch that lies about its inside.
    """
    if not 0 <= count <= len(data):
        raise _invalid(f"a count of {count} in {len(data)} bytes")
    try:
        records, position = _decode_run(data, 0, count, base_offset, base_timestamp, append_time)
    except (IndexError, ValueError) as error:
        raise _invalid(str(error)) from error
    if position != len(data):
        raise _invalid(f"{len(data) - position} bytes after the last of {count} records")
    return records


def decode_runs(data: bytes, count: int, base_offset: int, base_timestamp: int) -> Iterator[list[Record]]:
    """The same records in runs of `RUN_RECORDS`, so that a batch of millions needs no memory for all of them.

    Raises INVALID_RECORD like `decode_records`, where the trouble is.
    """
    if not 0 <= count <= len(data):
        raise _invalid(f"a count of {count} in {len(data)} bytes")
    position = 0
    for first in range(0, count, RUN_RECORDS):
        run = min(RUN_RECORDS, count - first)
        try:
            records, position = _decode_run(data, position, run, base_offset, base_timestamp, None)
        except (IndexError, ValueError) as error:
            raise _invalid(str(error)) from error
        yield records
    if position != len(data):
        raise _invalid(f"{len(data) - position} bytes after the last of {count} records")


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"Found invalid record structure in batch: {reason}")


def _decode_run(
    data: bytes, position: int, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[list[Record], int]:
    # One-byte varints are read in place, for all fields of nearly all records are: a call for each would
    # cost more than everything else here. Longer ones go through `decode_varint`.
    records: list[Record] = []
    new_record = tuple.__new__
    for _ in range(count):
        size = data[position]
        if size < 0x80:
            size = (size >> 1) ^ -(size & 1)
            position += 1
        else:
            size, position = decode_varint(data, position)
        end = position + size
        if size < 6 or end > len(data):
            raise ValueError(f"a record of {size} bytes where {len(data) - position} are left")
        delta = data[position + 1]
        if delta < 0x80:
            timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
            position += 2
        else:
            delta, position = decode_varint(data, position + 1)
            timestamp = base_timestamp + delta
        delta = data[position]
        if delta < 0x80:
            offset = base_offset + ((delta >> 1) ^ -(delta & 1))
            position += 1
        else:
            delta, position = decode_varint(data, position)
            offset = base_offset + delta
        key, position = _decode_bytes(data, position, end)
        value, position = _decode_bytes(data, position, end)
        headers: Sequence[Header] = ()
        if data[position]:
            headers, position = _decode_headers(data, position, end)
        else:
            position += 1
        if position != end:
            raise ValueError(f"a record's length differs from its content by {end - position} bytes")
        if append_time is not None:
            timestamp = append_time
        records.append(new_record(Record, (offset, timestamp, key, value, headers)))
    return records, position


def _decode_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size = data[position]
    if size < 0x80:
        size = (size >> 1) ^ -(size & 1)
        position += 1
    else:
        size, position = decode_varint(data, position)
    if size < 0:
        if size != -1:
            raise ValueError(f"a length of {size}")
        return None, position
    stop = position + size
    if stop > end:
        raise ValueError(f"a length of {size} where {end - position} bytes are left")
    return data[position:stop], stop


def _decode_headers(data: bytes, position: int, end: int) -> tuple[list[Header], int]:
    count, position = decode_varint(data, position)
    if not 0 <= count <= end - position:
        raise ValueError(f"a header count of {count}")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _decode_bytes(data, position, end)
        if name is None:
            raise ValueError("a header without a key")
        content, position = _decode_bytes(data, position, end)
        headers.append((name.decode(), content))
    return headers, position


def offsets_are_consecutive(records: Iterable[Record], base_offset: int) -> bool:
    """Whether the records count up from the base without a gap, as a producer must send them."""
    return all(record.offset == base_offset + index for index, record in enumerate(records))

"""One record, and the records section of a batch (``DefaultRecord``).

::

    record  = length:varint attributes:int8 timestampDelta:varlong offsetDelta:varint
              keyLength:varint key valueLength:varint value headerCount:varint header*
    header  = keyLength:varint key:utf8 valueLength:varint value

All varints are zig-zag; a length of -1 is null. The section knows nothing of its batch: deltas are resolved
against the base that the caller hands in.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from barnabas.core.errors import ErrorCode, KafkaError

R = TypeVar("R")

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


RecordMaker: TypeAlias = Callable[[int, int, bytes | None, bytes | None, Sequence[Header]], R]
"""Makes a record out of offset, timestamp, key, value and headers."""


def make_record(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> Record:
    return _new(Record, (offset, timestamp, key, value, headers))


def placed_maker(
    kind: type[R], topic: str, partition: int, timestamp_type: Any, leader_epoch: int
) -> RecordMaker[R]:
    """Makes records of a named tuple that says where they come from: topic, partition, offset, timestamp and
    its type, key, value, headers, leader epoch. It is here to be compiled with the decoder that calls it for
    each record: 0.3 us less. The type of the time is Any: compiled code makes a plain number of an enum that
    is declared as `int`.
    """
    new: Any = _new

    def make(
        offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
    ) -> R:
        fields = (topic, partition, offset, timestamp, timestamp_type, key, value, headers, leader_epoch)
        made: R = new(kind, fields)
        return made

    return make


_new: Final = tuple.__new__

_SMALL_MAX: Final = 4096
_SMALL: Final = [bytes((value << 1,)) for value in range(64)] + [
    bytes((value << 1 & 0x7F | 0x80, value >> 6)) for value in range(64, _SMALL_MAX)
]
"""The varints of small numbers. Looking one up takes a third of the time of computing it."""


def encode_varint(value: int) -> bytes:
    """The zig-zag varint of a signed number of up to 64 bits."""
    if 0 <= value < _SMALL_MAX:
        return _SMALL[value]
    number = (value << 1) ^ (value >> 63)
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


_NULL: Final = encode_varint(-1)


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
    # Small numbers are looked up in place: a call for each would cost as much as the rest. Measured: 0.3 us a
    # record instead of 0.38.
    key_size = value_size = _NULL
    if key is not None:
        size = len(key)
        key_size = _SMALL[size] if size < _SMALL_MAX else encode_varint(size)
    if value is not None:
        size = len(value)
        value_size = _SMALL[size] if size < _SMALL_MAX else encode_varint(size)
    body = b"".join(
        (
            b"\x00",
            _SMALL[timestamp_delta] if 0 <= timestamp_delta < _SMALL_MAX else encode_varint(timestamp_delta),
            _SMALL[offset_delta] if 0 <= offset_delta < _SMALL_MAX else encode_varint(offset_delta),
            key_size,
            key or b"",
            value_size,
            value or b"",
            _encode_headers(headers) if headers else b"\x00",
        )
    )
    size = len(body)
    return (_SMALL[size] if size < _SMALL_MAX else encode_varint(size)) + body


def _encode_headers(headers: Sequence[Header]) -> bytes:
    pieces = [encode_varint(len(headers))]
    for name, value in headers:
        raw = name.encode()
        pieces += (encode_varint(len(raw)), raw)
        pieces += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(pieces)


def decode_records(
    make: RecordMaker[R],
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
) -> list[R]:
    """All records of a (decompressed) section; `append_time` replaces their timestamps (LogAppendTime).

    Raises INVALID_RECORD when the section does not hold exactly `count` well-formed records: a broker answers
    this code to a batch whose header does not fit its content.
    """
    if not 0 <= count <= len(data):
        raise _invalid(f"a count of {count} in {len(data)} bytes")
    try:
        records, position = _decode_run(make, data, 0, count, base_offset, base_timestamp, append_time)
    except (IndexError, ValueError) as error:
        raise _invalid(str(error)) from error
    if position != len(data):
        raise _invalid(f"{len(data) - position} bytes after the last of {count} records")
    return records


def decode_runs(
    make: RecordMaker[R],
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
) -> Iterator[list[R]]:
    """The same records in runs of `RUN_RECORDS`, at least one, so that a batch of millions needs no memory
    for all of them.

    Raises INVALID_RECORD like `decode_records`, in place of the run in which the trouble is.
    """
    if not 0 <= count <= len(data):
        raise _invalid(f"a count of {count} in {len(data)} bytes")
    position = 0
    for first in range(0, count or 1, RUN_RECORDS):
        run = min(RUN_RECORDS, count - first)
        try:
            records, position = _decode_run(
                make, data, position, run, base_offset, base_timestamp, append_time
            )
        except (IndexError, ValueError) as error:
            raise _invalid(str(error)) from error
        if first + run == count and position != len(data):
            raise _invalid(f"{len(data) - position} bytes after the last of {count} records")
        yield records


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"Found invalid record structure in batch: {reason}")


def _decode_run(
    make: RecordMaker[R],
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
) -> tuple[list[R], int]:
    # Varints of one byte are read in place, and of two where they are common: a call for each would cost more
    # than everything else here. One test (`& 0x81`) tells a positive number of one byte from a longer or a
    # negative one. Longer ones go through `decode_varint`. Measured, for 100 bytes without a key: 1.5 us a
    # record instead of 1.85 with calls for the lengths of values; compiled 0.4.
    records: list[R] = []
    append = records.append
    no_headers: Sequence[Header] = ()
    total = len(data)
    for _ in range(count):
        size = data[position]
        if not size & 0x81:
            position += 1
            end = position + (size >> 1)
        elif size & 0x81 == 0x80 and (high := data[position + 1]) < 0x80:
            position += 2
            end = position + ((size & 0x7F | high << 7) >> 1)
        else:
            size, position = decode_varint(data, position)
            end = position + size
        if end > total:
            raise ValueError(f"a record of {end - position} bytes where {total - position} are left")
        # The attributes of a record say nothing: its time comes right behind them.
        position += 1
        delta = data[position]
        if not delta & 0x81:
            timestamp = base_timestamp + (delta >> 1)
            position += 1
        else:
            delta, position = decode_varint(data, position)
            timestamp = base_timestamp + delta
        delta = data[position]
        if not delta & 0x81:
            offset = base_offset + (delta >> 1)
            position += 1
        elif delta & 0x81 == 0x80 and (high := data[position + 1]) < 0x80:
            offset = base_offset + ((delta & 0x7F | high << 7) >> 1)
            position += 2
        else:
            delta, position = decode_varint(data, position)
            offset = base_offset + delta
        # A key or value that reaches beyond the record is found by the comparison with its end below.
        size = data[position]
        key: bytes | None = None
        if size == 1:
            position += 1
        elif not size & 0x81:
            start = position + 1
            position = start + (size >> 1)
            key = data[start:position]
        else:
            key, position = _decode_bytes(data, position, end)
        size = data[position]
        value: bytes | None = None
        if not size & 0x81:
            start = position + 1
            position = start + (size >> 1)
            value = data[start:position]
        elif size & 0x81 == 0x80 and (high := data[position + 1]) < 0x80:
            start = position + 2
            position = start + ((size & 0x7F | high << 7) >> 1)
            value = data[start:position]
        else:
            value, position = _decode_bytes(data, position, end)
        headers = no_headers
        if data[position]:
            headers, position = _decode_headers(data, position, end)
        else:
            position += 1
        if position != end:
            raise ValueError(f"a record's length differs from its content by {end - position} bytes")
        if append_time is not None:
            timestamp = append_time
        append(make(offset, timestamp, key, value, headers))
    return records, position


def _decode_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
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


def decode_keys_and_values(data: bytes, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """The keys and values of a section's records, for the load of a coordinator: half the time of
    `decode_records`.

    Raises INVALID_RECORD where the section does not hold exactly `count` records.
    """
    pairs: list[tuple[bytes | None, bytes | None]] = []
    add = pairs.append
    position = 0
    try:
        for _ in range(count):
            size = data[position]
            if size > 0x7F:
                size, position = decode_varint(data, position)
            else:
                size >>= 1
                position += 1
            end = position + size
            position += 1  # attributes
            while data[position] > 0x7F:  # time
                position += 1
            position += 1
            while data[position] > 0x7F:  # offset
                position += 1
            position += 1
            key = value = None
            size = data[position]
            if size > 0x7F:
                size, position = decode_varint(data, position)
            else:
                size = (size >> 1) ^ -(size & 1)
                position += 1
            if size >= 0:
                key = data[position : position + size]
                position += size
            size = data[position]
            if size > 0x7F:
                size, position = decode_varint(data, position)
            else:
                size = (size >> 1) ^ -(size & 1)
                position += 1
            if size >= 0:
                value = data[position : position + size]
                position += size
            if position > end:
                raise ValueError("a record's content is longer than its length")
            add((key, value))
            position = end
        if position != len(data):
            raise ValueError(f"{len(data) - position} bytes after the last of {count} records")
    except (IndexError, ValueError) as error:
        raise _invalid(str(error)) from error
    return pairs

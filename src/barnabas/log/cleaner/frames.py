"""Where the records of a batch begin and end: enough of each to judge it, and to copy it as it is."""

from typing import NamedTuple

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.records.record import decode_varint, encode_varint


class Frames(NamedTuple):
    """The records of a records section, a list a column."""

    starts: list[int]
    """Where each record begins, and where the last one ends."""
    offset_deltas: list[int]
    keys: list[bytes | None]
    tombstones: list[int]
    """Which of the records have a null value."""


def frames_of(data: bytes, count: int) -> Frames:
    """The frames of a (decompressed) section.
    Raises INVALID_RECORD where it does not hold exactly `count` records.
    """
    # The loop of `records.record`, without what is not looked at: varints of one and two bytes are read in
    # place.
    starts: list[int] = [0]
    offset_deltas: list[int] = []
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    start = 0
    try:
        for number in range(count):
            size = data[start]
            if size < 0x80:
                position = start + 1
                size >>= 1
            elif (high := data[start + 1]) < 0x80:
                position = start + 2
                size = (size & 0x7F | high << 7) >> 1
            else:
                size, position = decode_varint(data, start)
            start = position + size
            # Attributes take one byte; the time is looked at only in records that are copied into a changed
            # batch.
            if data[position + 1] < 0x80:
                position += 2
            elif data[position + 2] < 0x80:
                position += 3
            else:
                _, position = decode_varint(data, position + 1)
            offset_delta = data[position]
            if offset_delta < 0x80:
                offset_delta >>= 1
                position += 1
            elif (high := data[position + 1]) < 0x80:
                offset_delta = (offset_delta & 0x7F | high << 7) >> 1
                position += 2
            else:
                offset_delta, position = decode_varint(data, position)
            size = data[position]
            if size < 0x80:
                size = (size >> 1) ^ -(size & 1)
                position += 1
            else:
                size, position = decode_varint(data, position)
            if size >= 0:
                keys.append(data[position : position + size])
                position += size
            else:
                keys.append(None)
            # The length of a null value is -1, whose varint is 1. No other number's varint begins with this
            # byte.
            if data[position] == 1:
                tombstones.append(number)
            if position >= start:
                raise ValueError("a record's content is longer than its length")
            offset_deltas.append(offset_delta)
            starts.append(start)
        if start != len(data):
            raise ValueError(f"{len(data) - start} bytes after the last of {count} records")
    except (IndexError, ValueError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"Found invalid record structure in batch: {error}"
        ) from error
    return Frames(starts, offset_deltas, keys, tombstones)


def timestamp_delta(data: bytes, start: int) -> int:
    """The time of the record that begins there, against its batch's."""
    _, body = decode_varint(data, start)
    return decode_varint(data, body + 1)[0]


def later_base(record: bytes, shift_ms: int) -> bytes:
    """A record's bytes where the base timestamp of its batch is later by `shift_ms`."""
    _, body = decode_varint(record, 0)
    delta, rest = decode_varint(record, body + 1)
    moved = record[body : body + 1] + encode_varint(delta - shift_ms) + record[rest:]
    return encode_varint(len(moved)) + moved

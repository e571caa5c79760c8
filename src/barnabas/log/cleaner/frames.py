"""Where the records of a batch begin and end: enough of each to judge it, and to copy it as it is."""

from typing import NamedTuple

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.records.record import decode_varint, encode_varint


class Frame(NamedTuple):
    """One record of a records section, from `start` to `end`."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


_new = tuple.__new__


def frames_of(data: bytes, count: int) -> list[Frame]:
    """The frames of a (decompressed) section. Raises INVALID_RECORD where it does not hold exactly so many records."""
    # The loop of `records.record`, without what is not looked at: varints of one and two bytes are read in place.
    frames: list[Frame] = []
    add = frames.append
    start = 0
    try:
        for _ in range(count):
            size = data[start]
            if size < 0x80:
                position = start + 1
                size >>= 1
            elif (high := data[start + 1]) < 0x80:
                position = start + 2
                size = (size & 0x7F | high << 7) >> 1
            else:
                size, position = decode_varint(data, start)
            end = position + size
            timestamp_delta = data[position + 1]
            if timestamp_delta < 0x80:
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
                position += 2
            elif (high := data[position + 2]) < 0x80:
                timestamp_delta = timestamp_delta & 0x7F | high << 7
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
                position += 3
            else:
                timestamp_delta, position = decode_varint(data, position + 1)
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
            key = None
            if size >= 0:
                key = data[position : position + size]
                position += size
            # The length of a null value is -1, whose varint is 1. No other number's varint begins with this byte.
            has_value = data[position] != 1
            if position >= end:
                raise ValueError("a record's content is longer than its length")
            add(_new(Frame, (start, end, offset_delta, timestamp_delta, key, has_value)))
            start = end
        if start != len(data):
            raise ValueError(f"{len(data) - start} bytes after the last of {count} records")
    except (IndexError, ValueError) as error:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"Found invalid record structure in batch: {error}"
        ) from error
    return frames


def later_base(data: bytes, frame: Frame, shift_ms: int) -> bytes:
    """A record's bytes where the base timestamp of its batch is later by so much."""
    _, body = decode_varint(data, frame.start)
    _, rest = decode_varint(data, body + 1)
    moved = data[body : body + 1] + encode_varint(frame.timestamp_delta - shift_ms) + data[rest : frame.end]
    return encode_varint(len(moved)) + moved

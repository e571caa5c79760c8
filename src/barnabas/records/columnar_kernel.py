"""The compiled half of `barnabas.records.columnar`: bytes in, arrays out, no Python object in between.

It reads what `records.batch` and `records.record` describe. numba checks no index, so every read here is
preceded by a comparison with the end of what encloses it: of the record for keys, values and headers, of the
batch for the record. A function that meets a lie returns a negative number that `problem` puts into words.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from barnabas.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_OFFSET, TIMESTAMP_TYPE_BIT

Compiled: TypeAlias = Any
"""A function that numba compiled: what it takes and gives is written in Python, checked by numba."""

RECORD_BYTES_MIN: Final = 7
_LIMIT_MS: Final = (2**63 - 1) // 1000

_BAD_LENGTH, _BAD_MAGIC, _BAD_COUNT, _BAD_RECORD, _BAD_FIELD, _BAD_HEADER, _LEFT_OVER = range(1, 8)
_PROBLEMS: Final = {
    _BAD_LENGTH: "a record batch is shorter than its own header",
    _BAD_MAGIC: "the batch has message format 0 or 1; only format 2 (Kafka 0.11 and later) is read",
    _BAD_COUNT: "the count of records is negative",
    _BAD_RECORD: "a record reaches beyond its batch, or the batch has fewer records than it says",
    _BAD_FIELD: "a key or value reaches beyond its record",
    _BAD_HEADER: "a header reaches beyond its record",
    _LEFT_OVER: "bytes remain behind the last record of a batch",
}


def problem(outcome: int) -> str:
    """The words for a negative outcome of `scan_headers` or `decode_records`."""
    return f"Corrupt record batch: {_PROBLEMS[-outcome & 15]} (at byte {-outcome >> 4})"


class HeaderColumn(IntEnum):
    """The columns of the table that `scan_headers` fills, a row a batch."""

    POSITION = 0
    RECORDS = 1
    """Where the records begin; moves when they are decompressed, as END does."""
    END = 2
    BASE_OFFSET = 3
    LAST_OFFSET = 4
    ATTRIBUTES = 5
    BASE_TIMESTAMP = 6
    MAX_TIMESTAMP = 7
    PRODUCER_ID = 8
    COUNT = 9
    CRC = 10


def compiled(function: Callable[..., Any]) -> Compiled:
    """Machine code, kept on disk:
    beside this file, or in NUMBA_CACHE_DIR, or else in the user's cache folder.
    """
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # none of the three can be written to: compile again in each process (2 s)
        return njit(nogil=True)(function)


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(_typing: Any, target: Any, _at: Any, source: Any, _start: Any, _size: Any) -> Any:
    """``memcpy``: a slice assignment in numba takes ten times as long for short values."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_type, _, source_type, _, _ = signature.args
        to, at_value, origin, start_value, size_value = arguments
        to_data = context.make_array(target_type)(context, builder, to).data
        from_data = context.make_array(source_type)(context, builder, origin).data
        destination = builder.gep(to_data, [at_value])
        cgutils.raw_memcpy(builder, destination, builder.gep(from_data, [start_value]), size_value, 1)
        return context.get_dummy_value()

    return types.none(target, types.intp, source, types.intp, types.intp), generate


@compiled
def _big_endian(source: Any, position: int, size: int) -> Any:
    """A signed integer of `size` bytes."""
    value = np.int64(np.int8(source[position]))
    for index in range(position + 1, position + size):
        value = (value << 8) | np.int64(source[index])
    return value


@compiled
def _varint(source: Any, position: int, end: int) -> Any:
    """(A zigzag integer of up to ten bytes, the position behind it);
    the position is -1 where it does not end.
    """
    value = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift < np.uint64(70):
        byte = np.uint64(source[position])
        position += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return 0, -1


@compiled
def scan_headers(source: Any, table: Any) -> Any:
    """Fills a row of `table` for each whole batch; the number of rows, or a negative outcome."""
    position = 0
    row = 0
    while position + HEADER_SIZE <= len(source):
        length = _big_endian(source, position + 8, 4)
        if source[position + MAGIC_OFFSET] != MAGIC:
            return -(position << 4 | _BAD_MAGIC)
        if length + LOG_OVERHEAD < HEADER_SIZE:
            return -(position << 4 | _BAD_LENGTH)
        end = position + LOG_OVERHEAD + length
        if end > len(source):
            break
        base_offset = _big_endian(source, position, 8)
        count = _big_endian(source, position + 57, 4)
        if count < 0:
            return -(position << 4 | _BAD_COUNT)
        table[row, 0] = position
        table[row, 1] = position + HEADER_SIZE
        table[row, 2] = end
        table[row, 3] = base_offset
        table[row, 4] = base_offset + _big_endian(source, position + 23, 4)
        table[row, 5] = _big_endian(source, position + 21, 2)
        table[row, 6] = _big_endian(source, position + 27, 8)
        table[row, 7] = _big_endian(source, position + 35, 8)
        table[row, 8] = _big_endian(source, position + 43, 8)
        table[row, 9] = count
        table[row, 10] = _big_endian(source, position + 17, 4) & 0xFFFFFFFF
        position = end
        row += 1
    return row


@compiled
def _take(source: Any, position: int, end: int, data: Any, used: int) -> Any:
    """Copies a nullable length-prefixed value behind `used` bytes of `data`.

    (Its length, -1 for null; the position behind it, -1 where it reaches beyond `end`.) What is copied lies
    inside the source, and `data` is as long as the source's records, so it has room.
    """
    length, position = _varint(source, position, end)
    if position < 0 or length > end - position:
        return 0, -1
    if length <= 0:  # any negative length is null, as `Utils.readBytes` reads it
        return max(length, -1), position
    copy_bytes(data, used, source, position, length)
    return length, position + length


@compiled
def _take_headers(
    source: Any, position: int, end: int, headers: int, keys_used: int, values_used: int, rows: Any
) -> Any:
    """Copies the headers of one record;
    the first of the four numbers is 0, or -1 where they do not fill it.
    """
    count, position = _varint(source, position, end)
    if position < 0 or count < 0 or count > end - position:
        return -1, headers, keys_used, values_used
    for _ in range(count):
        length, position = _take(source, position, end, rows.header_key_data, keys_used)
        if position < 0 or length < 0:
            return -1, headers, keys_used, values_used
        keys_used += length
        length, position = _take(source, position, end, rows.header_value_data, values_used)
        if position < 0:
            return -1, headers, keys_used, values_used
        values_used += max(length, 0)
        rows.header_valid[headers] = length >= 0
        headers += 1
        rows.header_key_ends[headers] = keys_used
        rows.header_value_ends[headers] = values_used
    return 0 if position == end else -1, headers, keys_used, values_used


@compiled
def decode_records(source: Any, table: Any, start: int, stop: int, with_headers: bool, rows: Any) -> Any:
    """Writes the records of the table's batches with offsets in [start, stop); 0 or a negative outcome."""
    row = headers = 0
    keys_used = values_used = header_keys_used = header_values_used = 0
    for batch in range(len(table)):
        position = table[batch, 1]
        batch_end = table[batch, 2]
        append_time = (table[batch, 5] & TIMESTAMP_TYPE_BIT) != 0
        for _ in range(table[batch, 9]):
            at = position
            size, position = _varint(source, position, batch_end)
            if position < 0 or size < 1 or size > batch_end - position:
                return -(at << 4 | _BAD_RECORD)
            end = position + size
            # The byte before the first delta is the record's attributes, which Kafka does not use.
            timestamp_delta, position = _varint(source, position + 1, end)
            if position < 0:
                return -(at << 4 | _BAD_FIELD)
            offset_delta, position = _varint(source, position, end)
            if position < 0:
                return -(at << 4 | _BAD_FIELD)
            offset = table[batch, 3] + offset_delta
            if offset < start or offset >= stop:
                position = end
                continue
            key_length, position = _take(source, position, end, rows.key_data, keys_used)
            if position < 0:
                return -(at << 4 | _BAD_FIELD)
            value_length, position = _take(source, position, end, rows.value_data, values_used)
            if position < 0:
                return -(at << 4 | _BAD_FIELD)
            if with_headers:
                outcome, headers, header_keys_used, header_values_used = _take_headers(
                    source, position, end, headers, header_keys_used, header_values_used, rows
                )
                if outcome < 0:
                    return -(at << 4 | _BAD_HEADER)
                rows.header_ends[row + 1] = headers
            position = end
            keys_used += max(key_length, 0)
            values_used += max(value_length, 0)
            timestamp = table[batch, 7] if append_time else table[batch, 6] + timestamp_delta
            rows.offsets[row] = offset
            rows.timestamps[row] = min(max(timestamp, -_LIMIT_MS), _LIMIT_MS) * 1000
            rows.timestamp_types[row] = 1 if append_time else 0
            rows.key_valid[row] = key_length >= 0
            rows.value_valid[row] = value_length >= 0
            row += 1
            rows.key_ends[row] = keys_used
            rows.value_ends[row] = values_used
        if position != batch_end:
            return -(position << 4 | _LEFT_OVER)
    rows.counts[0] = row
    rows.counts[1] = headers
    return 0

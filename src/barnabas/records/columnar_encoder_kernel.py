"""The compiled half of `barnabas.records.columnar_encoder`: Arrow's buffers in, records out, no Python object
between.

It writes what `records.record` describes. What it reads are the buffers of valid Arrow arrays, so unlike the
decoder it has no lengths to doubt; what it writes stays inside of `out`, which the caller makes large enough
for a record.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from barnabas.records.columnar_kernel import compiled, copy_bytes

# numba computes with 64 bits where 32 were meant, so each product is cut by hand.
_M: Final = np.uint64(0x5BD1E995)
_MASK: Final = np.uint64(0xFFFFFFFF)
_SEED: Final = np.uint64(0x9747B28C)
_NULL: Final = 1
"""The zig-zag form of a length of -1."""


class Columns(NamedTuple):
    """The buffers of the columns of some rows; numba takes them as one argument."""

    key_valid: Any
    key_ends: Any
    """Where each key begins in the data and, one further, ends; so for all others."""
    key_data: Any
    value_valid: Any
    value_ends: Any
    value_data: Any
    partition_valid: Any
    partition: Any
    header_ends: Any
    """Where the headers of each row begin among all headers."""
    header_key_ends: Any
    header_key_data: Any
    header_valid: Any
    header_value_ends: Any
    header_value_data: Any


@compiled
def key_hash(data: Any, start: int, end: int) -> Any:
    """``Utils.toPositive(Utils.murmur2(key))``; see `barnabas.client.partitioner`."""
    h = _SEED ^ np.uint64(end - start)
    position = start
    while position + 4 <= end:
        k = np.uint64(data[position]) | np.uint64(data[position + 1]) << np.uint64(8)
        k |= np.uint64(data[position + 2]) << np.uint64(16) | np.uint64(data[position + 3]) << np.uint64(24)
        k = (k * _M) & _MASK
        k = ((k ^ (k >> np.uint64(24))) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        position += 4
    if position < end:
        left = np.uint64(0)
        for index in range(end - 1, position - 1, -1):
            left = left << np.uint64(8) | np.uint64(data[index])
        h = ((h ^ left) * _M) & _MASK
    h = ((h ^ (h >> np.uint64(13))) * _M) & _MASK
    h ^= h >> np.uint64(15)
    return np.int64(h & np.uint64(0x7FFFFFFF))


@compiled
def hash_keys(valid: Any, ends: Any, data: Any, hashes: Any) -> None:
    """Fills `hashes` with the `key_hash` of each key; -1 where there is none."""
    for row in range(len(hashes)):
        hashes[row] = key_hash(data, ends[row], ends[row + 1]) if valid[row] else -1


@compiled
def choose_partitions(columns: Any, count: int, sticky: Any, sticky_bytes: int, chosen: Any) -> Any:
    """Fills `chosen` with the partition of each row: the one that its column names, else that of its key's
    hash, else the first of `sticky` until `sticky_bytes` went there, then the next of them.

    -1, or the first row whose column names a partition that the topic does not have.
    """
    run = 0
    left = sticky_bytes
    for row in range(len(chosen)):
        if columns.partition_valid[row]:
            partition = np.int64(columns.partition[row])
            if partition < 0 or partition >= count:
                return row
        elif columns.key_valid[row]:
            partition = key_hash(columns.key_data, columns.key_ends[row], columns.key_ends[row + 1]) % count
        else:
            if left <= 0:
                run += 1
                left = sticky_bytes
            partition = np.int64(sticky[run % len(sticky)])
            left -= columns.value_ends[row + 1] - columns.value_ends[row]
        chosen[row] = partition
    return -1


@compiled
def group_rows(chosen: Any, ends: Any, rows: Any) -> None:
    """Sorts the numbers of the rows by partition, in their order within each; `ends` has a place more than
    there are partitions, and holds afterwards where each one's rows begin.
    """
    ends[:] = 0
    for row in range(len(chosen)):
        ends[chosen[row] + 1] += 1
    for partition in range(1, len(ends)):
        ends[partition] += ends[partition - 1]
    used = ends.copy()
    for row in range(len(chosen)):
        partition = chosen[row]
        rows[used[partition]] = row
        used[partition] += 1


@compiled
def _varint_size(number: int) -> Any:
    """The bytes of the zig-zag varint of a number that is not negative."""
    size = 1
    number >>= 6
    while number:
        size += 1
        number >>= 7
    return size


@compiled
def _put_varint(out: Any, at: int, number: int) -> Any:
    """Writes a number that is not negative; the position behind it."""
    number <<= 1
    while number > 0x7F:
        out[at] = number & 0x7F | 0x80
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


@compiled
def _put_bytes(out: Any, at: int, valid: bool, data: Any, start: int, end: int) -> Any:
    """Writes a nullable value with its length; the position behind it."""
    if not valid:
        out[at] = _NULL
        return at + 1
    at = _put_varint(out, at, end - start)
    copy_bytes(out, at, data, start, end - start)
    return at + (end - start)


@compiled
def _bytes_size(valid: bool, start: int, end: int) -> Any:
    return _varint_size(end - start) + end - start if valid else 1


@compiled
def _headers_size(columns: Any, row: int) -> Any:
    first, stop = columns.header_ends[row], columns.header_ends[row + 1]
    size = _varint_size(stop - first)
    for header in range(first, stop):
        size += _bytes_size(True, columns.header_key_ends[header], columns.header_key_ends[header + 1])
        size += _bytes_size(
            columns.header_valid[header],
            columns.header_value_ends[header],
            columns.header_value_ends[header + 1],
        )
    return size


@compiled
def _put_headers(out: Any, at: int, columns: Any, row: int) -> Any:
    first, stop = columns.header_ends[row], columns.header_ends[row + 1]
    at = _put_varint(out, at, stop - first)
    for header in range(first, stop):
        start, end = columns.header_key_ends[header], columns.header_key_ends[header + 1]
        at = _put_bytes(out, at, True, columns.header_key_data, start, end)
        start, end = columns.header_value_ends[header], columns.header_value_ends[header + 1]
        at = _put_bytes(out, at, columns.header_valid[header], columns.header_value_data, start, end)
    return at


@compiled
def record_size(columns: Any, row: int, offset_delta: int) -> Any:
    """The bytes of a row's record behind its length, with a timestamp delta of 0."""
    size = 2 + _varint_size(offset_delta) + _headers_size(columns, row)
    size += _bytes_size(columns.key_valid[row], columns.key_ends[row], columns.key_ends[row + 1])
    return size + _bytes_size(columns.value_valid[row], columns.value_ends[row], columns.value_ends[row + 1])


@compiled
def largest_record(columns: Any, count: int) -> Any:
    """An upper limit for the bytes of each row's record."""
    largest = 0
    for row in range(count):
        largest = max(largest, record_size(columns, row, count))
    return largest + 5


@compiled
def encode_records(columns: Any, rows: Any, first: int, stop: int, limit: int, out: Any) -> Any:
    """Writes the records of ``rows[first:stop]``, the first of them always, the others while all are within
    `limit` bytes: (the place behind the last, the bytes).
    """
    used = 0
    place = first
    while place < stop:
        row = rows[place]
        size = record_size(columns, row, place - first)
        if place > first and used + _varint_size(size) + size > limit:
            break
        used = _put_varint(out, used, size)
        out[used] = 0  # attributes
        out[used + 1] = 0  # timestamp delta
        used = _put_varint(out, used + 2, place - first)
        start, end = columns.key_ends[row], columns.key_ends[row + 1]
        used = _put_bytes(out, used, columns.key_valid[row], columns.key_data, start, end)
        start, end = columns.value_ends[row], columns.value_ends[row + 1]
        used = _put_bytes(out, used, columns.value_valid[row], columns.value_data, start, end)
        used = _put_headers(out, used, columns, row)
        place += 1
    return place, used

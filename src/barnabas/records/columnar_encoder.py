"""Arrow straight into records: rows with the columns key, value, partition and headers, encoded by numba.

Theory of operation
-------------------
The partition of each row is chosen as Java's producer does, and the numbers of the rows are sorted by it.
Then a compiled pass writes the records of one partition, as many as a batch holds, into one buffer; no Python
object exists for a record. What comes out is the section of a batch behind its header, uncompressed: the
producer compresses it, numbers it and sends it.

numba (extra ``barnabas[arrow]``) is imported here and in `barnabas.records.columnar` alone; pyarrow also in
`barnabas.spark`, and by the client's methods that give or take tables.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barnabas.core.errors import BarnabasError
from barnabas.records import columnar_encoder_kernel as kernel
from barnabas.records.columnar_encoder_kernel import Columns

_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class RowError(BarnabasError, ValueError):
    """A row that cannot become a record; the text says which, and why."""


class BatchSection(NamedTuple):
    """Records of one partition, as they stand in a batch."""

    partition: int
    records: bytes
    record_count: int


def encode(
    rows: pa.RecordBatch,
    *,
    partitions: int,
    section_bytes: int,
    sticky_bytes: int = 0,
    available: Sequence[int] = (),
) -> Iterator[BatchSection]:
    """The records of the rows in sections of at most `section_bytes` (a larger record alone), for a topic
    with this many partitions; rows without a key go to `available` ones, if any are named, to
    each for `sticky_bytes` (else for a section's). All rows are looked at before the first section is given.
    Raises RowError.
    """
    columns = _columns(rows)
    chosen = np.empty(rows.num_rows, np.int32)
    sticky = np.array(random.choices(available or range(partitions), k=256), np.int32)
    wrong = kernel.choose_partitions(columns, partitions, sticky, sticky_bytes or section_bytes, chosen)
    if wrong >= 0:
        raise RowError(
            f"Invalid partition {columns.partition[wrong]} in a row: the topic has partitions 0 to "
            f"{partitions - 1}"
        )
    ends, order = np.empty(partitions + 1, np.int64), np.empty(rows.num_rows, np.int64)
    kernel.group_rows(chosen, ends, order)
    out = np.empty(section_bytes + kernel.largest_record(columns, rows.num_rows), np.uint8)
    return _sections(columns, order, ends.tolist(), section_bytes, out)


def key_hashes(keys: pa.Array) -> Any:
    """``Utils.toPositive(murmur2(key))`` of each key (binary), an array of int64; -1 where there is no key.

    Java's producer puts a key into the partition of this number modulo the partitions of the topic.
    """
    hashes = np.empty(len(keys), np.int64)
    kernel.hash_keys(*_binary(keys), hashes)
    return hashes


def warm() -> None:
    """Loads (the first time ever: compiles) the machine code, so that no row has to wait for it."""
    batch = pa.RecordBatch.from_arrays([pa.array([b"x"], pa.binary())], ["value"])
    list(encode(batch, partitions=1, section_bytes=100))


def _sections(columns: Columns, order: Any, ends: list[int], limit: int, out: Any) -> Iterator[BatchSection]:
    for partition, stop in enumerate(ends[1:]):
        first = ends[partition]
        while first < stop:
            behind, used = kernel.encode_records(columns, order, first, stop, limit, out)
            yield BatchSection(partition, out[:used].tobytes(), behind - first)
            first = behind


def _columns(rows: pa.RecordBatch) -> Columns:
    partition = _column(rows, "partition", pa.int32())
    numbers = _buffer(partition, 1, np.int32)[partition.offset : partition.offset + len(partition)]
    headers = _without_null_entries(_column(rows, "headers", _HEADERS))
    header_ends = _ends(headers)
    entries = headers.values
    keys = entries.field("key")
    if keys.null_count and keys.slice(header_ends[0], header_ends[-1] - header_ends[0]).null_count:
        raise RowError("Header key of a row is null")
    return Columns(
        *_binary(_column(rows, "key", pa.binary())),
        *_binary(_column(rows, "value", pa.binary())),
        _valid(partition),
        numbers,
        header_ends,
        *_binary(keys.cast(pa.binary()))[1:],
        *_binary(entries.field("value")),
    )


def _column(rows: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """The column of this name as this type; nulls where there is none. Raises RowError."""
    if name not in rows.schema.names:
        return pa.nulls(rows.num_rows, kind)
    column = rows.column(name)
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException:
        raise RowError(f"the column of its {name} is {column.type}, which cannot be {kind}") from None


def _without_null_entries(headers: pa.Array) -> pa.Array:
    """A header that is null as a whole is left out, as by the official connector."""
    if not headers.values.null_count:
        return headers
    kept = [None if row is None else [one for one in row if one is not None] for row in headers.to_pylist()]
    return pa.array(kept, _HEADERS)


def _binary(array: pa.Array) -> tuple[Any, Any, Any]:
    """Which are not null, where they begin and end, and the bytes."""
    return _valid(array), _ends(array), _buffer(array, 2, np.uint8)


def _valid(array: pa.Array) -> Any:
    return _read_only(np.asarray(pc.is_valid(array)))


def _ends(array: pa.Array) -> Any:
    """Where the values of a binary or list array begin in what it holds, and behind the last where that
    ends.
    """
    ends = _buffer(array, 1, np.int32)[array.offset : array.offset + len(array) + 1]
    # An array without values may have no buffer.
    return ends if len(ends) else _read_only(np.zeros(len(array) + 1, np.int32))


def _buffer(array: pa.Array, index: int, kind: Any) -> Any:
    buffer = array.buffers()[index]
    return _read_only(
        np.frombuffer(buffer, kind) if buffer is not None and buffer.size else np.zeros(0, kind)
    )


def _read_only(values: Any) -> Any:
    """One type of array for every kind of column:
    the kernel would be compiled again for one that can be written.
    """
    values.flags.writeable = False
    return values

"""The rows of ``barnabas-log``: records, batches or segments of the pieces that a task reads, as Arrow."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barnabas.core.errors import KafkaError
from barnabas.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from barnabas.records.columnar import ColumnarError, decode_batches
from barnabas.records.columnar_kernel import HeaderColumn
from barnabas.records.compression import Codec, CompressionError, codec_of, decompress
from barnabas.spark.logs.options import LogOptions, View
from barnabas.spark.logs.segments import Piece, index_bytes
from barnabas.spark.logs.stretches import Damage, Stretch, stretches
from barnabas.spark.reading import ROWS_PER_BATCH

_log = logging.getLogger("barnabas.spark")

_TIME: Final = pa.timestamp("us", tz="UTC")
BATCHES: Final = pa.schema(
    {
        "topic": pa.string(), "partition": pa.int32(), "segment": pa.int64(), "position": pa.int64(),
        "baseOffset": pa.int64(), "lastOffset": pa.int64(), "count": pa.int32(), "sizeInBytes": pa.int32(),
        "codec": pa.string(), "baseTimestamp": _TIME, "maxTimestamp": _TIME, "timestampType": pa.int32(),
        "producerId": pa.int64(), "producerEpoch": pa.int32(), "baseSequence": pa.int32(),
        "leaderEpoch": pa.int32(), "isTransactional": pa.bool_(), "isControl": pa.bool_(),
        "deleteHorizon": _TIME, "crc": pa.int64(), "isValid": pa.bool_(),
    }
)  # fmt: skip
_UNCOMPRESSED: Final = pa.field("uncompressedBytes", pa.int64())
SEGMENTS: Final = pa.schema(
    {
        "topic": pa.string(), "partition": pa.int32(), "baseOffset": pa.int64(), "lastOffset": pa.int64(),
        "records": pa.int64(), "batches": pa.int64(), "sizeInBytes": pa.int64(), "indexBytes": pa.int64(),
        "maxTimestamp": _TIME, "lastModified": _TIME, "isLast": pa.bool_(), "tornBytes": pa.int64(),
        "corruptBatches": pa.int64(), "corruptBytes": pa.int64(), "file": pa.string(),
    }
)  # fmt: skip

# The header of a batch, as `barnabas.records.batch` describes it.
_HEADER: Final = np.dtype(
    [
        ("baseOffset", ">i8"), ("length", ">i4"), ("leaderEpoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
        ("attributes", ">i2"), ("lastOffsetDelta", ">i4"), ("baseTimestamp", ">i8"), ("maxTimestamp", ">i8"),
        ("producerId", ">i8"), ("producerEpoch", ">i2"), ("baseSequence", ">i4"), ("count", ">i4"),
    ]
)  # fmt: skip
_CODECS: Final = pa.array([*(codec.name.lower() for codec in Codec), "unknown", "unknown", "unknown"])
_LIMIT_MS: Final = (2**63 - 1) // 1000


def read_pieces(pieces: Sequence[Piece], options: LogOptions) -> Iterator[pa.RecordBatch]:
    """The rows of one task. Raises CorruptBatchError unless such batches are skipped, and OSError."""
    views: dict[View, Callable[[Piece, LogOptions], Iterator[pa.RecordBatch]]] = {
        View.RECORDS: _records, View.BATCHES: _batches, View.SEGMENTS: _segment,
    }  # fmt: skip
    for piece in pieces:
        yield from views[options.view](piece, options)


def _records(piece: Piece, options: LogOptions) -> Iterator[pa.RecordBatch]:
    skipped: list[Damage] = []
    for stretch in stretches(piece):
        found, damage = _decoded(stretch, options)
        # What lies before the damage is given out first, so that a reader who fails has it.
        for rows in found:
            for start in range(0, rows.num_rows, ROWS_PER_BATCH):
                yield rows.slice(start, ROWS_PER_BATCH)
        for one in damage:
            if not (one.torn or options.skip_corrupt):
                raise one.error()
        skipped += damage
    _report(skipped)


def _decoded(stretch: Stretch, options: LogOptions) -> tuple[list[pa.RecordBatch], list[Damage]]:
    """The rows of a stretch, and what of it is damaged."""
    table = np.delete(stretch.table, stretch.wrong, 0) if stretch.wrong else stretch.table
    try:
        return [_rows(stretch, table, options)], stretch.damage
    except ColumnarError:
        pass
    # The checksum of each is right, and yet one of them is none, or together they are too large: one by one.
    found, damage = [], list(stretch.damage)
    for row in range(len(table)):
        try:
            found.append(_rows(stretch, table[row : row + 1], options))
        except ColumnarError as error:
            at, end, offset = table[
                row, [HeaderColumn.POSITION, HeaderColumn.END, HeaderColumn.BASE_OFFSET]
            ].tolist()
            damage.append(Damage(stretch.segment, stretch.position + at, end - at, offset, str(error)))
    return found, sorted(damage, key=lambda one: one.position)


def _rows(stretch: Stretch, table: Any, options: LogOptions) -> pa.RecordBatch:
    tp = stretch.segment.tp
    return decode_batches(
        stretch.source, table, topic=tp.topic, partition=tp.partition, include_headers=options.include_headers
    )


def _report(skipped: Sequence[Damage]) -> None:
    """A line in the worker's log, which is the executor's standard error, for each kind of what was
    left out.
    """
    for torn, words in ((True, "a torn tail"), (False, "corrupt batches")):
        found = [one for one in skipped if one.torn is torn]
        if found:
            first, size = found[0], sum(one.size for one in found)
            _log.warning(
                "%s skipped: %d of %d bytes in %s, the first at offset %d, position %d: %s",
                words, len(found), size, first.segment.path, first.offset, first.position, first.reason,
            )  # fmt: skip


def _batches(piece: Piece, options: LogOptions) -> Iterator[pa.RecordBatch]:
    """A row for each whole batch; one with a wrong checksum says so and is no error."""
    for stretch in stretches(piece):
        if len(stretch.table):
            rows = _batch_rows(stretch)
            if options.uncompressed_bytes:
                schema = rows.schema.append(_UNCOMPRESSED)
                rows = pa.RecordBatch.from_arrays([*rows.columns, _sizes(stretch)], schema=schema)
            yield rows
        _report(stretch.damage[len(stretch.wrong) :])


def _batch_rows(stretch: Stretch) -> pa.RecordBatch:
    positions = stretch.table[:, HeaderColumn.POSITION]
    bytes_of = stretch.source[positions[:, None] + np.arange(HEADER_SIZE)]
    headers = np.ascontiguousarray(bytes_of).view(_HEADER)[:, 0]
    attributes = headers["attributes"].astype(np.int32)
    valid = np.ones(len(headers), bool)
    valid[stretch.wrong] = False
    first_time = headers["baseTimestamp"].astype(np.int64)
    # A delete horizon takes the place of the first timestamp (KIP-534).
    has_horizon = (attributes & DELETE_HORIZON_BIT) != 0
    tp = stretch.segment.tp
    columns = {
        "topic": [tp.topic] * len(headers),
        "partition": np.full(len(headers), tp.partition, np.int32),
        "segment": np.full(len(headers), stretch.segment.base_offset),
        "position": positions + stretch.position,
        "baseOffset": headers["baseOffset"],
        "lastOffset": stretch.table[:, HeaderColumn.LAST_OFFSET],
        "count": headers["count"],
        "sizeInBytes": stretch.table[:, HeaderColumn.END] - positions,
        "codec": _CODECS.take(pa.array(attributes & CODEC_MASK)),
        "baseTimestamp": _times(first_time, has_horizon),
        "maxTimestamp": _times(headers["maxTimestamp"].astype(np.int64)),
        "timestampType": (attributes & TIMESTAMP_TYPE_BIT) >> 3,
        "producerId": headers["producerId"],
        "producerEpoch": headers["producerEpoch"],
        "baseSequence": headers["baseSequence"],
        "leaderEpoch": headers["leaderEpoch"],
        "isTransactional": (attributes & TRANSACTIONAL_BIT) != 0,
        "isControl": (attributes & CONTROL_BIT) != 0,
        "deleteHorizon": _times(first_time, ~has_horizon),
        "crc": headers["crc"],
        "isValid": valid,
    }
    arrays = [_column(columns[field.name], field.type) for field in BATCHES]
    return pa.RecordBatch.from_arrays(arrays, schema=BATCHES)


def _sizes(stretch: Stretch) -> pa.Array:
    """What each batch would take without its compression; null where it cannot be decompressed."""
    view = memoryview(stretch.source)
    sizes: list[int | None] = []
    columns = [HeaderColumn.POSITION, HeaderColumn.RECORDS, HeaderColumn.END, HeaderColumn.ATTRIBUTES]
    for position, start, end, attributes in stretch.table[:, columns].tolist():
        codec = attributes & CODEC_MASK
        try:
            plain = len(decompress(codec_of(codec), view[start:end])) if codec else end - start
        except (CompressionError, KafkaError):
            sizes.append(None)
        else:
            sizes.append(start - position + plain)
    for row in stretch.wrong:
        sizes[row] = None
    return pa.array(sizes, pa.int64())


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray):
        values = values.astype(values.dtype.newbyteorder("="))
        return pa.array(values).cast(kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _times(milliseconds: Any, missing: Any = False) -> pa.Array:
    """Times of milliseconds since 1970; null for -1, "no timestamp"."""
    held = np.clip(milliseconds, -_LIMIT_MS, _LIMIT_MS) * 1000
    return pa.array(held, mask=(milliseconds == -1) | missing).cast(_TIME)


def _segment(piece: Piece, _options: LogOptions) -> Iterator[pa.RecordBatch]:
    """One row: what the segment holds and what of it is damaged."""
    segment = piece.segment
    records = batches = 0
    last_offset = newest_ms = -1
    damage: list[Damage] = []
    for stretch in stretches(piece):
        whole = np.delete(stretch.table, stretch.wrong, 0)
        data = whole[(whole[:, HeaderColumn.ATTRIBUTES] & CONTROL_BIT) == 0]
        batches += len(whole)
        records += int(data[:, HeaderColumn.COUNT].sum())
        last_offset = max(last_offset, int(whole[:, HeaderColumn.LAST_OFFSET].max(initial=-1)))
        newest_ms = max(newest_ms, int(whole[:, HeaderColumn.MAX_TIMESTAMP].max(initial=-1)))
        damage += stretch.damage
    corrupt = [one for one in damage if not one.torn]
    row = {
        "topic": segment.tp.topic,
        "partition": segment.tp.partition,
        "baseOffset": segment.base_offset,
        "lastOffset": last_offset if batches else None,
        "records": records,
        "batches": batches,
        "sizeInBytes": segment.size,
        "indexBytes": index_bytes(segment),
        "maxTimestamp": min(newest_ms, _LIMIT_MS) * 1000 if newest_ms >= 0 else None,
        "lastModified": segment.modified_ms * 1000,
        "isLast": segment.is_last,
        "tornBytes": sum(one.size for one in damage if one.torn),
        "corruptBatches": len(corrupt),
        "corruptBytes": sum(one.size for one in corrupt),
        "file": segment.path,
    }
    yield pa.RecordBatch.from_pylist([row], schema=SEGMENTS)

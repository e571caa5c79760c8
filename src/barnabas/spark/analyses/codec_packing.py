"""Batches packed again by other codecs and sizes, with what that takes; runs in the tasks of Spark.

The records are put into batches by the producer's own `BatchBuilder` and compressed by the codecs that
producer and broker use, so a size here is the size that such a batch has on a disk.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from time import thread_time_ns
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from barnabas.client.batch_builder import BatchBuilder
from barnabas.core.errors import KafkaError
from barnabas.records.batch import HEADER_SIZE, TIMESTAMP_TYPE_BIT, decompress_records, parse_header
from barnabas.records.columnar_kernel import HeaderColumn
from barnabas.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Codec,
    CompressionError,
    compress,
    decompress,
)
from barnabas.records.record import Record, decode_records, make_record
from barnabas.spark.errors import OptionError
from barnabas.spark.logs.segments import Piece
from barnabas.spark.logs.stretches import stretches

LEVELS: Final = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, 22)}
"""The lowest and the highest level of the codecs that have some (``compression.gzip.level`` and so on)."""
NOW: Final = 0
"""The batch size of rows that are about the batches as they are."""
PACKED: Final = pa.schema(
    {
        "topic": pa.string(), "codec": pa.string(), "batchSize": pa.int64(), "batches": pa.int64(),
        "records": pa.int64(),
        "plainBytes": pa.int64(), "packedBytes": pa.int64(), "compressNs": pa.int64(),
        "decompressNs": pa.int64(),
    }
)  # fmt: skip
"""Sums of a piece. Without a codec: batches that are left out, as they cannot be read."""


class Choice(NamedTuple):
    """A codec with a level; None for Kafka's default."""

    codec: Codec
    level: int | None = None

    def __str__(self) -> str:
        name = self.codec.name.lower()
        return name if self.level is None else f"{name}:{self.level}"


def choice(text: str) -> Choice:
    """A codec by its name, as in ``compression.type``, with a level where one follows: ``zstd:9``.
    Raises OptionError.
    """
    name, colon, level = text.strip().partition(":")
    try:
        codec = Codec.named(name)
    except ValueError:
        known = ", ".join(codec.name.lower() for codec in Codec)
        raise OptionError(f"{name!r} is no codec; there are {known}") from None
    if not colon:
        return Choice(codec)
    if codec not in LEVELS:
        raise OptionError(f"{name} has no levels")
    low, high = LEVELS[codec]
    try:
        number = int(level)
    except ValueError:
        number = high + 1
    if not low <= number <= high:
        raise OptionError(f"{text}: the level of {name} is a number from {low} to {high}")
    return Choice(codec, number)


@dataclass(slots=True)
class _Sums:
    batches: int = 0
    records: int = 0
    plain_bytes: int = 0
    packed_bytes: int = 0
    compress_ns: int = 0
    decompress_ns: int = 0

    def add(self, records: int, plain: int, packed: int, compress_ns: int, decompress_ns: int) -> None:
        """One batch; its sizes are those of its records, to which the header comes."""
        self.batches += 1
        self.records += records
        self.plain_bytes += HEADER_SIZE + plain
        self.packed_bytes += HEADER_SIZE + packed
        self.compress_ns += compress_ns
        self.decompress_ns += decompress_ns


class _Packer:
    """Puts records into batches of one size, and each batch through all codecs."""

    def __init__(
        self, size: int, choices: Sequence[Choice], sums: dict[tuple[str | None, int], _Sums]
    ) -> None:
        self._size = size
        self._choices = choices
        self._sums = sums
        self._open = BatchBuilder()

    def append(self, record: Record) -> None:
        """The next record; a larger one than a batch is alone in its batch."""
        if not self._append(record):
            self.flush()
            self._append(record)

    def _append(self, record: Record) -> bool:
        return bool(self._open.append(record.timestamp, record.key, record.value, record.headers, self._size))

    def flush(self) -> None:
        """Ends the open batch."""
        if self._open.count:
            section = self._open.close()
            for one in self._choices:
                started = thread_time_ns()
                packed = compress(one.codec, section, one.level)
                compressed = thread_time_ns()
                decompress(one.codec, packed, len(section))
                ended = thread_time_ns()
                times = _times(one.codec, compressed - started, ended - compressed)
                self._sums[str(one), self._size].add(self._open.count, len(section), len(packed), *times)
            self._open = BatchBuilder()


def pack_again(piece: Piece, choices: Sequence[Choice], batch_sizes: Sequence[int]) -> pa.RecordBatch:
    """The sums of `PACKED` over the whole batches of a piece, of data. Raises OSError."""
    sums: dict[tuple[str | None, int], _Sums] = defaultdict(_Sums)
    packers = [_Packer(size, choices, sums) for size in batch_sizes]
    for stretch in stretches(piece):
        sums[None, NOW].batches += len(stretch.wrong)
        view = memoryview(stretch.source)
        for position in np.delete(stretch.table[:, HeaderColumn.POSITION], stretch.wrong).tolist():
            for record in _read(view, position, sums):
                for packer in packers:
                    packer.append(record)
    for packer in packers:
        packer.flush()
    rows = [
        {
            "topic": piece.tp.topic, "codec": codec, "batchSize": size, "batches": one.batches,
            "records": one.records,
            "plainBytes": one.plain_bytes, "packedBytes": one.packed_bytes, "compressNs": one.compress_ns,
            "decompressNs": one.decompress_ns,
        }
        for (codec, size), one in sums.items()
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=PACKED)


def _read(view: Any, position: int, sums: dict[tuple[str | None, int], _Sums]) -> list[Record]:
    """The records of a batch, which is counted as it is now;
    none of a marker or of one that cannot be read.
    """
    header = parse_header(view, position)
    if header.is_control or not header.count:
        return []
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    try:
        started = thread_time_ns()
        section = decompress_records(view, header, DECOMPRESSED_BYTES_MAX)
        decompressed = thread_time_ns()
        records = decode_records(
            make_record, section, header.count, header.base_offset, header.base_timestamp, append_time
        )
    except (CompressionError, KafkaError):
        sums[None, NOW].batches += 1
        return []
    codec = header.codec
    # The level that its producer chose is not in the batch.
    began = thread_time_ns()
    compress(codec, section)
    ended = thread_time_ns()
    times = _times(codec, ended - began, decompressed - started)
    sums[codec.name.lower(), NOW].add(header.count, len(section), header.size - HEADER_SIZE, *times)
    return records


def _times(codec: Codec, compress_ns: int, decompress_ns: int) -> tuple[int, int]:
    """Both times; none without compression, where they would be those of copying."""
    return (0, 0) if codec is Codec.NONE else (compress_ns, decompress_ns)

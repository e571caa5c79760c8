"""The columns of all tables:
what a reader sees above one, its type in Parquet, and how a value is written.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")

TEXT_MAX: Final = 40
"""A longer key is cut where it is shown, and whole in Parquet."""


class Column(NamedTuple):
    """A column of a table, wherever it is shown."""

    title: str
    type: pa.DataType
    text: Callable[[Any], str]

    @property
    def is_number(self) -> bool:
        """Whether it is set flush right."""
        return not pa.types.is_string(self.type)


def bytes_text(size: float) -> str:
    """Bytes in three digits or so; a KB is 1024 of them."""
    unit = 0
    while abs(size) >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:,.1f} {_UNITS[unit]}"


def size_text(size: int) -> str:
    """A size that somebody has chosen, such as 64 KB; as `bytes_text`, without a fraction of zero."""
    return bytes_text(size).replace(".0 ", " ")


def plain_text(text: str) -> str:
    """A text without what would move a terminal's cursor."""
    return "".join(one if one.isprintable() else "·" for one in text)


def time_text(moment: datetime) -> str:
    """A time to the minute, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def key_text(key: bytes) -> str:
    """A key as it is shown: its text where it is one that can be printed, else its bytes, as 0x and
    hexadecimal digits.

    No two keys are shown alike: a text that begins with 0x is shown by its bytes too.
    """
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text.isprintable() and text and not text.startswith("0x") else f"0x{key.hex()}"


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


def _share(value: float) -> str:
    return f"{value:.1%}"


def _count(value: int) -> str:
    return f"{value:,}"


def _few(size: float) -> str:
    return f"{size:,.1f} B"


def _milliseconds(value: float) -> str:
    return f"{value:.2f} ms"


def _times(value: float) -> str:
    return f"{value:.2f}x"


_TEXT, _COUNT, _REAL, _TIME = pa.string(), pa.int64(), pa.float64(), pa.timestamp("ms", tz="UTC")

COLUMNS: Final = {
    "topic": Column("topic", _TEXT, str),
    "partition": Column("partition", _COUNT, str),
    "partitions": Column("partitions", _COUNT, _count),
    "segments": Column("segments", _COUNT, _count),
    "batches": Column("batches", _COUNT, _count),
    "records": Column("records", _COUNT, _count),
    "sizeInBytes": Column("on disk", _COUNT, bytes_text),
    "indexBytes": Column("indexes", _COUNT, bytes_text),
    "uncompressedBytes": Column("uncompressed", _COUNT, bytes_text),
    "batchBytes": Column("a batch", _REAL, bytes_text),
    "ratio": Column("ratio", _REAL, _times),
    "share": Column("share", _REAL, _share),
    "codec": Column("codec", _TEXT, str),
    "age": Column("age", _TEXT, str),
    "sizeClass": Column("key and value", _TEXT, str),
    "keyPrefix": Column("key prefix", _TEXT, plain_text),
    "recordBytes": Column("keys and values", _COUNT, bytes_text),
    "diskBytes": Column("on disk, about", _COUNT, bytes_text),
    "oldest": Column("oldest record", _TIME, time_text),
    "newest": Column("newest record", _TIME, time_text),
    "baseOffset": Column("segment", _COUNT, str),
    "dropsAt": Column("dropped at", _TIME, time_text),
    "reason": Column("by", _TEXT, str),
    "file": Column("file", _TEXT, str),
    "key": Column("key", _TEXT, _cut),
    "keyBytes": Column("key", pa.binary(), bytes.hex),
    "keys": Column("keys", _COUNT, _count),
    "keylessRecords": Column("without key", _COUNT, _count),
    "keylessShare": Column("without key", _REAL, _share),
    "recordShare": Column("of records", _REAL, _share),
    "byteShare": Column("of bytes", _REAL, _share),
    "recordSkew": Column("records, largest to mean", _REAL, _times),
    "byteSkew": Column("bytes, largest to mean", _REAL, _times),
    "largest": Column("largest partition", _COUNT, str),
    "largestShare": Column("of bytes in the largest", _REAL, _share),
    "defaultKeyShare": Column("keys in default place", _REAL, _share),
    "defaultRecordShare": Column("their records", _REAL, _share),
    "splitKeys": Column("keys in several partitions", _COUNT, _count),
    "heldIn": Column("in partitions", _COUNT, _count),
    "spread": Column("spread", _TEXT, str),
    "batchSize": Column("batch size", _COUNT, size_text),
    "bestBatchSize": Column("best batch size", _COUNT, size_text),
    "nowCodec": Column("codec now", _TEXT, str),
    "bestCodec": Column("best codec", _TEXT, str),
    "recordSize": Column("a record", _REAL, _few),
    "nowRecordSize": Column("a record now", _REAL, _few),
    "toNow": Column("of now", _REAL, _share),
    "savedBytes": Column("saves", _COUNT, bytes_text),
    "packedBytes": Column("packed", _COUNT, bytes_text),
    "plainBytes": Column("uncompressed", _COUNT, bytes_text),
    "sampledBytes": Column("packed again", _COUNT, bytes_text),
    "sampledShare": Column("by a sample of", _REAL, _share),
    "compressMs": Column("compress a MiB", _REAL, _milliseconds),
    "decompressMs": Column("decompress a MiB", _REAL, _milliseconds),
    "nowCompressMs": Column("compress a MiB as now", _REAL, _milliseconds),
    "nowDecompressMs": Column("decompress a MiB now", _REAL, _milliseconds),
    "movedShare": Column("keys that move", _REAL, _share),
}  # fmt: skip
"""By the name that a column has in Parquet."""

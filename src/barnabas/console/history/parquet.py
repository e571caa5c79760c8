"""Tables in Parquet files: written so that Spark, pyarrow and DuckDB read them, and read back here.

A file is one table of required columns, in row groups:

    "PAR1"
    for each row group, for each column
        text:        dictionary page (PLAIN), data page (RLE_DICTIONARY)
        int64, time, double:  data page (PLAIN)
    FileMetaData (Thrift), its length (u32, little-endian)
    "PAR1"

Pages are compressed with gzip. A required column of the first level has no definition or repetition levels.
Texts are given and read as runs, (text, count): a table that is sorted by a text has one run for each, and
nothing is done for each row. The footer has the least and the greatest text of each row group, by which a
reader passes over the others.

What this refuses: everything that its own writer does not write.
"""

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple, Self, TypeAlias

from barnabas.console.history.thrift import I64, decode, encode, read_varint, varint

_MAGIC: Final = b"PAR1"
_GZIP: Final = 2
_PLAIN, _RLE, _RLE_DICTIONARY = 0, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_TYPES: Final = {"int64": 2, "time": 2, "double": 5, "text": 6}
_LEVEL: Final = 4
"""Of gzip: twice as quick as 6, a twentieth larger."""
_PAGE_BYTES_MAX: Final = 1 << 28

Kind: TypeAlias = Literal["int64", "time", "double", "text"]
Runs: TypeAlias = list[tuple[str, int]]
"""Texts, each with how often it comes in a row."""
Values: TypeAlias = "array[int] | array[float] | Runs"


class ParquetField(NamedTuple):
    """A column of a table; a time is in ms."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Where a column of a row group is."""

    kind: int
    values: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A part of a file: how many rows, and the least and the greatest text of its first column."""

    rows: int
    low: bytes
    high: bytes
    chunks: Sequence[_Chunk]


def runs_of(texts: Iterable[str]) -> Runs:
    """The runs of texts that come one by one."""
    found: Runs = []
    for text in texts:
        if found and found[-1][0] == text:
            found[-1] = text, found[-1][1] + 1
        else:
            found.append((text, 1))
    return found


def write(file: BinaryIO, fields: Sequence[ParquetField], groups: Iterable[Sequence[Values]]) -> int:
    """Writes a table, one row group after the other; how many rows there were. Raises OSError."""
    file.write(_MAGIC)
    position, total, described = len(_MAGIC), 0, []
    for columns in groups:
        rows = _rows(columns)
        chunks: list[Any] = []
        size = 0
        for field, values in zip(fields, columns, strict=True):
            assert _rows([values]) == rows, f"the column {field.name} has {_rows([values])} of {rows} rows"
            pages, raw, dictionary, statistics = _chunk(values, rows)
            meta: list[tuple[int, Any]] = [
                (1, _TYPES[field.kind]),
                (2, [_PLAIN, _RLE, _RLE_DICTIONARY] if dictionary else [_PLAIN]),
                (3, [field.name.encode()]),
                (4, _GZIP),
                (5, I64(rows)),
                (6, I64(raw)),
                (7, I64(len(pages))),
                (9, I64(position + dictionary)),
            ]
            if dictionary:
                meta.append((11, I64(position)))
            if statistics:
                meta.append((12, statistics))
            chunks.append([(2, I64(position)), (3, meta)])
            file.write(pages)
            position += len(pages)
            size += raw
        described.append([(1, chunks), (2, I64(size)), (3, I64(rows))])
        total += rows
    footer = encode(
        [
            (1, 1),
            (2, [[(4, b"schema"), (5, len(fields))], *map(_schema, fields)]),
            (3, I64(total)),
            (4, described),
            (6, b"barnabas"),
            # Without an order readers do not trust the least and the greatest.
            (7, [[(1, ())] for _ in fields]),
        ]
    )
    file.write(footer + struct.pack("<I", len(footer)) + _MAGIC)
    return total


def _rows(columns: Sequence[Values]) -> int:
    first = columns[0]
    return len(first) if isinstance(first, array) else sum(count for _, count in first)


def _schema(field: ParquetField) -> list[tuple[int, Any]]:
    converted = {"text": [(6, 0)], "time": [(6, 9)]}.get(field.kind, [])
    return [(1, _TYPES[field.kind]), (3, 0), (4, field.name.encode()), *converted]


def _chunk(values: Values, rows: int) -> tuple[bytes, int, int, list[tuple[int, Any]]]:
    """The pages, their size before compression, the size of the dictionary's page, statistics."""
    if isinstance(values, array):
        page, raw = _page(_little(values), [(1, _DATA_PAGE)], (5, _data_header(rows, _PLAIN)))
        return page, raw, 0, []
    texts = sorted({text.encode() for text, _ in values})
    places = {text: place for place, text in enumerate(texts)}
    plain = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    dictionary, raw = _page(plain, [(1, _DICTIONARY_PAGE)], (7, [(1, len(texts)), (2, _PLAIN)]))
    width = max(1, (len(texts) - 1).bit_length())
    size = (width + 7) // 8
    data = bytes([width]) + b"".join(
        varint(count << 1) + places[text.encode()].to_bytes(size, "little") for text, count in values
    )
    page, more = _page(data, [(1, _DATA_PAGE)], (5, _data_header(rows, _RLE_DICTIONARY)))
    limits = [(3, I64(0)), (5, texts[-1]), (6, texts[0])] if texts else []
    return dictionary + page, raw + more, len(dictionary), limits


def _data_header(rows: int, encoding: int) -> list[tuple[int, Any]]:
    return [(1, rows), (2, encoding), (3, _RLE), (4, _RLE)]


def _page(data: bytes, head: list[tuple[int, Any]], own: tuple[int, Any]) -> tuple[bytes, int]:
    packer = zlib.compressobj(_LEVEL, wbits=31)
    packed = packer.compress(data) + packer.flush()
    header = encode([*head, (2, len(data)), (3, len(packed)), own])
    return header + packed, len(header) + len(data)


def _little(values: "array[Any]") -> bytes:
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


class ParquetFile:
    """A file of `write`, to be read by row group. Raises ValueError where it is damaged, OSError."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        try:
            self.groups = self._footer()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _footer(self) -> list[RowGroup]:
        end = self._file.seek(0, 2)
        self._file.seek(max(end - 8, 0))
        tail = self._file.read(8)
        size = struct.unpack("<I", tail[:4])[0] if len(tail) == 8 else 0
        if tail[4:] != _MAGIC or size > end - 12:
            raise ValueError("the file has no footer of Parquet")
        self._file.seek(end - 8 - size)
        footer, _ = decode(self._file.read(size))
        try:
            return [_row_group(one) for one in footer.get(4, ())]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError("the footer is none of these files") from error

    def read(self, group: RowGroup) -> list[Values]:
        """The columns of a row group."""
        return [self._column(chunk) for chunk in group.chunks]

    def _column(self, chunk: _Chunk) -> Values:
        self._file.seek(chunk.start)
        data = memoryview(self._file.read(chunk.size))
        body, at = _unpacked(data, 0)
        if chunk.kind != _TYPES["text"]:
            numbers: array[Any] = array("d" if chunk.kind == _TYPES["double"] else "q", body)
            if sys.byteorder == "big":
                numbers.byteswap()
            if len(numbers) != chunk.values:
                raise ValueError("a column has fewer values than its header says")
            return numbers
        texts = list(_texts(body))
        body, _ = _unpacked(data, at)
        size = (body[0] + 7) // 8
        found: Runs = []
        at = 1
        while at < len(body):
            head, at = read_varint(body, at)
            found.append((texts[int.from_bytes(body[at : at + size], "little")], head >> 1))
            at += size
        return found


def _row_group(one: dict[int, Any]) -> RowGroup:
    metas = [column[3] for column in one[1]]
    chunks = [_Chunk(meta[1], meta[5], meta.get(11, meta[9]), meta[7]) for meta in metas]
    limits = one[1][0][3].get(12, {})
    return RowGroup(one[3], limits.get(6, b""), limits.get(5, b""), chunks)


def _unpacked(data: memoryview, at: int) -> tuple[bytes, int]:
    header, at = decode(data, at)
    size, packed = header[2], header[3]
    if not 0 <= size <= _PAGE_BYTES_MAX:
        raise ValueError("a page is larger than any of these files")
    try:
        body = zlib.decompressobj(wbits=31).decompress(data[at : at + packed], size or 1)
    except zlib.error as error:
        raise ValueError(f"a page is damaged: {error}") from error
    if len(body) != size:
        raise ValueError("a page is cut off")
    return body, at + packed


def _texts(plain: bytes) -> Iterator[str]:
    at = 0
    while at < len(plain):
        (size,) = struct.unpack_from("<I", plain, at)
        at += 4
        yield plain[at : at + size].decode()
        at += size

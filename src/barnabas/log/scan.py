"""Reading a segment's file from front to back: what is whole, and the indexes that belong to it.

The file is read in large blocks and each batch is judged by its header and checksum; the first that is cut
off, damaged or out of place ends what counts (``LogSegment.recover``). Pure of disks beyond `pread`, so it
serves recovery, leftovers and tools alike.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Final

from barnabas.core.chunks import ReadableFile
from barnabas.log.filesystem import Filesystem
from barnabas.log.index import OffsetIndex, TimeIndex
from barnabas.records.batch import (
    CRC_COVERS_FROM,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    parse_header,
)
from barnabas.records.crc import crc32c

BLOCK_BYTES: Final = 1 << 20
IN_PLACE_SCAN_BYTES: Final = 1 << 20
"""Less than this is scanned on the spot: sending it to a child process would take longer."""
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

_OLD_HEAD: Final = struct.Struct(">8xiIb")
_OLD_CRC_SIZE: Final = 4
_OLD_LENGTH_MAX: Final = 1 << 27
"""A message has at least its head, and no broker took larger ones."""

BatchObserver = Callable[[BatchHeader, bytes], object]
"""Called with each valid batch that has a producer or another leader epoch than the one before: its header,
and the block that it lies in at the header's position.
"""


class SegmentScan:
    """What a scan found."""

    __slots__ = (
        "index",
        "last_offset",
        "leader_epoch",
        "max_timestamp",
        "next_offset",
        "size",
        "time_index",
        "valid_bytes",
    )

    def __init__(self, base_offset: int, size: int) -> None:
        self.size = size
        """Bytes of the file, as far as they are not zeros beyond a preallocated end."""
        self.valid_bytes = 0
        self.last_offset = base_offset - 1
        self.next_offset = base_offset
        self.max_timestamp = -1
        self.leader_epoch = -1
        self.index = bytearray()
        """The bytes of the offset index."""
        self.time_index = bytearray()
        """The bytes of the time index, closing entry included."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing has to be cut off."""
        return self.valid_bytes == self.size


def scan_segment(
    file: ReadableFile, base_offset: int, interval: int = 4096, observe: BatchObserver | None = None
) -> SegmentScan:
    """Judges every batch of the file; never raises for what the file holds, only OSError."""
    scan = SegmentScan(base_offset, 0)
    indexer = _Indexer(scan, base_offset, interval)
    position = 0
    while True:
        block = file.pread(BLOCK_BYTES, position)
        if len(block) >= HEADER_SIZE:
            first = parse_header(block)
            if len(block) < first.size and len(block) == BLOCK_BYTES and _plausible(first):
                block = file.pread(first.size, position)
        scan.size = max(scan.size, position + len(block))
        consumed = _scan_block(block, position, scan, indexer, observe)
        position += consumed
        if not consumed:
            break
    indexer.close()
    return scan


def scan_indexes(filesystem: Filesystem, path: str, base_offset: int, interval: int) -> tuple[bytes, bytes]:
    """The offset index and the time index that belong to a segment's file. Raises OSError.

    A module-level function of plain values, because a large file is scanned in a child process.
    """
    scan = scan_segment(filesystem.open(path), base_offset, interval)
    return bytes(scan.index), bytes(scan.time_index)


def holds_old_format(file: ReadableFile, position: int) -> bool:
    """Whether a whole message of format 0 or 1, as Kafka wrote them before 0.11, lies at the position.

    ::

        Message = offset:int64 length:int32 crc:uint32 magic:int8 ...       the CRC-32 is of all behind it
    """
    head = file.pread(_OLD_HEAD.size, position)
    if len(head) < _OLD_HEAD.size:
        return False
    length, crc, magic = _OLD_HEAD.unpack(head)
    if magic not in (0, 1) or not _OLD_HEAD.size - LOG_OVERHEAD <= length <= _OLD_LENGTH_MAX:
        return False
    message = file.pread(length, position + LOG_OVERHEAD)
    return len(message) == length and zlib.crc32(message[_OLD_CRC_SIZE:]) == int(crc)


def _plausible(header: BatchHeader) -> bool:
    return header.magic == MAGIC and header.length >= HEADER_SIZE - LOG_OVERHEAD


def _scan_block(
    block: bytes, start: int, scan: SegmentScan, indexer: "_Indexer", observe: BatchObserver | None
) -> int:
    """Takes in the valid batches at the front of the block; returns their bytes."""
    at = 0
    size = len(block)
    view = memoryview(block)
    last_offset = scan.last_offset
    while size - at >= HEADER_SIZE:
        header = parse_header(block, at)
        end = at + LOG_OVERHEAD + header.length
        base_offset = header.base_offset
        last = base_offset + header.last_offset_delta
        in_place = last_offset < base_offset <= last <= indexer.offset_max
        if not (in_place and _plausible(header) and end <= size):
            break
        if crc32c(view[at + CRC_COVERS_FROM : end]) != header.crc:
            break
        if header.max_timestamp > scan.max_timestamp or start + at >= indexer.due:
            indexer.add(header, start + at)
        if header.producer_id >= 0 or header.leader_epoch != scan.leader_epoch:
            scan.leader_epoch = header.leader_epoch
            if observe is not None:
                observe(header, block)
        at = end
        scan.last_offset = last_offset = last
    scan.valid_bytes = start + at
    scan.next_offset = last_offset + 1
    return at


class _Indexer:
    """Makes index entries as recovery makes them: one whenever enough bytes lie behind the last."""

    __slots__ = ("_base", "_interval", "_max_offset", "_scan", "_written", "due", "offset_max")

    def __init__(self, scan: SegmentScan, base_offset: int, interval: int) -> None:
        self._scan = scan
        self._base = base_offset
        self._interval = interval
        self.due = interval + 1
        """The position from which on the next batch makes an entry."""
        self._max_offset = base_offset
        self._written = -1
        self.offset_max = base_offset + RELATIVE_OFFSET_MAX

    def add(self, header: BatchHeader, position: int) -> None:
        scan = self._scan
        if header.max_timestamp > scan.max_timestamp:
            scan.max_timestamp = header.max_timestamp
            self._max_offset = header.last_offset
        if position >= self.due:
            scan.index += OffsetIndex.ENTRY.pack(header.last_offset - self._base, position)
            self._add_time()
            self.due = position + self._interval + 1

    def _add_time(self) -> None:
        if self._scan.max_timestamp > self._written:
            self._written = self._scan.max_timestamp
            self._scan.time_index += TimeIndex.ENTRY.pack(self._written, self._max_offset - self._base)

    def close(self) -> None:
        self._add_time()

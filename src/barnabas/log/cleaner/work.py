"""What the child process does: functions of plain values that read segments and write a cleaned one.

The child keeps the offset map from one call to the next. One that does not have it, because its predecessor
was killed, says so with `MapLostError`, and the log is cleaned again from the start: the map cannot be made
once more, as the segments that it was made of may have been replaced since.

Each function looks for its output file before every block, and stops with `CleaningAbortedError` once the
file was removed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from barnabas.core.chunks import Buffer
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.log.cleaner.filtering import BatchFilter, LastRecord, Stats
from barnabas.log.cleaner.frames import frames_of
from barnabas.log.cleaner.offset_map import SLOT_BYTES, OffsetMap
from barnabas.log.cleaner.transactions import CleanedTransactions
from barnabas.log.filesystem import File, Filesystem
from barnabas.log.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from barnabas.log.scan import scan_segment
from barnabas.log.txn_index import AbortedTxn, TransactionIndex
from barnabas.records.batch import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    batch_headers,
    has_valid_crc,
    parse_header,
    records_section,
)

BLOCK_BYTES_MIN: Final = 1 << 16


class CleaningAbortedError(BarnabasError):
    """The output file was removed: the broker has given the cleaning up (``LogCleaningAbortedException``)."""


class CleanerError(BarnabasError):
    """A log that cannot be cleaned as it is; says why."""


class MapLostError(BarnabasError):
    """This process has no offset map of the cleaning: the one that had it was killed."""


class SourceSegment(NamedTuple):
    """A segment to read: its base offset, and how many bytes of the file belong to it."""

    base_offset: int
    size: int


Throttle: TypeAlias = Callable[[int, Callable[[], None]], None]
"""Called with bytes that were read or written: waits as long as that many may take (``Throttler``), and calls
the function every now and then, which raises when there is no reason to wait any longer.
"""


class Cleaning(NamedTuple):
    """One cleaning of one log, as plain values."""

    number: int
    """Unlike that of any other cleaning by this broker."""
    directory: str
    output_base: int
    """The base offset of the output file."""
    first_dirty_offset: int
    dirty: Sequence[SourceSegment]
    end_offset: int
    """Where the last dirty segment ends."""
    aborted: Sequence[AbortedTxn]
    """The aborted transactions of the dirty part, for the offset map."""
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    memory_bytes: int
    load_factor: float
    block_bytes: int
    throttle: Throttle | None = None


_map_of_process: list[tuple[int, OffsetMap]] = []
"""The map of the cleaning that this process is at, under its number."""


def build_map(disk: Filesystem, cleaning: Cleaning) -> int:
    """``buildOffsetMap``: the offset up to which the log can be cleaned;
    the end of the dirty part unless the map gets full.
    """
    # The map of an earlier cleaning that was given up.
    forget_map()
    # No more room than all dirty offsets need, so that small logs take little memory.
    offsets = cleaning.end_offset - cleaning.first_dirty_offset
    needed = (int(offsets / cleaning.load_factor) + 2) * SLOT_BYTES
    offset_map = OffsetMap(min(cleaning.memory_bytes, needed), cleaning.load_factor)
    _fill(offset_map, disk, cleaning)
    # Not even one batch fits: the log could never be cleaned.
    if offset_map.latest_offset < cleaning.first_dirty_offset <= cleaning.end_offset - 1:
        raise CleanerError(
            f"The keys of one batch do not fit into the offset map of {offset_map.capacity} keys: "
            "raise log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads"
        )
    _map_of_process.append((cleaning.number, offset_map))
    return offset_map.latest_offset + 1


def forget_map() -> None:
    """Gives the memory of the map back."""
    _map_of_process.clear()


def _map_of(cleaning: Cleaning) -> OffsetMap:
    for number, offset_map in _map_of_process:
        if number == cleaning.number:
            return offset_map
    raise MapLostError(cleaning.directory)


def _fill(offset_map: OffsetMap, disk: Filesystem, cleaning: Cleaning) -> None:
    transactions = CleanedTransactions(cleaning.aborted)
    start = cleaning.first_dirty_offset
    lease = _Lease(disk, cleaning)
    for source in cleaning.dirty:
        for batch, header in _batches(disk, cleaning, source, lease):
            if header.is_control:
                transactions.on_control_batch(batch, header)
            # Keys of aborted records supersede nothing (KIP-98).
            elif not transactions.on_batch(header) and header.last_offset >= start:
                frames = frames_of(records_section(batch, header), header.count)
                # Full: the log is cleaned up to here, and the rest next time.
                if not offset_map.fits(frames.keys):
                    return
                offset_map.put(frames.keys, frames.offset_deltas, header.base_offset)
            offset_map.latest_offset = max(offset_map.latest_offset, header.last_offset)
    # Offsets may be missing at the end of a segment that was cleaned before.
    offset_map.latest_offset = max(offset_map.latest_offset, cleaning.end_offset - 1)


class CleanedGroup(NamedTuple):
    """What became of a group of segments."""

    transactions: CleanedTransactions
    """Which transactions are open at its end; the next group begins with them."""
    stats: Stats


def clean_segments(
    disk: Filesystem,
    cleaning: Cleaning,
    group: Sequence[SourceSegment],
    last_records: Mapping[int, LastRecord],
    transactions: CleanedTransactions,
) -> CleanedGroup:
    """``cleanSegments``: writes what is left of the group, with its indexes, to files ``.cleaned``, and syncs
    them.
    """
    stem = f"{cleaning.directory}/{offset_name(group[0].base_offset, '')}"
    transactions.retained.clear()
    batch_filter = BatchFilter(
        _map_of(cleaning),
        transactions,
        last_records,
        now_ms=cleaning.now_ms,
        delete_retention_ms=cleaning.delete_retention_ms,
    )
    lease = _Lease(disk, cleaning)
    output = _Output(disk, lease, cleaning.block_bytes)
    for source in group:
        for batch, header in _batches(disk, cleaning, source, lease):
            kept = batch_filter.filter(batch, header)
            if kept is not None:
                output.add(kept)
        batch_filter.stats.bytes_read += source.size
    output.flush()
    last = f"{cleaning.directory}/{offset_name(group[-1].base_offset, LOG_SUFFIX)}"
    _finish(disk, stem, cleaning, transactions.retained, output, modified_ms=disk.modified_ms(last))
    return CleanedGroup(transactions, batch_filter.stats)


def _finish(
    disk: Filesystem,
    stem: str,
    cleaning: Cleaning,
    retained: Sequence[AbortedTxn],
    output: "_Output",
    *,
    modified_ms: int,
) -> None:
    """Writes the indexes and makes everything durable.
    What was written is read again before it replaces anything.
    """
    base_offset = int(stem.rpartition("/")[2])
    scan = scan_segment(output.file, base_offset, cleaning.index_interval_bytes)
    # Before any source is removed: what was written must read back as whole batches.
    if scan.valid_bytes != output.position:
        raise CleanerError(f"{stem}{LOG_SUFFIX}{CLEANED_SUFFIX} is not what was written to it")
    output.file.sync()
    for suffix, data in ((INDEX_SUFFIX, scan.index), (TIME_INDEX_SUFFIX, scan.time_index)):
        file = disk.open(stem + suffix + CLEANED_SUFFIX, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    # Readers of committed data need the aborted transactions whose records are left.
    if retained:
        index = TransactionIndex(disk, stem + TXN_INDEX_SUFFIX + CLEANED_SUFFIX)
        for txn in retained:
            index.append(txn)
        disk.open(index.path).sync()
    # Retention goes by the age of the file where records have no time (LogSegment.largestTimestamp).
    disk.set_modified_ms(stem + LOG_SUFFIX + CLEANED_SUFFIX, modified_ms)
    disk.sync_directory(cleaning.directory)


class _Lease:
    """Whether the result is still wanted: as long as the output file is there."""

    def __init__(self, disk: Filesystem, cleaning: Cleaning) -> None:
        self._disk = disk
        self._throttle = cleaning.throttle
        stem = f"{cleaning.directory}/{offset_name(cleaning.output_base, LOG_SUFFIX)}"
        self.path = stem + CLEANED_SUFFIX

    def check(self) -> None:
        """Raises CleaningAbortedError when it is not."""
        if not self._disk.exists(self.path):
            raise CleaningAbortedError(self.path)

    def moved(self, size: int) -> None:
        """Notes that `size` bytes were read or written, and waits if that was too fast."""
        self.check()
        if self._throttle is not None:
            self._throttle(size, self.check)


class _Output:
    """The cleaned ``.log``, written in blocks."""

    def __init__(self, disk: Filesystem, lease: _Lease, block_bytes: int) -> None:
        self.file = _open(disk, lease.path)
        self.file.truncate(0)
        self.position = 0
        self._lease = lease
        self._block_bytes = block_bytes
        self._waiting: list[Buffer] = []
        self._size = 0

    def add(self, batch: Buffer) -> None:
        self._waiting.append(batch)
        self._size += len(batch)
        if self._size >= self._block_bytes:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self.file.pwrite(b"".join(self._waiting), self.position)
            self._lease.moved(self._size)
            self.position += self._size
            self._waiting.clear()
            self._size = 0


def _open(disk: Filesystem, path: str) -> File:
    try:
        return disk.open(path)
    except FileNotFoundError:
        raise CleaningAbortedError(path) from None


def _batches(
    disk: Filesystem, cleaning: Cleaning, source: SourceSegment, lease: _Lease
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """The batches of a segment, each with the header of its own bytes;
    raises CORRUPT_MESSAGE for a damaged one.
    """
    path = f"{cleaning.directory}/{offset_name(source.base_offset, LOG_SUFFIX)}"
    lease.check()
    file = _open(disk, path)
    position, last_offset = 0, source.base_offset - 1
    while position < source.size:
        block = file.pread(min(cleaning.block_bytes, source.size - position), position)
        if len(block) >= HEADER_SIZE and (size := parse_header(block).size) > len(block):
            block = file.pread(min(size, source.size - position), position)  # a batch beyond the block
        lease.moved(len(block))
        end = 0
        view = memoryview(block)
        for found in batch_headers(block):
            # The checksum does not cover the base offset.
            in_place = last_offset < found.base_offset <= found.last_offset < cleaning.end_offset
            if not in_place or found.magic != MAGIC or not has_valid_crc(block, found):
                raise _corrupt(path, position + found.position)
            end, last_offset = found.end, found.last_offset
            batch = view[found.position : end]
            yield batch, parse_header(batch)
        if not end:
            raise _corrupt(path, position)
        position += end


def _corrupt(path: str, position: int) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{path} has a damaged batch at position {position}")

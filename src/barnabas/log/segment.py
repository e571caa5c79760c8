"""One segment: a file of batches, its two sparse indexes and its aborted transactions (``LogSegment``).

Theory of operation
-------------------
Only the last segment of a log grows. Each append writes one run of batches at the end of the file; after
more than `index.interval.bytes` since the last entry, the next append leaves one entry in each index, for the
state *before* its own bytes are counted, so the first append of a segment never makes one. The position
counts: bytes beyond `size` in the file are no part of the log, and the next append overwrites them.

The greatest timestamp and the offset of the batch that has it are kept in memory while the segment is
active, and put into the time index as its last entry when the segment closes.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.log.descriptors import DescriptorCache
from barnabas.log.filesystem import File, Filesystem
from barnabas.log.flush import Syncable, SyncByPath
from barnabas.log.index import IndexCorruptError, OffsetIndex, TimeIndex
from barnabas.log.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from barnabas.log.results import AppendInfo
from barnabas.log.scan import RELATIVE_OFFSET_MAX
from barnabas.log.shortage import is_passing
from barnabas.log.txn_index import TransactionIndex
from barnabas.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    NO_TIMESTAMP,
    PLACE,
    BatchHeader,
    parse_header_at,
)

SCAN_BYTES: Final = 16 * 1024
"""Read at once while looking for a batch: a little more than one index interval of small ones."""
NEWEST_SEARCH_BYTES: Final = 64 * 1024
"""How much of a file's end is read to see whether its time index is whole; the event loop waits for that."""


class Place:
    """A batch in a segment: the file position of its first byte, its size, its base offset."""

    __slots__ = ("base_offset", "position", "size")

    def __init__(self, position: int, size: int, base_offset: int) -> None:
        self.position = position
        self.size = size
        self.base_offset = base_offset

    def __repr__(self) -> str:
        return f"<Place of {self.base_offset} at {self.position}, {self.size} bytes>"


class LogSegment:
    """The files with one base offset."""

    __slots__ = (
        "_active_file",
        "_bytes_since_index_entry",
        "_files",
        "_filesystem",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_sealed",
        "base_offset",
        "created_ms",
        "directory",
        "index",
        "path",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        filesystem: Filesystem,
        files: DescriptorCache,
        directory: str,
        base_offset: int,
        *,
        size: int,
        index_entries: int,
        time_index_entries: int,
        index_bytes_max: int,
        created_ms: int,
        suffix: str = "",
    ) -> None:
        self._filesystem = filesystem
        self._files = files
        self.directory = directory
        self.base_offset = base_offset
        stem = f"{directory}/{offset_name(base_offset, '')}"
        self.path = stem + LOG_SUFFIX + suffix
        self.size = size
        index_path = stem + INDEX_SUFFIX + suffix
        self.index = OffsetIndex(files, index_path, base_offset, index_entries, index_bytes_max)
        time_path = stem + TIME_INDEX_SUFFIX + suffix
        self.time_index = TimeIndex(files, time_path, base_offset, time_index_entries, index_bytes_max)
        txn_path = stem + TXN_INDEX_SUFFIX + suffix
        self.txn_index = TransactionIndex(filesystem, txn_path)
        self.created_ms = created_ms
        self._active_file: File | None = None
        """The file that appends go to; None also while an active segment rests."""
        self._sealed = True
        self._bytes_since_index_entry = 0
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None
        self._max_timestamp_offset = base_offset

    @classmethod
    def create(
        cls,
        filesystem: Filesystem,
        files: DescriptorCache,
        directory: str,
        base_offset: int,
        *,
        index_bytes_max: int,
        now_ms: int,
    ) -> "LogSegment":
        """A new, empty segment with preallocated indexes; files that are in the way are cut to nothing."""
        segment = cls(
            filesystem,
            files,
            directory,
            base_offset,
            size=0,
            index_entries=0,
            time_index_entries=0,
            index_bytes_max=index_bytes_max,
            created_ms=now_ms,
        )
        segment._max_timestamp = NO_TIMESTAMP
        segment._open_for_appends(create=True).truncate(0)
        segment.txn_index.truncate_to(0)
        segment.index.preallocate()
        segment.time_index.preallocate()
        return segment

    @classmethod
    def load(
        cls,
        filesystem: Filesystem,
        files: DescriptorCache,
        directory: str,
        base_offset: int,
        *,
        index_bytes_max: int,
        suffix: str = "",
    ) -> "LogSegment":
        """A segment whose files were closed cleanly: every byte of the indexes is an entry.

        The suffix is that of all file names, behind the kind of file.
        """
        stem = f"{directory}/{offset_name(base_offset, '')}"
        return cls(
            filesystem,
            files,
            directory,
            base_offset,
            size=filesystem.size(stem + LOG_SUFFIX + suffix),
            index_entries=filesystem.size(stem + INDEX_SUFFIX + suffix) // OffsetIndex.ENTRY.size,
            time_index_entries=filesystem.size(stem + TIME_INDEX_SUFFIX + suffix) // TimeIndex.ENTRY.size,
            index_bytes_max=index_bytes_max,
            created_ms=filesystem.modified_ms(stem + LOG_SUFFIX + suffix),
            suffix=suffix,
        )

    # -- state ---------------------------------------------------------------------------------------

    @property
    def file(self) -> File:
        """The open ``.log``: the active segment's own, or one from the cache."""
        return self._active_file or self._files.open(self.path)

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """The names of its files as they are now, the ``.log`` first."""
        return (self.path, self.index.path, self.time_index.path, self.txn_index.path)

    @property
    def max_timestamp(self) -> int:
        if self._max_timestamp is None:
            self._max_timestamp, self._max_timestamp_offset = self._newest_at_the_end()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has the greatest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else self.base_offset

    @property
    def largest_timestamp(self) -> int:
        """For retention: the greatest timestamp, or when the file was written if it has none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self._filesystem.modified_ms(self.path)

    def first_timestamp(self) -> int:
        """The timestamp that time-based rolling counts from; -1 while the segment is empty."""
        if self._first_timestamp is None:
            if not self.size:
                return NO_TIMESTAMP
            try:
                self._first_timestamp = self.header_at(0).max_timestamp
            except KafkaError:
                self._first_timestamp = NO_TIMESTAMP  # damaged: the age of the file has to do
        return self._first_timestamp

    # -- writing -------------------------------------------------------------------------------------

    def activate(self) -> None:
        """Makes room in the indexes, as for every segment that appends go to."""
        self.max_timestamp  # noqa: B018  # read while the last entry still is at the end of the file
        self._open_for_appends()
        self.index.preallocate()
        self.time_index.preallocate()

    def _open_for_appends(self, *, create: bool = False) -> File:
        self._sealed = False
        file = self._active_file = self._filesystem.open(self.path, create=create)
        self._files.hold(self)
        return file

    def rest(self) -> None:
        """Lets go of the file that appends go to; the next append opens it again."""
        self._active_file = None
        self._files.let_go(self)

    def append(
        self, data: Buffer, *, last_offset: int, max_timestamp: int, max_timestamp_offset: int, interval: int
    ) -> int:
        """Writes a run of batches and returns its position. Raises OSError with nothing changed in memory."""
        file = self.file_for_appends()
        try:
            file.pwrite(data, self.size)
        except OSError:
            self._cut_torn(file)
            raise
        return self._note(
            len(data),
            last_offset=last_offset,
            max_timestamp=max_timestamp,
            max_timestamp_offset=max_timestamp_offset,
            interval=interval,
        )

    def append_together(self, buffers: Sequence[Buffer], appends: Sequence[AppendInfo], interval: int) -> int:
        """Writes several appends of one batch each; returns the position of the first. Everything is as if
        each had been written by itself. Raises OSError with nothing changed.
        """
        position = self.size
        before = (
            self._first_timestamp,
            self._max_timestamp,
            self._max_timestamp_offset,
            self._bytes_since_index_entry,
            self.index.entries,
            self.time_index.entries,
        )
        file = self.file_for_appends()
        try:
            file.pwritev(buffers, position)
        except OSError:
            self._cut_torn(file)
            raise
        try:
            for append in appends:
                self._note(
                    append.size,
                    last_offset=append.last_offset,
                    max_timestamp=append.max_timestamp,
                    max_timestamp_offset=append.last_offset,
                    interval=interval,
                )
        except BaseException:
            # An index refused its entry. Its earlier ones of this write would lead to batches that are not
            # there.
            self.size = position
            self._first_timestamp, self._max_timestamp, self._max_timestamp_offset = before[:3]
            self._bytes_since_index_entry, self.index.entries, self.time_index.entries = before[3:]
            raise
        return position

    def _cut_torn(self, file: File) -> None:
        """Cuts off what a write that failed has left behind the last batch, as on a disk without room.

        It is no part of the log; but who opens the file again takes its size for the end of the segment.
        """
        with contextlib.suppress(OSError):  # then the next start has to find it
            file.truncate(self.size)

    def file_for_appends(self) -> File:
        """The file of the active segment, opened again if it rests. Raises OSError."""
        file = self._active_file
        if file is None:
            assert not self._sealed, f"append to {self!r}, which is not active"
            file = self._open_for_appends()
        return file

    def _note(
        self, size: int, *, last_offset: int, max_timestamp: int, max_timestamp_offset: int, interval: int
    ) -> int:
        """Counts bytes that were written at the end; their position."""
        assert 0 <= last_offset - self.base_offset <= RELATIVE_OFFSET_MAX, f"{last_offset} not in {self!r}"
        position = self.size
        if position == 0:
            self._first_timestamp = max_timestamp
        if self._max_timestamp is None or max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = max_timestamp_offset
        if self._bytes_since_index_entry > interval:
            self._add_index_entries(last_offset, position)
        self._bytes_since_index_entry += size
        self.size = position + size
        return position

    def _add_index_entries(self, last_offset: int, position: int) -> None:
        # The batch is written, and an entry only shortens look-ups: without one, the next append leaves it.
        try:
            self.index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
        except IndexCorruptError:
            return  # the next look-up rebuilds it
        except OSError as error:
            if not is_passing(error):
                raise
            return
        self._bytes_since_index_entry = 0

    def seal(self) -> None:
        """``onBecomeInactiveSegment``: the last time index entry, indexes cut to their entries.
        Raises OSError.
        """
        if self.max_timestamp >= 0:
            with contextlib.suppress(IndexCorruptError):  # the next look-up rebuilds it
                self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
        self.index.trim()
        self.time_index.trim()
        self._sealed = True
        self.rest()

    def truncate_to(self, offset: int) -> int:
        """Cuts the batch with this offset and all after it; returns the bytes that went."""
        try:
            place = self.locate(offset)
        except IndexCorruptError:
            self.index.truncate_entries(0)
            place = self.locate(offset)
        if place is None:
            return 0
        removed = self.size - place.position
        # Indexes first: an entry must not lead to bytes that were cut off; a missing one only costs a scan.
        try:
            self.index.truncate_to(offset)
            self.time_index.truncate_to(offset)
        except IndexCorruptError:
            self.index.truncate_entries(0)
            self.time_index.truncate_entries(0)
        self.txn_index.truncate_to(offset)
        self.file.truncate(place.position)
        self.size = place.position
        self._bytes_since_index_entry = 0
        self._max_timestamp = None
        if place.position == 0:
            self._first_timestamp = None
        self._max_timestamp, self._max_timestamp_offset = self._greatest_timestamp()
        return removed

    def take_indexes(self, index: bytes, time_index: bytes) -> None:
        """Replaces damaged indexes by what a scan of the log has made. Raises OSError."""
        self.index.replace(index)
        self.time_index.replace(time_index)
        if not self._sealed:
            self.index.preallocate()
            self.time_index.preallocate()

    def _newest_at_the_end(self) -> tuple[int, int]:
        """What the time index says, or a newer batch near the end of the file: the index may lack entries.

        All behind the index's last entry is looked at where that is little, as it is where time passes in the
        order of the offsets; else the batches behind the last entry of the offset index.
        """
        last = self.time_index.last()
        timestamp, offset = last
        with contextlib.suppress(KafkaError, OSError):  # a damaged file knows no better than its index
            behind_entry = self.index.lookup(offset)[1] if timestamp >= 0 else 0
            behind_last = self.index.lookup(self.base_offset + RELATIVE_OFFSET_MAX)[1]
            for start in (behind_entry, behind_last):
                if self.size - start <= NEWEST_SEARCH_BYTES:
                    return self._newest_from(start, timestamp, offset)
        return last

    def _newest_from(self, position: int, timestamp: int, offset: int) -> tuple[int, int]:
        for header in self.headers_from(position):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        return timestamp, offset

    def _greatest_timestamp(self) -> tuple[int, int]:
        """The greatest timestamp that is left after a truncation: the index's, or one after its entry."""
        timestamp, offset = self.time_index.last()
        start = self.index.lookup(offset)[1] if timestamp >= 0 else 0
        return self._newest_from(start, timestamp, offset)

    def files_to_sync(self, disk: Filesystem) -> list[Syncable]:
        """What makes the segment durable; a crash rebuilds the indexes of an active one anyway.

        Closed files are opened only while they are synced: a producer that rolls small segments faster than
        the disk syncs them would leave three descriptors behind for each one.
        """
        files: list[Syncable] = [self._active_file or SyncByPath(disk, self.path)]
        if self.txn_index.entries:
            self.txn_index.write()
            files.append(SyncByPath(disk, self.txn_index.path))
        if self._sealed:
            files += (SyncByPath(disk, self.index.path), SyncByPath(disk, self.time_index.path))
        return files

    # -- reading -------------------------------------------------------------------------------------

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch at a position; raises CORRUPT_MESSAGE when the file ends before it."""
        window = self.file.pread(HEADER_SIZE, position)
        if len(window) < HEADER_SIZE:
            raise self._cut(position + len(window))
        return parse_header_at(window, 0, position)

    def headers_from(self, position: int, end: int | None = None) -> Iterator[BatchHeader]:
        """The headers from a batch's position on, with their positions in the file."""
        limit = self.size if end is None else end
        window = b""
        start = position
        file = self.file
        while limit - position >= HEADER_SIZE:
            at = position - start
            if at < 0 or len(window) - at < HEADER_SIZE:
                start, at = position, 0
                window = file.pread(min(SCAN_BYTES, limit - position), position)
                if len(window) < HEADER_SIZE:
                    raise self._cut(position + len(window))
            header = parse_header_at(window, at, position)
            self._check_length(header.length, position)
            yield header
            position = header.end

    def locate(self, offset: int) -> Place | None:
        """``translateOffset``: the first batch that ends at or after the offset; None when the segment ends
        before it.

        Raises IndexCorruptError when the index leads to where its batch is not, CORRUPT_MESSAGE for a damaged
        batch.
        """
        indexed, first = self.index.lookup(offset)
        if first and not 0 < first <= self.size - HEADER_SIZE:
            raise self._astray(indexed, first)
        position = first
        file = self.file
        while self.size - position >= HEADER_SIZE:
            window = file.pread(min(SCAN_BYTES, self.size - position), position)
            if position == first and first and not self._is_entry(window, indexed):
                raise self._astray(indexed, first)
            at = 0
            while len(window) - at >= HEADER_SIZE:
                base_offset, length, last_delta = PLACE.unpack_from(window, at)
                self._check_length(length, position + at)
                if base_offset + last_delta >= offset:
                    return Place(position + at, LOG_OVERHEAD + length, base_offset)
                at += LOG_OVERHEAD + length
            if not at:
                raise self._cut(position + len(window))
            position += at
        return None

    def _is_entry(self, window: bytes, indexed: int) -> bool:
        """Whether a batch with the entry's offset, or of the same append, begins the window.

        A reader that trusted a wrong entry would pass over records that exist.
        """
        # A file that ends too early, or a length that is damaged, is the log's own matter, not the index's:
        # made again, an index would end there, and what lies behind would be out of reach.
        if len(window) < HEADER_SIZE:
            return True
        base_offset, _, _ = PLACE.unpack_from(window)
        return self.base_offset <= base_offset <= indexed and window[MAGIC_OFFSET] == MAGIC

    def _astray(self, indexed: int, position: int) -> IndexCorruptError:
        return self.index.corrupt(
            f"leads to position {position} for offset {indexed}, where no such batch is"
        )

    def _check_length(self, length: int, position: int) -> None:
        """Raises CORRUPT_MESSAGE for a batch that cannot lie there: a reader would wait for the rest of it in
        vain, or be sent all that follows.
        """
        if length < HEADER_SIZE - LOG_OVERHEAD or position + LOG_OVERHEAD + length > self.size:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{self.path} of {self.size} bytes has a batch of {length} bytes at position {position}",
            )

    def _cut(self, end: int) -> KafkaError:
        return KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{self.path} ends at {end}, before its {self.size} bytes"
        )

    def read_batch(self, header: BatchHeader) -> bytes:
        return self.file.pread(header.size, header.position)

    def next_offset(self) -> int:
        """The offset after the last batch.

        Raises CORRUPT_MESSAGE when the file does not end where a batch ends.
        """
        last = None
        for last in self.headers_from(self.index.lookup(self.base_offset + RELATIVE_OFFSET_MAX)[1]):  # noqa: B007
            pass
        end = last.end if last else 0
        if end != self.size:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"{self.path} has {self.size} bytes, its last batch ends at {end}"
            )
        return last.next_offset if last else self.base_offset

    def headers_since(self, timestamp: int, start_offset: int) -> Iterator[BatchHeader]:
        """Headers of batches that may hold a record at or after both the time and the offset."""
        offset = max(self.time_index.lookup(timestamp)[1], start_offset)
        for header in self.headers_from(self.index.lookup(offset)[1]):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
                yield header

    # -- the end -------------------------------------------------------------------------------------

    def change_suffix(self, old: str, new: str) -> None:
        """``changeFileSuffixes``: renames the files, the log first. Raises OSError.

        A start that finds the log under its new name gives the others theirs; the other way round it would
        take the renamed indexes for those of a segment that is replaced.
        """
        for each in (self, self.index, self.time_index, self.txn_index):
            path = each.path.removesuffix(old) + new
            self._files.forget(each.path)
            if self._filesystem.exists(each.path):
                self._filesystem.rename(each.path, path)
            each.path = path

    def retire(self) -> list[str]:
        """Renames the files to ``.deleted`` and returns the new names; open readers keep what they have.

        Raises OSError; called again, it continues where it was refused.
        """
        retired = []
        for path in self.paths:
            self._files.forget(path)
            if self._filesystem.exists(path):
                self._filesystem.rename(path, path + DELETED_SUFFIX)
            if self._filesystem.exists(path + DELETED_SUFFIX):
                retired.append(path + DELETED_SUFFIX)
        self.rest()
        return retired

    def forget_files(self) -> None:
        self.rest()
        for path in self.paths:
            self._files.forget(path)

    def __repr__(self) -> str:
        return f"<LogSegment {self.path} size={self.size}>"

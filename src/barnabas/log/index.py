"""The two sparse indexes of a segment: offset to position, and time to offset.

::

    .index      = {relativeOffset:int32 position:int32}*        sorted by both
    .timeindex  = {timestamp:int64 relativeOffset:int32}*       sorted by both

Theory of operation
-------------------
While a segment is active its index files are preallocated (sparse, `segment.index.bytes`) as Kafka's memory
maps want them, and entries are written in place at their end; rolling and closing cuts the files to
their entries. An index never is the truth: what the log says wins, and an index that does not fit is built
again. Entries are looked up with `pread` through the descriptor cache: the last 8 KiB first, because most
readers are near the end, then by binary search.

An entry of the offset index names the *last* offset of an append and the position of its *first* byte, so
the batch that holds an offset starts at or after the entry with the greatest offset at or below it.
"""

import struct
from typing import ClassVar, Final

from barnabas.log.descriptors import DescriptorCache

WARM_BYTES: Final = 8192
"""One look at the end of an index covers the newest 4 MiB or more of its segment."""


class IndexCorruptError(Exception):
    """An index file that cannot belong to its segment; the remedy is to rebuild it."""

    def __init__(self, message: str, base_offset: int = 0) -> None:
        super().__init__(message)
        self.base_offset = base_offset


class SparseIndex:
    """What both indexes have in common: fixed entries in one file, appended at the end."""

    ENTRY: ClassVar[struct.Struct]

    __slots__ = ("_files", "base_offset", "entries", "entries_max", "path")

    def __init__(
        self, files: DescriptorCache, path: str, base_offset: int, entries: int, bytes_max: int
    ) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self.entries = entries
        self.entries_max = bytes_max // self.ENTRY.size

    @property
    def room(self) -> int:
        """How many more entries there may be before the segment must roll."""
        return self.entries_max - self.entries

    @property
    def is_full(self) -> bool:
        return self.room <= 0

    def preallocate(self) -> None:
        """Gives the file its full, sparse size, as it has while its segment is active."""
        # Recovery makes new entries, and may come to more of them than a small `segment.index.bytes` allows.
        room = max(self.entries, self.entries_max)
        self._files.open(self.path, create=True).truncate(room * self.ENTRY.size)

    def trim(self) -> None:
        self._files.open(self.path, create=True).truncate(self.entries * self.ENTRY.size)

    def truncate_entries(self, entries: int) -> None:
        """Forgets all but the first entries; the file keeps its size, later entries overwrite."""
        self.entries = min(self.entries, entries)

    def _write(self, *entry: int) -> None:
        data = self.ENTRY.pack(*entry)
        self._files.open(self.path, create=True).pwrite(data, self.entries * self.ENTRY.size)
        self.entries += 1

    def replace(self, data: bytes) -> None:
        """Takes these entries in the place of all there are."""
        file = self._files.open(self.path, create=True)
        file.pwrite(data, 0)
        file.truncate(len(data))
        self.entries = len(data) // self.ENTRY.size

    def _entry(self, number: int) -> tuple[int, ...]:
        return self.ENTRY.unpack(self._pread(number, 1))

    def _pread(self, first: int, count: int) -> bytes:
        """The bytes of some entries;
        raises IndexCorruptError when they are not there, as for a file that was cut.
        """
        size = self.ENTRY.size
        try:
            data = self._files.open(self.path).pread(count * size, first * size)
        except FileNotFoundError:
            raise self.corrupt("is gone") from None
        if len(data) != count * size:
            raise self.corrupt(f"ends before its entry {first + count - 1}")
        return data

    def corrupt(self, what: str) -> IndexCorruptError:
        """The error for an index of which this is true."""
        return IndexCorruptError(f"{self.path} {what}", self.base_offset)

    def _floor(self, target: int, column: int) -> tuple[int, tuple[int, ...]] | None:
        """The last entry whose value in the column is at or below the target, and its number."""
        if not self.entries:
            return None
        size = self.ENTRY.size
        block = WARM_BYTES // size
        low = max(0, self.entries - block)
        high = self.entries
        while low and self._entry(low)[column] > target:
            low, high = self._halve(low, target, column)
        return self._floor_in(self._pread(low, high - low), low, target, column)

    def _halve(self, high: int, target: int, column: int) -> tuple[int, int]:
        """Narrows [0, high), which holds the answer, to a range that one read covers."""
        low = 0
        while high - low > WARM_BYTES // self.ENTRY.size:
            middle = (low + high) // 2
            if self._entry(middle)[column] > target:
                high = middle
            else:
                low = middle
        if low and self._entry(low)[column] > target:
            raise self.corrupt("is not sorted")
        return low, high

    def _floor_in(
        self, data: bytes, first: int, target: int, column: int
    ) -> tuple[int, tuple[int, ...]] | None:
        size = self.ENTRY.size
        unpack = self.ENTRY.unpack_from
        low, high = 0, len(data) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(data, middle * size)[column] > target:
                high = middle
            else:
                low = middle + 1
        if low == 0:
            return None
        return first + low - 1, unpack(data, (low - 1) * size)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path} {self.entries}/{self.entries_max}>"


class OffsetIndex(SparseIndex):
    """Where to start reading for an offset."""

    ENTRY: ClassVar = struct.Struct(">ii")

    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        """Adds an entry: the last offset of an append and where it starts."""
        assert not self.is_full, f"{self!r} is full: the segment should have rolled"
        self._write(offset - self.base_offset, position)

    def lookup(self, offset: int) -> tuple[int, int]:
        """The entry at or below the offset, as (offset, position); the segment's start when there is none."""
        found = self._floor(offset - self.base_offset, 0)
        if found is None:
            return self.base_offset, 0
        relative, position = found[1]
        return self.base_offset + relative, position

    def leave_out_preallocated(self) -> None:
        """Counts the entries of a file that may be of an active segment: preallocated ones are zero."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle)[1]:
                low = middle + 1
            else:
                high = middle
        self.entries = low

    def lookup_position(self, position: int) -> int:
        """The greatest position at or below this one at which a batch begins, as far as the index knows."""
        found = self._floor(position, 1)
        return 0 if found is None else found[1][1]

    def truncate_to(self, offset: int) -> None:
        """Forgets entries at or above the offset."""
        found = self._floor(offset - self.base_offset - 1, 0)
        self.truncate_entries(found[0] + 1 if found else 0)

    def sanity_check(self, file_size: int) -> None:
        """Raises IndexCorruptError when the file cannot be this segment's index (``OffsetIndex``)."""
        if file_size % self.ENTRY.size:
            raise self.corrupt(f"has {file_size} bytes, no multiple of {self.ENTRY.size}")
        # Kafka looks at the offset only; a zero position is what preallocation leaves behind, never an entry.
        if self.entries and (self._entry(self.entries - 1)[0] < 0 or self._entry(self.entries - 1)[1] <= 0):
            raise self.corrupt("has a last entry that lies before its base")


class TimeIndex(SparseIndex):
    """The greatest timestamp so far, at some offsets."""

    ENTRY: ClassVar = struct.Struct(">qi")

    __slots__ = ()

    @property
    def room(self) -> int:
        """As for every index, but one place stays free for the entry that closing adds."""
        return self.entries_max - 1 - self.entries

    def last(self) -> tuple[int, int]:
        """The last entry as (timestamp, offset); (-1, base offset) when there is none."""
        if not self.entries:
            return -1, self.base_offset
        timestamp, relative = self._entry(self.entries - 1)
        return timestamp, self.base_offset + relative

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if the timestamp is greater than the last one's; full or not, as a segment that
        recovery filled must still close (Kafka's ``skipFullCheck``).
        """
        if timestamp > self.last()[0]:
            self._write(timestamp, offset - self.base_offset)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The entry at or below the timestamp, as (timestamp, offset); (-1, base offset) without one."""
        found = self._floor(timestamp, 0)
        if found is None:
            return -1, self.base_offset
        found_timestamp, relative = found[1]
        return found_timestamp, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Forgets entries at or above the offset."""
        found = self._floor(offset - self.base_offset - 1, 1)
        self.truncate_entries(found[0] + 1 if found else 0)

    def sanity_check(self, file_size: int) -> None:
        """Raises IndexCorruptError when the file cannot be this segment's time index (``TimeIndex``)."""
        if file_size % self.ENTRY.size:
            raise self.corrupt(f"has {file_size} bytes, no multiple of {self.ENTRY.size}")
        if not self.entries:
            return
        timestamp, relative = self._entry(self.entries - 1)
        if not timestamp and not relative:
            raise self.corrupt("has a last entry as preallocation leaves it behind")
        if timestamp < self._entry(0)[0] or relative < 0:
            raise self.corrupt("has a last entry that lies before its first")

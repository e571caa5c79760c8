"""The segments of a log in order, their files, and everything that is looked up across them (``LocalLog``).

Files that nobody was promised are unlinked at once; those that readers may still have open are renamed, and
the names are returned, to be removed after a delay. Readers get file ranges, never copies. The first batches
of recent appends are remembered with their positions, so a reader at the tail needs no index; everybody else
goes through the offset index of the one segment that can hold the offset. `OSError` passes through: what it
means is the log's business.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from barnabas.core.chunks import FileSlice
from barnabas.log.resources import LogResources
from barnabas.log.results import ReadResult
from barnabas.log.segment import LogSegment, Place
from barnabas.log.shortage import is_passing
from barnabas.log.snapshots import SnapshotStore
from barnabas.log.txn_index import AbortedTxn

RECENT_APPENDS_MAX: Final = 256
"""How many appends at the tail are remembered with their positions."""


class SegmentList:
    """At least one segment, the last one active."""

    __slots__ = ("_directory", "_list", "_recent", "_resources", "_snapshots", "active")

    def __init__(
        self,
        segments: list[LogSegment],
        directory: str,
        resources: LogResources,
        snapshots: SnapshotStore,
    ) -> None:
        """`snapshots` are those of the producers:
        each goes with the segment that begins where it was taken.
        """
        assert segments, "a log has at least one segment"
        self._list = segments
        self._directory = directory
        self._resources = resources
        self._snapshots = snapshots
        self.active = segments[-1]
        self._recent: dict[int, Place] = {}
        """The first batch of recent appends to the active segment, by base offset."""

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._list)

    def __contains__(self, segment: LogSegment) -> bool:
        return segment in self._list  # a compiled class does not fall back on __iter__

    def __getitem__(self, place: int) -> LogSegment:
        return self._list[place]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._list)

    def reaching(self, offset: int) -> list[LogSegment]:
        """The segment that would hold the offset, and all after it."""
        place = bisect_right(self._list, offset, key=lambda segment: segment.base_offset)
        return self._list[max(0, place - 1) :]

    # -- changes -------------------------------------------------------------------------------------

    def add(self, segment: LogSegment) -> None:
        assert not self._list or segment.base_offset > self.active.base_offset, f"{segment!r} is no successor"
        self._list.append(segment)
        self._activate()

    def cut_after(self, offset: int) -> list[LogSegment]:
        """Takes out the segments that begin above the offset; the one before becomes active."""
        removed = self.reaching(offset)[1:]
        del self._list[len(self._list) - len(removed) :]
        self._activate()
        return removed

    def replace(self, segment: LogSegment) -> None:
        self._list = [segment]
        self._activate()

    def replace_active(self, segment: LogSegment) -> None:
        """Puts a new segment in the place of the (empty) active one."""
        self._list[-1] = segment
        self._activate()

    def replace_sealed(self, sources: Sequence[LogSegment], cleaned: LogSegment) -> list[str]:
        """``replaceSegments``: puts one segment in the place of neighbours, none of which is active; the
        renamed files of these. Raises OSError, and may have done half of it by then.
        """
        first = self._list.index(sources[0])
        end = first + len(sources)
        assert self._list[first:end] == list(sources), f"{sources} are no neighbours in {self!r}"
        assert end < len(self._list), "the active segment stays"
        self._list[first:end] = [cleaned]
        retired: list[str] = []
        for source in sources:
            retired += source.retire()
        # The cleaned segment begins where the first of them did, and that snapshot is still right.
        for source in sources[1:]:
            self._snapshots.remove(source.base_offset)
        self._check_unread(retired)
        return retired

    def remember(self, place: Place) -> None:
        """Notes the first batch of an append to the active segment."""
        recent = self._recent
        recent[place.base_offset] = place
        if len(recent) > RECENT_APPENDS_MAX:
            # Half of them at once: looking for the oldest key of a dict passes over each that was deleted.
            for offset in list(islice(recent, RECENT_APPENDS_MAX // 2)):
                del recent[offset]

    def _activate(self) -> None:
        self.active = self._list[-1]
        self._recent.clear()

    # -- files ---------------------------------------------------------------------------------------

    def create(self, base_offset: int, index_bytes_max: int, now_ms: int) -> LogSegment:
        """An empty segment, which is no part of the log yet. Raises OSError."""
        resources = self._resources
        return LogSegment.create(
            resources.filesystem,
            resources.files,
            self._directory,
            base_offset,
            index_bytes_max=index_bytes_max,
            now_ms=now_ms,
        )

    def load(self, base_offset: int, index_bytes_max: int, suffix: str) -> LogSegment:
        """A segment in files with the suffix, which is no part of the log yet. Raises OSError."""
        resources = self._resources
        return LogSegment.load(
            resources.filesystem,
            resources.files,
            self._directory,
            base_offset,
            index_bytes_max=index_bytes_max,
            suffix=suffix,
        )

    def retire_first(self, count: int) -> list[str]:
        """Takes out the oldest segments, never the last one; the renamed files, to be removed after a delay.

        Raises OSError, where that is none for want of room or descriptors that comes after the first of them.
        """
        assert count < len(self._list), "the active segment stays"
        retired: list[str] = []
        try:
            for _ in range(count):
                # One that cannot be renamed stays, below the start of the log, until the next clean-up.
                segment = self._list[0]
                retired += segment.retire()
                del self._list[0]
                self._snapshots.remove(segment.base_offset)
        except OSError as error:
            if not retired or not is_passing(error):
                raise
        self._check_unread(retired)
        return retired

    def discard(self, segments: Sequence[LogSegment]) -> None:
        """Removes segments that hold nothing anybody was promised, and that were taken out.

        The last one first: where the disk refuses one or the process dies, what is left has no hole.
        """
        retired: list[str] = []
        for segment in reversed(segments):
            retired += segment.retire()
            self._snapshots.remove(segment.base_offset)
        self.remove_files(retired)

    def remove_files(self, paths: Sequence[str]) -> None:
        """Unlinks files of segments, none that the log reads; only `Removal` does it too while a log is open.

        Raises OSError.
        """
        self._check_unread(paths)
        for path in paths:
            self._resources.files.forget(path)
            self._resources.filesystem.remove(path)

    def _check_unread(self, paths: Sequence[str]) -> None:
        """What is to be unlinked, now or later, is no file of a segment."""
        unlinked = set(paths)
        for segment in self._list:
            assert unlinked.isdisjoint(segment.paths), f"{segment!r} is read by {self!r}"

    # -- reading -------------------------------------------------------------------------------------

    def locate(self, offset: int) -> tuple[LogSegment, Place | None]:
        """The first batch that ends at or after the offset, and its segment."""
        recent = self._recent.get(offset)
        if recent is not None:
            return self.active, recent
        for segment in self.reaching(offset):
            place = segment.locate(offset)
            if place is not None:
                return segment, place
        return self.active, None

    def read(
        self, start_offset: int, max_bytes: int, upper: int | None, *, min_one_message: bool
    ) -> ReadResult:
        """The range from the batch that holds the offset on; `upper` None for the end of the log."""
        segment, place = self.locate(start_offset)
        if place is None:
            return self.nothing(start_offset)
        limit = max(max_bytes, place.size) if min_one_message else max_bytes
        position = place.position
        end = segment.size if upper is None else self._end_position(segment, upper)
        size = min(end - position, limit)
        if size <= 0:
            return ReadResult(b"", place.base_offset, segment.base_offset, position)
        records = FileSlice(segment.file, position, size)
        return ReadResult(records, place.base_offset, segment.base_offset, position, size < place.size)

    def nothing(self, offset: int) -> ReadResult:
        """The answer to a reader at the end."""
        return ReadResult(b"", offset, self.active.base_offset, self.active.size)

    def _end_position(self, segment: LogSegment, upper: int) -> int:
        """The position in the segment of the first batch at or above the offset."""
        if segment is self.active:
            place = self._recent.get(upper)
        else:
            after = bisect_right(self._list, segment.base_offset, key=lambda each: each.base_offset)
            if upper >= self._list[after].base_offset:
                return segment.size
            place = None
        if place is None:
            place = segment.locate(upper)
        if place is None:
            return segment.size
        # A bound inside a batch lets the batch through: the high watermark never lies there.
        return place.position if place.base_offset >= upper else place.position + place.size

    def aborted_transactions(self, start_offset: int, upper: int) -> list[AbortedTxn]:
        found: list[AbortedTxn] = []
        for segment in self.reaching(start_offset):
            some, complete = segment.txn_index.collect(start_offset, upper)
            found += some
            if complete:
                break
        return found

    # -- look-up by time -----------------------------------------------------------------------------

    def batch_since(self, target_ms: int, start_offset: int) -> bytes | None:
        """The first batch that may hold a record at or after both the time and the offset."""
        for segment in self._list:
            if segment.max_timestamp >= target_ms:
                # There is none where all of the segment's records lie below the start of the log.
                for header in segment.headers_since(target_ms, start_offset):
                    return segment.read_batch(header)
        return None

    def latest_batch(self) -> bytes | None:
        """The first batch with the greatest timestamp of all; None for a log without timestamps."""
        segment = max(self._list, key=lambda segment: segment.max_timestamp)
        greatest = segment.max_timestamp
        if greatest < 0:
            return None
        for header in segment.headers_from(segment.index.lookup(segment.max_timestamp_offset)[1]):
            if header.max_timestamp == greatest:
                return segment.read_batch(header)
        return None

    def __repr__(self) -> str:
        return f"<SegmentList {[segment.base_offset for segment in self._list]}>"

"""Log directories as the older part of topics: what a stream reads from them before it goes on with Kafka.

A range of offsets that begins in the directories is read there as far as they reach, and what is behind that
from the brokers, and so is what the directories lack in between, as when a file was not copied. Offsets are
the same in both, so a checkpoint knows nothing of it: a batch that is done again reads the same records from
wherever they are then.

What neither has is lost data. But the cleaner of a compacted topic removes records from the end of a segment
too, which then looks like a file that was not copied. So where the topic's ``cleanup.policy`` has ``compact``
in it, offsets between two segments that the brokers no longer have either are taken for such a hole.
"""

import logging
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition, uuid_text
from barnabas.log.checkpoint import LOG_START_OFFSET, OffsetCheckpoint
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.partition_metadata import read_topic_id
from barnabas.records.batch import HEADER_SIZE, parse_header
from barnabas.spark.errors import OffsetError, OptionError
from barnabas.spark.logs.options import LogOptions
from barnabas.spark.logs.segments import Piece, Segment, begins, end_offset, find_segments, indexed
from barnabas.spark.offsets import EARLIEST, LATEST, Positions
from barnabas.spark.options import SourceOptions
from barnabas.spark.planner import Catalog, FoundTopics, report_data_loss
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


_log = logging.getLogger("barnabas.spark")


class LogPart(NamedTuple):
    """Records of a segment that a task reads: those of the piece from one offset up to another."""

    piece: Piece
    start: int
    end: int


class Backfill:
    """What log directories have, as it was when it was first asked for."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._segments: dict[TopicPartition, list[Segment]] | None = None
        self._spans: dict[TopicPartition, tuple[int, int]] = {}
        self._ends: dict[Segment, int] = {}

    def spans(self) -> Mapping[TopicPartition, tuple[int, int]]:
        """The first offset of each partition, and the one behind its last whole batch. Raises OptionError."""
        if self._segments is None:
            self._look()
        return self._spans

    def _look(self) -> None:
        found: dict[TopicPartition, list[Segment]] = {}
        for segment in find_segments(LogOptions(self.options.backfill)):
            if self.options.asks_for(segment.tp):
                found.setdefault(segment.tp, []).append(segment)
        for tp, segments in found.items():
            segments.sort(key=lambda one: one.base_offset)
            begin = max(segments[0].base_offset, _log_start(segments[0]))
            end = end_offset(segments[-1])
            if end > begin:
                self._spans[tp] = begin, end
        self._segments = found

    def require_same(self, topic_ids: Mapping[str, str]) -> None:
        """Raises OptionError for a directory of a topic that was deleted, and made again under its name."""
        filesystem = OsFilesystem()
        for tp in self.spans():
            assert self._segments is not None
            directory = str(Path(self._segments[tp][0].path).parent)
            there, now = read_topic_id(filesystem, directory), topic_ids.get(tp.topic)
            if there is not None and now is not None and uuid_text(there) != now:
                raise OptionError(
                    f"{directory} has the topic {tp.topic} with the id {uuid_text(there)}, and the brokers "
                    f"have another one of that name, {now}: its offsets mean other records"
                )

    def split(self, ranges: Sequence[OffsetRange]) -> tuple[list[LogPart], list[OffsetRange]]:
        """What of the ranges is read from the directories, and what from the brokers."""
        parts: list[LogPart] = []
        others: list[OffsetRange] = []
        for tp, start, end in ranges:
            begin, behind = self.spans().get(tp, (0, 0))
            cut = min(behind, end) if begin <= start < behind else start
            for one in self._parts(tp, start, cut):
                if isinstance(one, LogPart):
                    parts.append(one)
                else:
                    others.append(one)
            others.append(OffsetRange(tp, cut, end))
        return parts, others

    def is_gap(self, piece: OffsetRange) -> bool:
        """Whether a range that is left to the brokers lies between what the directories have."""
        begin, behind = self.spans().get(piece.tp, (0, 0))
        return piece.size > 0 and begin <= piece.start < behind

    def _parts(self, tp: TopicPartition, start: int, end: int) -> "Iterator[LogPart | OffsetRange]":
        """The pieces of segments that have the offsets, and between them the ranges that none has."""
        assert self._segments is not None
        segments = self._segments[tp] if end > start else []
        first = max(bisect_right([one.base_offset for one in segments], start) - 1, 0)
        at = start
        for segment in segments[first:]:
            behind = min(segment.base_offset, end)
            if behind > at:
                yield OffsetRange(tp, at, behind)
                at = behind
            if at >= end:
                return
            behind = min(self._end_of(segment), end)
            if behind > at:
                # From `at`, not from `start`: in a copy that was made while a broker compacted, the segment
                # before may have these records too.
                yield LogPart(Piece(segment, *_bytes_of(segment, at, behind)), at, behind)
                at = behind
        if at < end:  # retention has removed the last one meanwhile
            yield OffsetRange(tp, at, end)

    def _end_of(self, segment: Segment) -> int:
        """The offset behind its last whole batch."""
        if segment not in self._ends:
            self._ends[segment] = end_offset(segment)
        return self._ends[segment]


class Brokers(Catalog, Protocol):
    """What is asked of Kafka where log directories have the older part."""

    def is_compacted(self, topic: str) -> bool:
        """Whether ``cleanup.policy`` has ``compact`` in it.
        Raises BarnabasError or OSError where it cannot be asked.
        """


class BackfilledCatalog:
    """A catalog whose partitions begin where the log directories do."""

    def __init__(self, catalog: Brokers, backfill: Backfill) -> None:
        self._catalog = catalog
        self._backfill = backfill
        self._compacted: dict[str, bool] = {}
        self._not_known: dict[str, str] = {}
        """Why it is not known whether a topic is compacted."""

    def topics(self, options: SourceOptions) -> FoundTopics:
        """Those of Kafka. Raises OptionError where a directory has another topic of that name."""
        found = self._catalog.topics(options)
        self._backfill.require_same(found.topic_ids)
        return found

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Those of Kafka; the earliest one may be in the directories. Raises OffsetError for a time of which
        the directories may have the first record: they are not searched by time.
        """
        found, spans = self._catalog.offsets(wanted), self._backfill.spans()
        for tp, time in wanted.items():
            if time == EARLIEST and tp in spans and tp in found:
                found[tp] = min(found[tp], spans[tp][0])
        by_time = [tp for tp, time in wanted.items() if time >= 0 and tp in spans]
        if by_time:
            first = self._catalog.offsets(dict.fromkeys(by_time, EARLIEST))
            end = self._catalog.offsets(dict.fromkeys(by_time, LATEST))
            for tp in by_time:
                at, begin = found.get(tp, -1), first.get(tp, 0)
                # An older record of the brokers, or all of them, says that the directories' are older too.
                is_known = at > begin or (at < 0 and end.get(tp, 0) > begin)
                if spans[tp][0] < begin and not is_known:
                    raise OffsetError(
                        f"the first record of {tp} of that time may be in the log directories, which are not "
                        f"searched by time: give a time behind that of offset {begin:,}, the brokers' first"
                    )
        return found

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Those of Kafka."""
        return self._catalog.committed(group, partitions)

    def split(
        self, ranges: Sequence[OffsetRange]
    ) -> tuple[list[LogPart], list[OffsetRange], list[OffsetRange]]:
        """What of the ranges is read from the directories; what they lack in between and the brokers have;
        and what lies behind them. Raises DataLossError for offsets that neither has.
        """
        parts, left = self._backfill.split(ranges)
        ends = {tp: behind for tp, (_, behind) in self._backfill.spans().items()}
        # A range that begins behind the directories is checked where it is fetched.
        near = [one.tp for one in left if one.size and one.start <= ends.get(one.tp, -1)]
        first = self._catalog.offsets(dict.fromkeys(near, EARLIEST))
        gaps: list[OffsetRange] = []
        others: list[OffsetRange] = []
        for one in left:
            is_gap = self._backfill.is_gap(one)
            start = max(one.start, first.get(one.tp, one.start))
            kept = OffsetRange(one.tp, min(start, one.end), one.end)
            if is_gap and self._is_compacted(one):
                gaps.append(kept)
                continue
            if kept.start > one.start:
                self._report(OffsetRange(one.tp, one.start, kept.start), start)
            if is_gap and kept.size:
                _log.warning(
                    "no log directory has the offsets %d to %d of %s: they are read from the brokers",
                    *(kept.start, kept.end - 1, one.tp),
                )
            (gaps if is_gap else others).append(kept)
        return parts, gaps, others

    def _is_compacted(self, gap: OffsetRange) -> bool:
        """Whether the gap's topic is compacted; the log says so once a topic, with its first gap. A topic
        whose policy cannot be asked counts as not compacted: an error too many is better than records that
        are missing without one.
        """
        topic = gap.tp.topic
        if topic not in self._compacted:
            try:
                self._compacted[topic] = self._catalog.is_compacted(topic)
            except (BarnabasError, OSError) as error:
                self._compacted[topic] = False
                self._not_known[topic] = str(error)
            if self._compacted[topic]:
                _log.warning(
                    "%s is compacted: what log directories lack between their segments, first the offsets "
                    "%d to %d of %s, is read from the brokers, and what these lack too counts as removed by "
                    "compaction",
                    *(topic, gap.start, gap.end - 1, gap.tp),
                )
        return self._compacted[topic]

    def _report(self, lost: OffsetRange, first: int) -> None:
        topic = lost.tp.topic
        reason = (
            f"No log directory has the offsets {lost.start} to {lost.end - 1} of {lost.tp}, and the brokers "
            f"begin at {first}. A newer copy of the partition's directory may have them."
        )
        if topic in self._not_known:
            reason += f" Whether {topic} is compacted is not known: {self._not_known[topic]}"
        report_data_loss("START_OFFSET_RESET", reason, fail=self._backfill.options.fail_on_data_loss)


def read_parts(parts: Sequence[LogPart], options: SourceOptions) -> "Iterator[pa.RecordBatch]":
    """The rows of one task. Raises CorruptBatchError unless such batches are skipped, and OSError, also for a
    file that has become shorter.
    """
    from barnabas.spark.logs.views import read_pieces

    how = LogOptions(
        options.backfill, include_headers=options.include_headers, skip_corrupt=options.skip_corrupt
    )
    for part in parts:
        segment = part.piece.segment
        if Path(segment.path).stat().st_size < part.piece.end:
            raise OSError(f"{segment.path} has become shorter since it was looked at")
        for rows in read_pieces([part.piece], how):
            offsets = rows.column("offset").to_numpy()
            begin, end = offsets.searchsorted([part.start, part.end]).tolist()
            if end > begin:
                yield rows.slice(begin, end - begin)
            if end < len(offsets):
                break


def _log_start(segment: Segment) -> int:
    """What DeleteRecords has left of a partition, 0 where its directory does not say."""
    path = Path(segment.path).parents[1] / LOG_START_OFFSET
    return OffsetCheckpoint(OsFilesystem(), str(path)).read().get(segment.tp, 0)


def _bytes_of(segment: Segment, start: int, end: int) -> tuple[int, int]:
    """From which byte to which the offsets of a range are, as near as the index says."""
    entries = [entry for entry in indexed(segment) if 0 < entry[1] < segment.size]
    with Path(segment.path).open("rb") as log:
        number = log.fileno()
        before = (at for offset, at in reversed(entries) if offset <= start)
        first = next((at for at in before if begins(number, at)), 0)
        behind = (at for offset, at in entries if offset >= end and at > first)
        return first, next((at for at in behind if _begins_from(number, at, end)), segment.size)


def _begins_from(log: int, position: int, offset: int) -> bool:
    """Whether a batch begins there that has no offset before the given one."""
    return begins(log, position) and parse_header(os.pread(log, HEADER_SIZE, position)).base_offset >= offset

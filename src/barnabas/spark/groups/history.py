"""The lag of groups at each of their commits, out of log directories.

Theory of operation
-------------------
A commit says how far a group was at a time; the log of the partition says how far the log was then. Both are
questions to the same pass over the partition's records, in order:

- the time of the record at the committed offset, or of the first one behind it where that one was deleted;
- the end of the log at the time of the commit: the first record that is newer than it. Times of records may
  go back, so what is searched is the greatest time so far, which never does.

A pass holds one stretch of records and the commits of its partition, and no more.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barnabas.core.ids import TopicPartition
from barnabas.spark.groups.commits import commits_of
from barnabas.spark.groups.options import GroupOptions, of_offsets_topic
from barnabas.spark.logs.options import LogOptions
from barnabas.spark.logs.segments import Piece, Segment, find_segments
from barnabas.spark.logs.views import read_pieces

_TIME: Final = pa.timestamp("us", tz="UTC")
HISTORY: Final = pa.schema(
    {
        "group": pa.string(), "topic": pa.string(), "partition": pa.int32(), "commitTimestamp": _TIME,
        "committedOffset": pa.int64(), "logEndOffset": pa.int64(), "lag": pa.int64(),
        "lagSeconds": pa.float64(),
        "rewound": pa.int64(), "secondsSinceCommit": pa.float64(),
    }
)  # fmt: skip
NEVER: Final = -(2**62)
"""The time of a record that there is not."""


@dataclass(frozen=True, slots=True)
class Position:
    """A group in a partition, at one of its commits."""

    group: str
    offset: int
    time_ms: int


def lag_history(mine: Sequence[TopicPartition], options: GroupOptions) -> Iterator[pa.RecordBatch]:
    """A row for each commit in these partitions. Raises CorruptBatchError and OSError."""
    assert options.logs is not None
    wanted = set(mine)
    commits: dict[TopicPartition, list[Position]] = defaultdict(list)
    for tp, position in _commits(options, options.logs):
        if tp in wanted:
            commits[tp].append(position)
    segments: dict[TopicPartition, list[Segment]] = defaultdict(list)
    for segment in find_segments(options.logs):
        if segment.tp in commits:
            segments[segment.tp].append(segment)
    for tp, positions in commits.items():
        yield _rows(tp, positions, Pass(positions).over(segments[tp], options.logs))


def _commits(options: GroupOptions, logs: LogOptions) -> Iterator[tuple[TopicPartition, Position]]:
    """All commits of the wanted groups, each group's in order:
    it has one partition of the topic for itself.
    """
    for segment in find_segments(of_offsets_topic(logs)):
        for records in read_pieces([Piece(segment, 0, segment.size)], of_offsets_topic(logs)):
            for commit, _ in commits_of(records):
                if (
                    commit.offset is not None
                    and commit.commit_timestamp is not None
                    and options.wants(commit.group)
                ):
                    tp = TopicPartition(commit.topic, commit.partition)
                    yield tp, Position(commit.group, commit.offset, commit.commit_timestamp)


class Pass:
    """Answers both questions for all commits of a partition; times are in milliseconds."""

    def __init__(self, positions: Sequence[Position]) -> None:
        self._offsets: Any = np.array([one.offset for one in positions], np.int64)
        self._times: Any = np.array([one.time_ms for one in positions], np.int64)
        self._by_offset: Any = np.argsort(self._offsets, kind="stable")
        self._by_time: Any = np.argsort(self._times, kind="stable")
        self.committed: Any = np.full(len(positions), NEVER)
        """The time of the record at each commit's offset."""
        self.ends: Any = np.full(len(positions), -1, np.int64)
        """The log's end at the time of each commit."""
        self.newest: Any = np.full(len(positions), NEVER)
        """The greatest time of a record before that end."""

    def over(self, segments: Sequence[Segment], options: LogOptions) -> "Pass":
        """The answers, from all records of these segments."""
        # The newest segment may be empty: then its name says where the log ends.
        newest, end, first = NEVER, max((one.base_offset for one in segments), default=-1), -1
        waiting_offset, waiting_time = self._by_offset, self._by_time
        for segment in segments:
            for batch in read_pieces([Piece(segment, 0, segment.size)], options):
                if not batch.num_rows:
                    continue
                offsets = batch.column("offset").to_numpy()
                times = batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000
                if first < 0:
                    # What lies below the first record was removed, and its time is not known.
                    first = int(offsets[0])
                    waiting_offset = waiting_offset[self._offsets[waiting_offset] >= first]
                waiting_offset = self._answer_offsets(waiting_offset, offsets, times)
                waiting_time = self._answer_times(waiting_time, offsets, times, newest)
                newest, end = max(newest, int(times.max())), max(end, int(offsets[-1]) + 1)
        self.ends[waiting_time], self.newest[waiting_time] = end, newest
        return self

    def _answer_offsets(self, waiting: Any, offsets: Any, times: Any) -> Any:
        """Of the commits that wait for a record's time; those that wait on."""
        here = int(np.searchsorted(self._offsets[waiting], offsets[-1], "right"))
        self.committed[waiting[:here]] = times[
            np.searchsorted(offsets, self._offsets[waiting[:here]], "left")
        ]
        return waiting[here:]

    def _answer_times(self, waiting: Any, offsets: Any, times: Any, newest: int) -> Any:
        """Of the commits that wait for the log's end at their time; those that wait on."""
        greatest = np.maximum.accumulate(np.concatenate([[newest], times]))
        here = int(np.searchsorted(self._times[waiting], greatest[-1], "left"))
        places = np.searchsorted(greatest[1:], self._times[waiting[:here]], "right")
        self.ends[waiting[:here]] = offsets[places]
        self.newest[waiting[:here]] = greatest[places]
        return waiting[here:]


def _rows(tp: TopicPartition, positions: Sequence[Position], answers: Pass) -> pa.RecordBatch:
    before: dict[str, Position] = {}
    rows = []
    for index, one in enumerate(positions):
        end, committed, newest = (
            int(held[index]) for held in (answers.ends, answers.committed, answers.newest)
        )
        previous = before.get(one.group)
        before[one.group] = one
        is_there = end >= 0
        # By the clocks of producers the log may not have come as far as the group had read.
        lag = max(end - one.offset, 0) if is_there else None
        rows.append(
            {
                "group": one.group,
                "topic": tp.topic,
                "partition": tp.partition,
                "commitTimestamp": one.time_ms * 1000,
                "committedOffset": one.offset,
                "logEndOffset": max(end, one.offset) if is_there else None,
                "lag": lag,
                "lagSeconds": seconds_behind(lag, newest, committed),
                "rewound": max(previous.offset - one.offset, 0) if previous else 0,
                "secondsSinceCommit": (one.time_ms - previous.time_ms) / 1000 if previous else None,
            }
        )
    return pa.RecordBatch.from_pylist(rows, schema=HISTORY)


def seconds_behind(lag: int | None, newest_ms: int, committed_ms: int) -> float | None:
    """From the time of the next record that a group reads to that of the newest;
    None where one is not known.
    """
    if lag == 0:
        return 0.0
    if lag is None or NEVER in {newest_ms, committed_ms}:
        return None
    return max(newest_ms - committed_ms, 0) / 1000

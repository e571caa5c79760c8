"""Reading ranges in a worker: fetch, check that nothing is lost, decode into Arrow.

Knows Kafka only through a port, `Fetcher`, which hands out batches as the broker sent them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.records.columnar import decode
from barnabas.spark.options import SourceOptions
from barnabas.spark.planner import report_data_loss, start_was_reset
from barnabas.spark.ranges import OffsetRange

POLL_MS: Final = 500
"""How long one look for new records takes; ``kafkaConsumer.pollTimeoutMs`` bounds all of them together."""
ROWS_PER_BATCH: Final = 65_536
"""Larger Arrow batches halve Spark's throughput (measured with 50 MB), much smaller ones too."""


class OutOfRangeError(BarnabasError):
    """Positions that the log does not have: removed by retention, or behind its end."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(f"out of range: {', '.join(map(str, partitions))}")
        self.partitions = partitions


class RawRecords(Protocol):
    """Record batches of one partition as the broker sent them."""

    @property
    def tp(self) -> TopicPartition:
        """Whose they are."""

    @property
    def position(self) -> int:
        """The offset that was asked for; the first batch may begin before it."""

    @property
    def records(self) -> memoryview:
        """The batches; the last may be cut off."""

    @property
    def aborted(self) -> Sequence[tuple[int, int]]:
        """Producer id and first offset of the aborted transactions among them."""


class Fetcher(Protocol):
    """What reading asks of Kafka."""

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """From now on these partitions are fetched, each from its position."""

    def fetch(self, timeout_ms: int) -> Sequence[RawRecords]:
        """What has arrived; empty after the timeout. Raises KafkaError and OutOfRangeError."""

    def seek(self, tp: TopicPartition, position: int) -> None:
        """Goes on elsewhere."""

    def finish(self, tp: TopicPartition) -> None:
        """Enough of this partition."""

    def log_start_offset(self, tp: TopicPartition) -> int:
        """The first offset that is still there."""


class Progress:
    """How far a task has come in each of its ranges."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self.ends = {piece.tp: piece.end for piece in ranges if piece.size > 0}
        self.positions = {piece.tp: piece.start for piece in ranges if piece.size > 0}

    def advance(self, tp: TopicPartition, position: int) -> bool:
        """Goes on from `position`; whether the range is finished."""
        self.positions[tp] = position
        if position < self.ends[tp]:
            return False
        del self.ends[tp], self.positions[tp]
        return True

    def __repr__(self) -> str:
        left = ", ".join(f"{tp}: {self.positions[tp]}..{end}" for tp, end in sorted(self.ends.items()))
        return f"<Progress {left or 'finished'}>"


def read_ranges(
    ranges: Sequence[OffsetRange], fetcher: Fetcher, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    """The rows of the ranges. Raises DataLossError, TimeoutError, KafkaError and ColumnarError."""
    progress = Progress(ranges)
    fetcher.start(progress.positions)
    waiting_since = time.monotonic()
    while progress.ends:
        try:
            fetched = fetcher.fetch(min(POLL_MS, options.poll_timeout_ms))
        except OutOfRangeError as error:
            for tp in progress.positions.keys() & set(error.partitions):
                _skip_what_is_gone(tp, progress, fetcher, options)
            continue
        for raw in fetched:
            if raw.tp in progress.ends:
                waiting_since = time.monotonic()
                yield from _decoded(raw, progress, fetcher, options)
        if (time.monotonic() - waiting_since) * 1000 >= options.poll_timeout_ms:
            raise TimeoutError(
                f"Cannot fetch records of {progress!r} in {options.poll_timeout_ms} ms; is the leader reachable? "
                "The option kafkaConsumer.pollTimeoutMs allows more time."
            )


def _decoded(
    raw: RawRecords, progress: Progress, fetcher: Fetcher, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    tp = raw.tp
    if raw.position != progress.positions[tp]:
        return  # fetched before a seek
    decoded = decode(
        raw.records,
        topic=tp.topic,
        partition=tp.partition,
        start_offset=raw.position,
        end_offset=progress.ends[tp],
        aborted=raw.aborted,
        include_headers=options.include_headers,
        check_crc=options.client.get("check.crcs", "true") != "false",
    )
    if progress.advance(tp, decoded.next_offset):
        fetcher.finish(tp)
    for start in range(0, decoded.batch.num_rows, ROWS_PER_BATCH):
        yield decoded.batch.slice(start, ROWS_PER_BATCH)


def _skip_what_is_gone(
    tp: TopicPartition, progress: Progress, fetcher: Fetcher, options: SourceOptions
) -> None:
    """Retention was faster than the reader, or the topic was created again and is shorter now."""
    position, end = progress.positions[tp], progress.ends[tp]
    first = fetcher.log_start_offset(tp)
    if first > position:
        condition, reason = "START_OFFSET_RESET", start_was_reset(tp, position, first)
    else:
        condition, first = "COULD_NOT_READ_OFFSET_RANGE", end
        reason = f"Could not read records in offset [{position}, {end}) for topic partition {tp}."
    report_data_loss(condition, reason, fail=options.fail_on_data_loss)
    if progress.advance(tp, min(first, end)):
        fetcher.finish(tp)
    else:
        fetcher.seek(tp, first)

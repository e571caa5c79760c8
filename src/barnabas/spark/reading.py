"""Reading ranges in a worker: fetch, check that nothing is lost, decode into Arrow.

Knows Kafka only through a port, `RecordFetcher`, which hands out batches as the broker sent them.
"""

import functools
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from barnabas.core.ids import TopicPartition
from barnabas.records.columnar import ColumnarError, as_array, decode, scan_as_far, wrong_crcs
from barnabas.records.columnar_kernel import HeaderColumn
from barnabas.spark.errors import CorruptRecordsError, OutOfRangeError
from barnabas.spark.options import SourceOptions
from barnabas.spark.planner import report_data_loss, start_was_reset
from barnabas.spark.ranges import POLL_MS, OffsetRange, Progress

_log = logging.getLogger("barnabas.spark")

ROWS_PER_BATCH: Final = 65_536
"""Larger Arrow batches halve Spark's throughput (measured with 50 MB), much smaller ones too."""


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


class RecordFetcher(Protocol):
    """What reading asks of Kafka."""

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """From now on these partitions are fetched, each from its position."""

    def fetch(self, timeout_ms: int) -> Sequence[RawRecords]:
        """What has arrived; empty after the timeout. Raises KafkaError and OutOfRangeError."""

    def seek(self, tp: TopicPartition, position: int) -> None:
        """Goes on elsewhere."""

    def finish(self, tp: TopicPartition) -> None:
        """Enough of this partition."""

    def topic_id(self, topic: str) -> str | None:
        """The id of the topic that the last fetches came from, where it is known."""

    def log_start_offset(self, tp: TopicPartition) -> int:
        """The first offset that is still there."""


def read_ranges(
    ranges: Sequence[OffsetRange],
    fetcher: RecordFetcher,
    options: SourceOptions,
    topic_ids: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the ranges, of the topics that had these ids when the ranges were planned.

    Raises DataLossError, CorruptRecordsError, TimeoutError, KafkaError and ColumnarError.
    """
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
            if raw.tp not in progress.ends:
                continue
            before = progress.positions[raw.tp]
            planned = (topic_ids or {}).get(raw.tp.topic)
            if planned is not None and fetcher.topic_id(raw.tp.topic) not in {planned, None}:
                _skip_another_topic(raw.tp, progress, fetcher, options)
            else:
                yield from _decoded(raw, progress, fetcher, options)
            # What does not lead further, such as records from before the range, is no reason to wait on.
            if progress.positions.get(raw.tp) != before:
                waiting_since = time.monotonic()
        if (time.monotonic() - waiting_since) * 1000 >= options.poll_timeout_ms:
            raise TimeoutError(
                f"Cannot fetch records of {progress!r} in {options.poll_timeout_ms} ms; is the leader "
                "reachable, and does the "
                "log go as far? The option kafkaConsumer.pollTimeoutMs allows more time."
            )


def _decoded(
    raw: RawRecords, progress: Progress, fetcher: RecordFetcher, options: SourceOptions
) -> Iterator[pa.RecordBatch]:
    tp = raw.tp
    if raw.position != progress.positions[tp]:
        return  # fetched before a seek
    rows_of = functools.partial(
        decode,
        topic=tp.topic,
        partition=tp.partition,
        start_offset=raw.position,
        end_offset=progress.ends[tp],
        aborted=raw.aborted,
        include_headers=options.include_headers,
    )
    behind = raw.position
    try:
        decoded = rows_of(raw.records, check_crc=_checks_crcs(options))
    except ColumnarError:
        sound, behind = _without_corrupt(raw, progress.ends[tp], options)
        try:
            decoded = rows_of(sound)
        except ColumnarError as error:
            raise ColumnarError(
                f"{tp} from offset {raw.position}: {error}. Each batch alone can be read: let a fetch have "
                "fewer of them, by the option kafka.max.partition.fetch.bytes."
            ) from None
    if progress.advance(tp, max(decoded.next_offset, behind)):
        fetcher.finish(tp)
    for start in range(0, decoded.batch.num_rows, ROWS_PER_BATCH):
        yield decoded.batch.slice(start, ROWS_PER_BATCH)


def _checks_crcs(options: SourceOptions) -> bool:
    return options.client.get("check.crcs", "true") != "false"


def _without_corrupt(raw: RawRecords, end_offset: int, options: SourceOptions) -> tuple[bytes, int]:
    """The batches without those of the range that are corrupt, and the offset behind all of them.

    Raises CorruptRecordsError for a corrupt batch unless such are skipped.
    """
    table, broken_header = scan_as_far(as_array(raw.records))
    wrong = dict(wrong_crcs(raw.records, table)) if _checks_crcs(options) else {}
    columns = [
        HeaderColumn.POSITION,
        HeaderColumn.END,
        HeaderColumn.BASE_OFFSET,
        HeaderColumn.LAST_OFFSET,
        HeaderColumn.COUNT,
    ]
    rows = table[:, columns].tolist()
    following = [*(first for _, _, first, _, _ in rows[1:]), None]
    sound, behind = [], raw.position
    for row, (position, end, first, last, count) in enumerate(rows):
        batch = raw.records[position:end]
        if first >= end_offset:
            behind = first
            break
        reason = wrong.get(row) or _problem(batch)
        # The last offset and the count are among the bytes that the checksum is of; base offset and length
        # are not.
        known = row not in wrong or _ends_where_it_says(first, last, count, following[row])
        if reason is None or (row not in wrong and last < raw.position):
            sound.append(batch)
        elif options.skip_corrupt and known:
            _log.warning(
                "corrupt batch skipped: offsets %d to %d of %s, %d bytes: %s",
                first, last, raw.tp, end - position, reason,
            )  # fmt: skip
        else:
            raise CorruptRecordsError(raw.tp, first, reason, skippable=known) from None
        behind = last + 1
    # Behind a damaged header no batch can be found, so there is no place from which to continue.
    if broken_header is not None and behind < end_offset:
        raise CorruptRecordsError(raw.tp, behind, broken_header, skippable=False) from None
    return b"".join(sound), behind


def _ends_where_it_says(first: int, last: int, count: int, following: int | None) -> bool:
    """Whether the last offset of a batch with a wrong checksum can be the true one.

    Where no other batch follows in the fetch, it must fit the number of records.
    """
    return last - first + 1 == count if following is None else first <= last < following


def _problem(batch: memoryview) -> str | None:
    """Why the records of one batch cannot be decoded."""
    try:
        decode(batch, topic="", partition=0)
    except ColumnarError as error:
        return str(error)
    return None


def _skip_another_topic(
    tp: TopicPartition, progress: Progress, fetcher: RecordFetcher, options: SourceOptions
) -> None:
    """The topic was deleted and created again after the range was planned:
    its offsets mean other records now.
    """
    reason = f"Topic {tp.topic} has been deleted and created again."
    report_data_loss("PARTITIONS_DELETED", reason, fail=options.fail_on_data_loss)
    progress.advance(tp, progress.ends[tp])
    fetcher.finish(tp)


def _skip_what_is_gone(
    tp: TopicPartition, progress: Progress, fetcher: RecordFetcher, options: SourceOptions
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

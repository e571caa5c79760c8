"""What a task does with what arrives, told by a fetcher of lists: progress, loss, patience."""

from typing import NamedTuple

import pytest

from barnabas.core.ids import TopicPartition
from barnabas.records import columnar
from barnabas.records.batch import build_batch
from barnabas.records.columnar import ColumnarError
from barnabas.records.record import Record
from barnabas.spark.errors import CorruptRecordsError, DataLossError, OutOfRangeError
from barnabas.spark.options import source_options
from barnabas.spark.ranges import OffsetRange, Progress
from barnabas.spark.reading import ROWS_PER_BATCH, read_ranges

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Raw(NamedTuple):
    tp: TopicPartition
    position: int
    records: memoryview
    aborted: list = []  # noqa: RUF012


class ListFetcher:
    """Logs of small batches; a fetch gives one batch of each partition."""

    def __init__(self, logs, *, first=None):
        self.logs = logs
        self.first = first or {}
        self.positions = {}
        self.silent = False
        self.id = None

    def start(self, positions):
        self.positions = dict(positions)

    def seek(self, tp, position):
        self.positions[tp] = position

    def finish(self, tp):
        del self.positions[tp]

    def topic_id(self, topic):
        return self.id

    def log_start_offset(self, tp):
        return self.first.get(tp, 0)

    def fetch(self, timeout_ms):
        lost = [
            tp for tp, at in self.positions.items() if at < self.log_start_offset(tp) or at > self.end(tp)
        ]
        if lost:
            raise OutOfRangeError(lost)
        found = [] if self.silent else [self.piece(tp, at) for tp, at in self.positions.items()]
        for raw, end in found:
            self.positions[raw.tp] = end
        return [raw for raw, _ in found]

    def end(self, tp):
        return self.logs[tp][-1][1]

    def piece(self, tp, at):
        start, end = next((start, end) for start, end in self.logs[tp] if end > at)
        batch = build_batch([Record(offset, 0, None, b"%d" % offset) for offset in range(start, end)])
        return Raw(tp, at, memoryview(batch)), end


@pytest.mark.parametrize("known", [None, "planned"])
def test_the_topic_that_was_planned_is_read(known):
    fetcher = ListFetcher({A: [(0, 5)]})
    fetcher.id = known

    batches = read_ranges([OffsetRange(A, 0, 5)], fetcher, options(), {"t": "planned"})
    assert sum(batch.num_rows for batch in batches) == 5


def test_a_topic_that_was_created_again_while_it_is_read_is_another():
    class CreatedAgain(ListFetcher):
        def fetch(self, timeout_ms):
            self.id = "planned" if self.positions[A] < 5 else "another"
            return super().fetch(timeout_ms)

    def read(**extra):
        fetcher = CreatedAgain({A: [(0, 5), (5, 10)]})
        for batch in read_ranges([OffsetRange(A, 0, 10)], fetcher, options(**extra), {"t": "planned"}):
            found.extend(batch.column("offset").to_pylist())

    found = []
    with pytest.raises(DataLossError, match="Topic t has been deleted and created again"):
        read()
    found = []
    read(failOnDataLoss="false")
    assert found == [0, 1, 2, 3, 4]


def options(**extra):
    return source_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **extra}, streaming=False)


def offsets(ranges, fetcher, **extra):
    found = {}
    for batch in read_ranges(ranges, fetcher, options(**extra)):
        for tp, offset in zip(
            batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True
        ):
            found.setdefault(tp, []).append(offset)
    return found


def test_ranges_are_read_exactly_though_batches_are_larger():
    fetcher = ListFetcher({A: [(0, 5), (5, 10), (10, 15)], B: [(0, 3), (3, 40)]})

    found = offsets([OffsetRange(A, 3, 12), OffsetRange(B, 1, 7)], fetcher)

    assert found == {0: list(range(3, 12)), 1: list(range(1, 7))}
    assert fetcher.positions == {}, "nothing is fetched for finished ranges"


def test_gaps_are_no_loss():
    """Compaction and transactions leave offsets out, at the end of a range too."""
    fetcher = ListFetcher({A: [(0, 3), (7, 9), (20, 21)]})

    assert offsets([OffsetRange(A, 0, 15)], fetcher) == {0: [0, 1, 2, 7, 8]}


def test_records_from_before_a_range_are_no_progress():
    """A broker that sent the same batch again and again was asked for ever."""

    class Stale(ListFetcher):
        def fetch(self, timeout_ms):
            raw, _ = self.piece(A, 0)
            return [Raw(A, self.positions[A], raw.records)]

    with pytest.raises(TimeoutError, match="Cannot fetch records of"):
        offsets([OffsetRange(A, 5, 9)], Stale({A: [(0, 5), (5, 9)]}), **{"kafkaConsumer.pollTimeoutMs": "50"})


def test_empty_ranges_need_no_fetch():
    assert offsets([OffsetRange(A, 5, 5)], ListFetcher({A: [(0, 9)]})) == {}


def test_what_retention_removes_meanwhile_is_lost():
    def fetcher():
        return ListFetcher({A: [(6, 9)]}, first={A: 6})

    with pytest.raises(DataLossError, match="Starting offset for t-0 was 2 but consumer reset to 6"):
        offsets([OffsetRange(A, 2, 9)], fetcher())
    assert offsets([OffsetRange(A, 2, 9)], fetcher(), failOnDataLoss="false") == {0: [6, 7, 8]}
    assert offsets([OffsetRange(A, 2, 4)], fetcher(), failOnDataLoss="false") == {}


def test_offsets_behind_the_end_cannot_be_read():
    def fetcher():
        return ListFetcher({A: [(0, 3)], B: [(0, 20)]})

    ranges = [OffsetRange(A, 5, 9), OffsetRange(B, 5, 9)]
    with pytest.raises(
        DataLossError, match=r"Could not read records in offset \[5, 9\) for topic partition t-0"
    ):
        offsets(ranges, fetcher())
    assert offsets(ranges, fetcher(), failOnDataLoss="false") == {1: [5, 6, 7, 8]}


def test_silence_ends_with_a_time_out_that_names_what_is_missing():
    fetcher = ListFetcher({A: [(0, 9)]})
    fetcher.silent = True

    with pytest.raises(TimeoutError, match=r"Progress t-0: 2\.\.9.*kafkaConsumer\.pollTimeoutMs"):
        offsets([OffsetRange(A, 2, 9)], fetcher, **{"kafkaConsumer.pollTimeoutMs": "1"})


def test_an_answer_from_before_a_seek_is_dropped():
    class Late(ListFetcher):
        def fetch(self, timeout_ms):
            stale = self.piece(A, 0)[0]
            return [stale, *super().fetch(timeout_ms)]

    assert offsets([OffsetRange(A, 5, 8)], Late({A: [(0, 5), (5, 8)]})) == {0: [5, 6, 7]}


def test_large_pieces_are_cut_for_spark():
    fetcher = ListFetcher({A: [(0, ROWS_PER_BATCH + 5)]})
    sizes = [
        batch.num_rows for batch in read_ranges([OffsetRange(A, 0, ROWS_PER_BATCH + 5)], fetcher, options())
    ]

    assert sizes == [ROWS_PER_BATCH, 5]


def test_progress_shows_what_is_left():
    progress = Progress([OffsetRange(A, 3, 9), OffsetRange(B, 0, 2)])
    progress.advance(B, 2)

    assert repr(progress) == "<Progress t-0: 3..9>"


class FlippedFetcher(ListFetcher):
    """Its batches arrive together; in those that are named one bit is wrong."""

    def __init__(self, logs, *, flipped, at=-3, bit=1):
        super().__init__(logs)
        self.flipped, self.at, self.bit = flipped, at, bit

    def piece(self, tp, at):
        data = b""
        for start, end in self.logs[tp]:
            if end > at:
                batch = bytearray(super().piece(tp, start)[0].records)
                if start in self.flipped:
                    batch[self.at] ^= self.bit
                data += batch
        return Raw(tp, at, memoryview(data)), self.end(tp)


def test_a_corrupt_batch_is_named_by_its_partition_and_offset():
    fetcher = FlippedFetcher({A: [(0, 5), (5, 9), (9, 12)]}, flipped={5})

    with pytest.raises(CorruptRecordsError, match=r"partition t-0 at offset 5 is invalid.*stored crc.*skip"):
        list(read_ranges([OffsetRange(A, 0, 12)], fetcher, options()))


@pytest.mark.parametrize(
    ("flipped", "left"), [({5}, [*range(5), *range(9, 12)]), ({9}, range(9)), ({0, 5, 9}, [])]
)
def test_corrupt_batches_are_skipped_and_counted(caplog, flipped, left):
    fetcher = FlippedFetcher({A: [(0, 5), (5, 9), (9, 12)]}, flipped=flipped)

    found = read_ranges([OffsetRange(A, 0, 12)], fetcher, options(corruptBatches="skip"))
    assert [offset for batch in found for offset in batch.column("offset").to_pylist()] == list(left)
    assert caplog.text.count("corrupt batch skipped: offsets") == len(flipped)


def test_a_corrupt_batch_behind_the_range_is_nobodys_business():
    fetcher = FlippedFetcher({A: [(0, 5), (5, 9)]}, flipped={5})

    assert sum(batch.num_rows for batch in read_ranges([OffsetRange(A, 0, 5)], fetcher, options())) == 5


LAST_OFFSET_DELTA = 23
"""Of its four bytes, the first in the batch."""


@pytest.mark.parametrize("bit", [0x80, 0x10], ids=["before the range", "far behind it"])
def test_the_last_offset_of_a_corrupt_batch_is_not_believed(caplog, bit):
    """It seemed to lie outside of the range, and its records were left out in silence, or all that came
    behind.
    """

    def read(*logs, **extra):
        fetcher = FlippedFetcher({A: list(logs)}, flipped={5}, at=LAST_OFFSET_DELTA, bit=bit)
        found = read_ranges([OffsetRange(A, logs[0][0], logs[-1][1])], fetcher, options(**extra))
        return [offset for batch in found for offset in batch.column("offset").to_pylist()]

    between = [(0, 5), (5, 9), (9, 12)]
    for logs in (between, between[:2], between[1:2]):
        with pytest.raises(CorruptRecordsError, match="partition t-0 at offset 5 is invalid"):
            read(*logs)
        # How far it reaches is not known, so it cannot be skipped.
        with pytest.raises(
            CorruptRecordsError, match=r"partition t-0 at offset 5 is invalid[^;]*computed crc = \d+\.$"
        ):
            read(*logs, corruptBatches="skip")


def test_batches_that_are_too_large_together_are_said_to_be(monkeypatch):
    fetcher = FlippedFetcher({A: [(0, 500), (500, 1000)]}, flipped=set())
    monkeypatch.setattr(columnar, "DECODED_BYTES_MAX", 7000)

    with pytest.raises(ColumnarError, match=r"t-0 from offset 0: .*kafka\.max\.partition\.fetch\.bytes"):
        list(read_ranges([OffsetRange(A, 0, 1000)], fetcher, options()))


def test_no_batch_can_be_found_behind_a_header_that_is_none():
    magic = 16
    fetcher = FlippedFetcher({A: [(0, 5), (5, 9)]}, flipped={5}, at=magic)

    with pytest.raises(CorruptRecordsError, match="partition t-0 at offset 5 is invalid") as raised:
        list(read_ranges([OffsetRange(A, 0, 9)], fetcher, options(corruptBatches="skip")))
    assert "corruptBatches" not in str(raised.value)

"""Log directories as the older part of a stream: each record once, whichever batches and whatever is left at
the brokers.
"""

import shutil

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, uuid_text
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.index import OffsetIndex
from barnabas.log.partition_metadata import write_topic_id
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.spark.errors import CorruptBatchError, DataLossError, OffsetError, OptionError
from barnabas.spark.logs.backfill import Backfill, BackfilledCatalog, read_parts
from barnabas.spark.offsets import EARLIEST, LATEST, SourceOffset
from barnabas.spark.options import source_options
from barnabas.spark.planner import FoundTopics, Planner
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.source import StreamTopicReader
from barnabas.spark.stream import TopicStream

TP = TopicPartition("t", 0)
SEGMENT = 40
"""Offsets in a segment; a batch has 5."""
LAST = 3 * SEGMENT


def options(logs, **more):
    texts = {
        "kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "startingOffsets": "earliest",
        "backfillLogs": str(logs), **more,
    }  # fmt: skip
    return source_options(texts, streaming=True, quiet=True)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Three segments with indexes, up to LAST."""
    folder = tmp_path_factory.mktemp("logs") / "t-0"
    folder.mkdir()
    for base in range(0, LAST, SEGMENT):
        data, index = b"", b""
        for start in range(base, base + SEGMENT, 5):
            offsets = range(start, start + 5)
            records = [Record(one, 1_700_000_000_000 + one, None, b"x" * 50) for one in offsets]
            if start > base:
                index += OffsetIndex.ENTRY.pack(start + 4 - base, len(data))
            data += build_batch(records)
        (folder / f"{base:020d}.log").write_bytes(data)
        (folder / f"{base:020d}.index").write_bytes(index)
    return folder.parent


class Brokers:
    """A topic that ends at `end`, of which the brokers have what is behind `first`."""

    def __init__(self, first, end, policy="delete"):
        self.first, self.end, self.policy = first, end, policy
        self.ids, self.asked = {}, 0
        self.topic_ids = {}

    def topics(self, _options):
        return FoundTopics({TP}, self.ids)

    def offsets(self, wanted):
        return {tp: self.first if time == EARLIEST else self.end for tp, time in wanted.items()}

    def committed(self, _group, _partitions):
        return {}

    def is_compacted(self, topic):
        self.asked += 1
        if isinstance(self.policy, Exception):
            raise self.policy
        return "compact" in self.policy


def read(parts, how):
    found = list(read_parts(parts, how))
    return pa.Table.from_batches(found)["offset"].to_pylist() if found else []


@settings(max_examples=30, deadline=None)
@given(first=st.integers(0, LAST + 10), limit=st.integers(1, 70))
def test_each_record_comes_once_in_its_order(logs, first, limit):
    how, end = options(logs), LAST + 30
    backfill = Backfill(how)
    stream = TopicStream(
        how, Planner(how, BackfilledCatalog(Brokers(min(first, LAST), end), backfill)), lambda: 0
    )
    stream.stop_at_latest()
    at, seen = {}, []
    while (behind := stream.next_end(at, limit)) != at:
        ranges = stream.ranges(at, behind)
        parts, left = Backfill(how).split(ranges)  # as behind a restart
        seen += read(parts, how)
        assert all(one.start >= LAST for one in left if one.size)
        seen += [offset for one in left for offset in range(one.start, one.end)]
        at = behind
    assert seen == list(range(end))


@settings(max_examples=50, deadline=None)
@given(start=st.integers(0, LAST - 1), size=st.integers(1, LAST))
def test_a_range_opens_no_more_of_the_files_than_the_index_says(logs, start, size):
    how, end = options(logs), min(start + size, LAST)
    parts, left = Backfill(how).split([OffsetRange(TP, start, end)])
    assert read(parts, how) == list(range(start, end))
    assert left == [OffsetRange(TP, end, end)]
    batch = parts[0].piece.segment.size * 5 // SEGMENT
    # A batch at each end that is not whole, and one before it, as an entry says where a batch ends.
    assert sum(part.piece.size for part in parts) <= ((end - start) // 5 + 4) * batch


def test_offsets_that_neither_has_are_left_to_the_brokers_who_say_so(logs):
    how = options(logs)
    parts, left = Backfill(how).split([OffsetRange(TP, 100, LAST + 5), OffsetRange(TP, LAST, LAST + 5)])
    assert read(parts, how) == list(range(100, LAST))
    assert left == [OffsetRange(TP, LAST, LAST + 5)] * 2


@pytest.fixture
def copy_with_a_gap(logs, tmp_path):
    """Without the middle segment."""
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    (copy / "t-0" / f"{SEGMENT:020d}.log").unlink()
    return copy


def test_what_was_not_copied_is_read_from_the_brokers(copy_with_a_gap, caplog):
    """A middle segment that is missing was a gap of which nobody said anything."""
    how = options(copy_with_a_gap)
    for start, end in ((10, LAST + 5), (SEGMENT - 1, SEGMENT + 1), (SEGMENT + 3, 2 * SEGMENT - 3)):
        catalog = BackfilledCatalog(Brokers(0, LAST + 5), Backfill(how))
        parts, gaps, left = catalog.split([OffsetRange(TP, start, end)])
        seen = [*read(parts, how), *(at for one in gaps + left for at in range(one.start, one.end))]
        assert sorted(seen) == list(range(start, end))
        gap = max(start, SEGMENT), min(end, 2 * SEGMENT)
        assert gaps == [OffsetRange(TP, *gap)]
        assert f"no log directory has the offsets {gap[0]} to {gap[1] - 1} of t-0" in caplog.text


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("delete", ""),
        (
            KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            "Whether t is compacted is not known: Topic authorization failed.",
        ),
    ],
)
def test_a_gap_that_the_brokers_lack_too_is_lost_data(copy_with_a_gap, policy, more, caplog):
    """Also where a broker does not say whether the topic is compacted."""
    first, wanted = SEGMENT + 10, [OffsetRange(TP, 10, LAST + 5)]
    catalog = BackfilledCatalog(Brokers(first, LAST + 5, policy), Backfill(options(copy_with_a_gap)))
    with pytest.raises(DataLossError) as caught:
        catalog.split(wanted)
    words = (
        f"No log directory has the offsets {SEGMENT} to {first - 1} of t-0, and the brokers begin at {first}"
    )
    assert f"{words}. A newer copy of the partition's directory may have them." in str(caught.value)
    assert more in str(caught.value)

    how = options(copy_with_a_gap, failOnDataLoss="false")
    parts, gaps, _ = BackfilledCatalog(Brokers(first, LAST + 5, policy), Backfill(how)).split(wanted)
    assert gaps == [OffsetRange(TP, first, 2 * SEGMENT)]
    assert len(read(parts, how)) == LAST - SEGMENT - 10
    assert words in caplog.text


@pytest.mark.parametrize("first", [0, SEGMENT + 10, LAST])
def test_a_gap_of_a_compacted_topic_is_a_hole_where_the_brokers_have_nothing(copy_with_a_gap, first, caplog):
    """The end of a compacted segment looked like a file that was not copied."""
    brokers = Brokers(first, LAST + 5, "compact,delete")
    catalog = BackfilledCatalog(brokers, Backfill(options(copy_with_a_gap)))
    for start, end in ((10, SEGMENT + 20), (SEGMENT + 20, LAST + 5)):  # two batches
        _, gaps, left = catalog.split([OffsetRange(TP, start, end)])
        gap = max(start, SEGMENT, first), min(end, 2 * SEGMENT)
        assert [one for one in gaps if one.size] == [OffsetRange(TP, *gap)] * (gap[1] > gap[0])
        assert left == [OffsetRange(TP, min(end, LAST), end)]
    (told,) = caplog.messages
    assert (
        f"t is compacted: what log directories lack between their segments, first the offsets {SEGMENT}"
        in told
    )
    assert brokers.asked == 1


def test_what_lies_between_the_directories_and_the_brokers_is_lost_data(logs):
    """Of a compacted topic too: more likely a copy is old than the last records were removed."""
    catalog = BackfilledCatalog(Brokers(LAST + 7, LAST + 9, "compact"), Backfill(options(logs)))
    with pytest.raises(
        DataLossError, match=rf"the offsets {LAST} to {LAST + 6} of t-0, and the brokers begin"
    ):
        catalog.split([OffsetRange(TP, 3, LAST + 9)])


def test_gaps_are_read_by_tasks_of_their_own(copy_with_a_gap, monkeypatch):
    """In one task with what lies behind, the gap's records were left out."""
    monkeypatch.setattr("barnabas.spark.kafka.KafkaCatalog", lambda _: Brokers(0, LAST + 5))
    reader = StreamTopicReader(options(copy_with_a_gap, tasksPerBatch="1"))
    begin, end = (SourceOffset({TP: at}).encode() for at in (10, LAST + 5))
    assert [task.ranges for task in reader.partitions(begin, end) if not task.parts] == [
        [OffsetRange(TP, SEGMENT, 2 * SEGMENT)],
        [OffsetRange(TP, LAST, LAST + 5)],
    ]


def test_segments_that_overlap_give_each_record_once(logs, tmp_path):
    """A copy that is made while a broker compacts may have a merged segment beside one of its sources."""
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    first, second = (copy / "t-0" / f"{n * SEGMENT:020d}.log" for n in (0, 1))
    half = second.stat().st_size // 2  # of batches that are alike
    first.write_bytes(first.read_bytes() + second.read_bytes()[:half])
    parts, left = Backfill(options(copy)).split([OffsetRange(TP, 3, 3 * SEGMENT)])
    assert read(parts, options(copy)) == list(range(3, 3 * SEGMENT))
    assert not any(one.size for one in left)


def test_a_last_segment_that_retention_removes_meanwhile_is_read_from_the_brokers(logs, tmp_path):
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    backfill = Backfill(options(copy))
    begin, end = backfill.spans()[TP]
    last = max((copy / "t-0").glob("*.log"))
    last.unlink()
    parts, left = backfill.split([OffsetRange(TP, begin, end)])
    there = read(parts, options(copy))
    assert there == list(range(begin, int(last.stem)))
    assert [at for one in left for at in range(one.start, one.end)] == list(range(int(last.stem), end))


@pytest.mark.parametrize(
    ("first", "end", "found", "is_known"),
    [
        (50, 200, 60, True),
        (50, 200, 50, False),  # the directories may have older ones of that time
        (50, 200, -1, True),  # the brokers' records are older, so are those of the directories
        (200, 200, -1, False),  # the brokers have none
        (0, 200, 0, True),
    ],
)
def test_a_time_of_which_the_directories_may_have_the_first_record_is_refused(
    logs, monkeypatch, first, end, found, is_known
):
    brokers = Brokers(first, end)
    by_kind = {EARLIEST: first, LATEST: end}
    monkeypatch.setattr(brokers, "offsets", lambda wanted: {
        tp: by_kind.get(time, found) for tp, time in wanted.items()
    })  # fmt: skip
    catalog = BackfilledCatalog(brokers, Backfill(options(logs)))
    if is_known:
        assert catalog.offsets({TP: 1_700_000_000_000}) == {TP: found}
        return
    with pytest.raises(OffsetError, match="the first record of t-0 of that time may be in the log dir"):
        catalog.offsets({TP: 1_700_000_000_000})


def test_what_delete_records_has_taken_does_not_come_back(logs, tmp_path):
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    (copy / "log-start-offset-checkpoint").write_text("0\n1\nt 0 50\n")
    how = options(copy)
    catalog = BackfilledCatalog(Brokers(100, LAST), Backfill(how))
    assert catalog.offsets({TP: EARLIEST}) == {TP: 50}


def test_a_directory_of_another_topic_of_that_name_is_refused(logs, tmp_path):
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    write_topic_id(OsFilesystem(), str(copy / "t-0"), bytes([1] * 16))
    brokers = Brokers(0, LAST)
    catalog = BackfilledCatalog(brokers, Backfill(options(copy)))
    brokers.ids = {"t": uuid_text(bytes([1] * 16))}
    catalog.topics(options(copy))
    brokers.ids = {"t": uuid_text(bytes([2] * 16))}
    with pytest.raises(OptionError, match="its offsets mean other records"):
        catalog.topics(options(copy))


def test_damage_and_files_that_shrink_end_the_read(logs, tmp_path):
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    parts, _ = Backfill(options(copy)).split([OffsetRange(TP, 0, LAST)])
    path = copy / "t-0" / f"{SEGMENT:020d}.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptBatchError):
        read(parts, options(copy))
    assert len(read(parts, options(copy, corruptBatches="skip"))) == LAST - 5
    path.write_bytes(data[:-1])
    with pytest.raises(OSError, match="has become shorter"):
        read(parts, options(copy))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets must be earliest"),
        ({"kafka.isolation.level": "read_committed"}, "read_committed"),
        ({"backfillLogs": " , "}, "must be log directories"),
    ],
)
def test_what_does_not_go_together_is_refused(logs, more, words):
    with pytest.raises(OptionError, match=words):
        options(logs, **more)


def test_a_path_that_is_no_log_directory_is_one_line(tmp_path):
    with pytest.raises(OptionError, match="is neither a log directory nor"):
        Backfill(options(tmp_path)).spans()

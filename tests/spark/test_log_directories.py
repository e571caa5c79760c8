"""``barnabas-log`` without Spark:
what is found in directories, cut into tasks, read and reported as damaged.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from barnabas.core.ids import TopicPartition
from barnabas.log.index import OffsetIndex
from barnabas.records.batch import HEADER_SIZE, build_batch, parse_header
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.spark.errors import CorruptBatchError, OptionError
from barnabas.spark.logs import stretches
from barnabas.spark.logs.options import log_options
from barnabas.spark.logs.segments import find_segments, plan_tasks
from barnabas.spark.logs.views import read_pieces

GOLDEN = Path(__file__).parents[1] / "golden" / "logdir" / "broker0"
"""What a genuine Kafka 3.9 wrote."""


def rows(path, **given):
    options = log_options({"path": str(path), **given})
    tasks = plan_tasks(find_segments(options), options)
    found = [batch for task in tasks for batch in read_pieces(task, options)]
    return pa.Table.from_batches(found).to_pylist() if found else []


def batch_of(start, count, **extra):
    records = [
        Record(offset, 1_700_000_000_000 + offset, b"k", b"v%d" % offset)
        for offset in range(start, start + count)
    ]
    return build_batch(records, **extra)


@pytest.fixture
def partition(tmp_path):
    """Writes segments of a partition `t-0`: by base offset, a list of batches; the log directory."""

    def write(segments, topic="t-0"):
        folder = tmp_path / "logs" / topic
        folder.mkdir(parents=True)
        for base_offset, batches in segments.items():
            (folder / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
        return folder.parent

    return write


def segment_file(directory, base_offset=0):
    return directory / "t-0" / f"{base_offset:020d}.log"


def change(path, position, data):
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def offsets(found):
    return [row["offset"] for row in found]


@pytest.mark.parametrize("topic", ["plain", "gz", "sn", "lz", "zs"])
def test_records_that_kafka_wrote(topic):
    found = rows(GOLDEN, subscribe=topic, includeHeaders="true")
    batches = rows(GOLDEN, subscribe=topic, view="batches")
    (segment,) = rows(GOLDEN, subscribe=topic, view="segments")

    assert offsets(found) == list(range(len(found)))
    assert sum(batch["count"] for batch in batches) == segment["records"] == len(found) > 0
    assert {batch["codec"] for batch in batches} <= {"none", "gzip", "snappy", "lz4", "zstd"}
    assert all(batch["isValid"] for batch in batches)
    assert segment["batches"] == len(batches)
    assert segment["sizeInBytes"] == sum(batch["sizeInBytes"] for batch in batches)
    assert segment["tornBytes"] == segment["corruptBatches"] == 0


def test_markers_are_batches_and_no_records():
    batches = rows(GOLDEN, subscribe="txn", view="batches")
    control = [batch for batch in batches if batch["isControl"]]

    assert control
    assert all(batch["isTransactional"] and batch["producerId"] >= 0 for batch in control)
    data = sum(batch["count"] for batch in batches if not batch["isControl"])
    assert len(rows(GOLDEN, subscribe="txn")) == data


def test_a_batch_shows_its_header(partition):
    batch = batch_of(
        40,
        3,
        codec=Codec.ZSTD,
        producer_id=7,
        producer_epoch=2,
        base_sequence=5,
        leader_epoch=4,
        transactional=True,
    )
    (row,) = rows(partition({40: [batch]}), view="batches")

    header = parse_header(batch)
    assert {name: row[name] for name in ("topic", "partition", "segment", "position")} == {
        "topic": "t", "partition": 0, "segment": 40, "position": 0,
    }  # fmt: skip
    assert (row["baseOffset"], row["lastOffset"], row["count"], row["sizeInBytes"]) == (40, 42, 3, len(batch))
    assert (row["producerId"], row["producerEpoch"], row["baseSequence"], row["leaderEpoch"]) == (7, 2, 5, 4)
    assert (row["codec"], row["isTransactional"], row["isControl"], row["crc"]) == (
        "zstd",
        True,
        False,
        header.crc,
    )
    assert row["maxTimestamp"].timestamp() == pytest.approx(1_700_000_000.042)
    assert row["deleteHorizon"] is None


@pytest.mark.parametrize("time_ms", [0, 1, 1_700_000_000_042])
def test_a_segment_says_the_newest_time_of_its_records_from_1970_on(partition, time_ms):
    directory = partition({0: [build_batch([Record(0, time_ms, b"k", b"v")])]})
    for view in ("segments", "batches"):
        (row,) = rows(directory, view=view)
        assert row["maxTimestamp"].timestamp() * 1000 == pytest.approx(time_ms), view


def test_directories_are_found_by_what_kafka_calls_them(partition, tmp_path):
    for name in ("a-b-0", "a-b-1", "gone-0.0123456789abcdef0123456789abcdef-delete", "t-0.ff-future"):
        partition({0: [batch_of(0, 1)]}, name)
    directory = tmp_path / "logs"
    (directory / "meta.properties").write_text("version=0\n")

    assert {(row["topic"], row["partition"]) for row in rows(directory)} == {("a-b", 0), ("a-b", 1)}
    assert len(rows(directory / "a-b-1")) == 1, "a partition's own directory will do"
    assert len(rows(f"{directory / 'a-b-0'},{directory / 'a-b-1'}")) == 2, "as in log.dirs"
    assert rows(directory, subscribePattern="c.*") == []


def test_of_two_replicas_the_one_that_reaches_farthest_is_read(partition, tmp_path):
    """The logs of two brokers: a follower that is behind must not double the records."""
    leader = partition({0: [batch_of(0, 4)], 4: [batch_of(4, 4), batch_of(8, 2)]})
    follower = leader.rename(tmp_path / "other")
    leader = partition({0: [batch_of(0, 4)], 4: [batch_of(4, 4)]})
    both = f"{leader},{follower}"

    assert offsets(rows(both)) == list(range(10))
    assert len(rows(both, view="segments")) == 4, "both take space"


def test_a_replica_may_reach_farther_in_an_older_segment(partition, tmp_path):
    """Replicas roll at offsets of their own; a torn tail does not reach at all."""
    farther = partition({0: [batch_of(0, 4), batch_of(4, 11)]}).rename(tmp_path / "other")
    newer = partition({0: [batch_of(0, 10)], 10: [batch_of(10, 1), batch_of(11, 90)[:-1]]})

    assert offsets(rows(f"{newer},{farther}")) == list(range(15))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs the log directories"),
        ({"path": "/x", "view": "rows"}, "must be records or batches or segments"),
        ({"path": "/x", "corruptBatches": "keep"}, "must be fail or skip"),
        ({"path": "/x", "subscribe": "a", "subscribePattern": "b"}, "Only one of"),
        ({"path": "/x", "subscribePattern": "("}, "not a regular expression"),
        ({"path": "/x", "bytesPerTask": "many"}, "expected bytes"),
        ({"path": "/x", "kafka.bootstrap.servers": "h:1"}, "has no option kafka.bootstrap.servers"),
    ],
)
def test_wrong_options(given, words):
    with pytest.raises(OptionError, match=words):
        log_options(given)


def test_a_path_without_logs_is_refused(tmp_path):
    with pytest.raises(OptionError, match="neither a log directory"):
        rows(tmp_path)
    with pytest.raises(OptionError, match="is not a directory"):
        rows(tmp_path / "nowhere")


@pytest.mark.parametrize("tail", [batch_of(9, 3)[:-1], batch_of(9, 3)[:20], bytes(500)])
def test_a_torn_tail_is_left_out_and_counted(partition, tail, caplog):
    directory = partition({0: [batch_of(0, 4)], 4: [batch_of(4, 5), tail]})

    assert offsets(rows(directory)) == list(range(9))
    assert "a torn tail skipped" in caplog.text
    assert f"{len(tail)} bytes" in caplog.text
    assert [row["tornBytes"] for row in rows(directory, view="segments")] == [0, len(tail)]
    caplog.clear()
    assert [row["count"] for row in rows(directory, view="batches")] == [4, 5]
    assert "a torn tail skipped" in caplog.text


def test_what_is_torn_in_an_older_segment_is_corrupt(partition):
    directory = partition({0: [batch_of(0, 4), batch_of(4, 5)[:-1]], 9: [batch_of(9, 1)]})

    with pytest.raises(CorruptBatchError, match="at offset 4: the file ends inside a batch"):
        rows(directory)
    assert offsets(rows(directory, corruptBatches="skip")) == [0, 1, 2, 3, 9]
    first, second = rows(directory, view="segments")
    assert (first["corruptBatches"], first["corruptBytes"]) == (1, len(batch_of(4, 5)) - 1)
    assert (second["corruptBatches"], first["tornBytes"]) == (0, 0)


def test_a_batch_with_a_wrong_checksum(partition, caplog):
    batches = [batch_of(0, 4), batch_of(4, 4), batch_of(8, 4)]
    directory = partition({0: batches})
    position = len(batches[0])
    change(segment_file(directory), position + len(batches[1]) - 1, b"\x55")

    with pytest.raises(CorruptBatchError) as caught:
        rows(directory)
    assert f"offset 4: stored crc = {parse_header(batches[1]).crc}" in str(caught.value)
    assert f"file {segment_file(directory)}, position {position}" in str(caught.value)

    assert offsets(rows(directory, corruptBatches="skip")) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert f"corrupt batches skipped: 1 of {len(batches[1])} bytes" in caplog.text
    assert [row["isValid"] for row in rows(directory, view="batches")] == [True, False, True]
    (segment,) = rows(directory, view="segments")
    assert (segment["corruptBatches"], segment["corruptBytes"], segment["records"]) == (1, len(batches[1]), 8)


@pytest.mark.parametrize(
    ("at", "data", "words"),
    [
        (8, b"\x00\x00\x00\x05", "shorter than its own header"),
        (16, b"\x01", "message format 0 or 1"),
        (8, b"\x7f\xff\xff\xff", "a batch of 2147483659 bytes"),
    ],
)
@pytest.mark.parametrize("first_wrong", [0, 1])
def test_a_header_that_is_none_ends_the_segment(partition, at, data, words, first_wrong, monkeypatch):
    monkeypatch.setattr(stretches, "STRETCH_BYTES", 1000)
    batches = [batch_of(0, 4), batch_of(4, 4), batch_of(8, 400)]
    directory = partition({0: batches, 408: [batch_of(408, 2)]})
    good = sum(map(len, batches[:first_wrong]))
    change(segment_file(directory), good + at, data)

    with pytest.raises(CorruptBatchError, match=f"offset {4 * first_wrong}: .*{words}"):
        rows(directory)
    assert offsets(rows(directory, corruptBatches="skip")) == [*range(4 * first_wrong), 408, 409]
    corrupt_bytes = rows(directory, view="segments")[0]["corruptBytes"]
    assert corrupt_bytes == sum(map(len, batches)) - good


def test_records_that_lie_under_a_right_checksum(partition):
    lie = bytearray(batch_of(4, 4))
    lie[HEADER_SIZE] = 0x7E  # the length of the first record
    from barnabas.records.batch import compute_crc

    lie[17:21] = compute_crc(bytes(lie), parse_header(lie)).to_bytes(4, "big")
    directory = partition({0: [batch_of(0, 4), bytes(lie), batch_of(8, 4)]})

    with pytest.raises(CorruptBatchError, match="offset 4"):
        rows(directory)
    assert offsets(rows(directory, corruptBatches="skip")) == [0, 1, 2, 3, 8, 9, 10, 11]


def test_batches_larger_than_a_stretch(partition, monkeypatch):
    monkeypatch.setattr(stretches, "STRETCH_BYTES", 200)
    directory = partition({0: [batch_of(start, 50) for start in range(0, 500, 50)]})

    assert offsets(rows(directory)) == list(range(500))


def indexed(directory, batches, base_offset=0):
    """An offset index with an entry for each batch."""
    position, entries = 0, b""
    for batch in batches:
        entries += OffsetIndex.ENTRY.pack(parse_header(batch).last_offset - base_offset, position)
        position += len(batch)
    return entries


def pieces(directory, **given):
    options = log_options({"path": str(directory), **given})
    return plan_tasks(find_segments(options), options)


def test_a_large_segment_is_cut_where_batches_begin(partition):
    batches = [batch_of(start, 10) for start in range(0, 1000, 10)]
    directory = partition({0: batches})
    index = segment_file(directory).with_suffix(".index")
    index.write_bytes(indexed(directory, batches) + bytes(80))
    size = segment_file(directory).stat().st_size

    tasks = pieces(directory, bytesPerTask=str(size // 4))

    assert len(tasks) == 4
    assert max(sum(piece.size for piece in task) for task in tasks) < size // 3
    assert sorted(offsets(rows(directory, bytesPerTask=str(size // 4)))) == list(range(1000))
    assert len(rows(directory, bytesPerTask=str(size // 4), view="segments")) == 1


def test_an_index_that_lies_is_not_believed(partition):
    batches = [batch_of(start, 10) for start in range(0, 1000, 10)]
    directory = partition({0: batches})
    entries = [OffsetIndex.ENTRY.pack(offset, offset * 7 + 1) for offset in range(100)]
    segment_file(directory).with_suffix(".index").write_bytes(b"".join(entries))

    assert offsets(rows(directory, bytesPerTask="1k")) == list(range(1000))


def test_small_segments_share_tasks(partition):
    directory = partition({start: [batch_of(start, 10)] for start in range(0, 100, 10)})
    size = sum(path.stat().st_size for path in (directory / "t-0").glob("*.log"))

    tasks = pieces(directory, bytesPerTask=str(size // 3))

    assert sorted(len(task) for task in tasks) == [2, 2, 3, 3]
    assert len(pieces(directory)) == 1
    assert pieces(directory)[0][0].tp == TopicPartition("t", 0)


def test_an_interrupted_compaction_is_not_guessed_at(partition):
    directory = partition({0: [batch_of(0, 4)], 4: [batch_of(4, 4)]})
    shutil.copy(segment_file(directory), f"{segment_file(directory)}.swap")

    with pytest.raises(OptionError, match="compaction that was interrupted"):
        rows(directory)
    assert len(rows(directory, corruptBatches="skip")) == 8

"""A directory that a genuine Kafka 3.9 wrote: we read it, recover it and close it as it was."""

import shutil
import struct
from pathlib import Path

import pytest
from log_world import World

from barnabas.core.ids import TopicPartition, uuid_text
from barnabas.core.slices import in_one_piece
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.scan import scan_segment
from barnabas.records.batch import batch_headers, decode_batch
from barnabas.records.compression import Codec

GOLDEN = Path(__file__).parents[1] / "golden" / "logdir" / "broker0"
CLUSTER = "4E7wk8apSBGD1cEJr3XB2g"
TOPICS = {"plain": Codec.NONE, "gz": Codec.GZIP, "sn": Codec.SNAPPY, "lz": Codec.LZ4, "zs": Codec.ZSTD}


@pytest.fixture
def directory(tmp_path):
    return Path(shutil.copytree(GOLDEN, tmp_path / "broker0"))


@pytest.fixture
def opened(directory):
    """A manager of the copy; closed at the end if the test did not."""
    world = World(OsFilesystem(), str(directory))
    manager = world.manager()
    manager.start(broker_id=0, cluster_id=CLUSTER).result()
    return manager


def contents(directory, *suffixes):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name.endswith(suffixes)
    }


def records_of(log):
    records = []
    offset = log.log_start_offset
    while len(result := log.read(offset, 1 << 20, min_one_message=True)):
        data = result.records.read()
        for header in batch_headers(data):
            records += decode_batch(data, header.position)
            offset = header.next_offset
    return records


def test_every_partition_opens_with_its_offsets(opened, directory):
    ends = {(tp.topic, tp.partition): log.log_end_offset for tp, log in opened.logs.items()}

    assert len(ends) == 21
    lines = (directory / "recovery-point-offset-checkpoint").read_text().splitlines()[2:]
    for topic, partition, offset in (line.split() for line in lines):
        log = opened.get(TopicPartition(topic, int(partition)))
        assert log.log_end_offset == log.recovery_point == log.high_watermark == int(offset)
    assert uuid_text(opened.get(TopicPartition("t1", 0)).topic_id) == "JP4_xCoqTmOPbCMIbTouVA"


def test_every_codec_holds_the_same_kind_of_records(opened):
    for topic, codec in TOPICS.items():
        log = opened.get(TopicPartition(topic, 0))
        records = records_of(log)
        header = next(batch_headers(log.read(0, 1000).records.read()))
        assert header.codec is codec
        assert [record.offset for record in records] == list(range(log.log_end_offset))
    first, second = records_of(opened.get(TopicPartition("plain", 0)))[:2]
    assert first == (0, 1_700_000_000_000, b"k0", b"value-0value-0value-0", ())
    assert (second.key, second.value, [name for name, _ in second.headers]) == (
        b"k1",
        b"value-1value-1value-1",
        ["h", "n"],
    )


def test_segments_indexes_and_times_agree(opened):
    log = opened.get(TopicPartition("small", 0))
    records = records_of(log)

    assert [segment.base_offset for segment in log.segments] == [0, 20, 39, 58]
    assert [record.offset for record in records] == list(range(60))
    for record in records:
        found = in_one_piece(log.offset_for_timestamp(record.timestamp))
        assert (found.offset, found.timestamp) == (record.offset, record.timestamp)


def test_transactions_are_known(opened):
    log = opened.get(TopicPartition("txn", 0))
    (aborted,) = log.aborted_transactions(0, 12)

    assert log.last_stable_offset == 12
    assert aborted.first_offset < aborted.last_offset < 12
    assert len(log.producers) == 1


def test_closing_leaves_the_directory_as_it_was(opened, directory):
    before = contents(GOLDEN, "")
    opened.shutdown()
    after = contents(directory, "")

    changed = {name for name in after if after[name] != before.get(name)}
    ours = {name for name in changed if name.endswith(".batches")}
    assert ours == {"small-0/00000000000000000060.batches", "txn-0/00000000000000000012.batches"}
    assert {name for name in changed - ours if "/" in name} == set(), "not a byte of a partition differs"
    # The checkpoints list partitions in another order; the rest is equal.
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert sorted(after[name].splitlines()) == sorted(before[name].splitlines())
    assert after[".kafka_cleanshutdown"] == before[".kafka_cleanshutdown"]
    assert changed - ours <= {
        ".lock",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }


@pytest.mark.parametrize("without_indexes", [True, False])
def test_recovery_finds_the_same(directory, without_indexes):
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").unlink()
    if without_indexes:
        for path in [
            *directory.rglob("*.index"),
            *directory.rglob("*.timeindex"),
            *directory.rglob("*.txnindex"),
        ]:
            path.unlink()
    world = World(OsFilesystem(), str(directory))
    manager = world.manager()
    manager.start(broker_id=0, cluster_id=CLUSTER).result()
    ends = {str(tp): log.log_end_offset for tp, log in manager.logs.items()}
    manager.shutdown()

    assert contents(directory, ".log") == contents(GOLDEN, ".log")
    kinds = (".txnindex", ".snapshot", "epoch-checkpoint", "metadata")
    assert contents(directory, *kinds) == contents(GOLDEN, *kinds)
    assert ends["small-0"] == 60
    # `small` was written with index.interval.bytes=1, of which the default of 4096 keeps fewer entries.
    same = {name for name in contents(GOLDEN, "index") if not name.startswith("small-0/")}
    rebuilt, golden = contents(directory, "index"), contents(GOLDEN, "index")
    assert {name: rebuilt[name] for name in same} == {name: golden[name] for name in same}


@pytest.mark.parametrize("base", [0, 20, 39, 58])
def test_a_scan_makes_kafkas_own_indexes_again(base):
    log = GOLDEN / "small-0" / f"{base:020d}.log"
    scan = scan_segment(OsFilesystem().open(str(log)), base, interval=1)
    entries = list(struct.iter_unpack(">ii", scan.index))
    times = list(struct.iter_unpack(">qi", scan.time_index))
    written = list(struct.iter_unpack(">ii", log.with_suffix(".index").read_bytes()))
    written_times = list(struct.iter_unpack(">qi", log.with_suffix(".timeindex").read_bytes()))

    assert scan.is_whole
    if base == 0:
        # Some of its appends were of several batches, for which the live path makes one entry and recovery
        # each.
        assert (len(entries), len(written)) == (19, 14)
        entries = [entry for entry in entries if entry in written]
        times = [entry for entry in times if entry in written_times]
    assert entries == written
    assert times == written_times

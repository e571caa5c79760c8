"""Kafka's own eyes on log directories that the log alone wrote, without a broker around it."""

import re
from pathlib import Path

import pytest

from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.manager import LogManager
from barnabas.log.producers import AppendOrigin
from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

NOW_MS = 1_700_000_000_000
COMPLAINTS = re.compile(
    r"mismatch|Mismatch|Misses|Indexed offset|Index timestamp|isvalid: false|xception|orrupt"
)


class StillClock:
    def time_ms(self):
        return NOW_MS

    def monotonic_ms(self):
        return 0.0

    def call_later(self, delay_ms, callback):
        pass

    def call_soon(self, callback):
        pass


def manager_of(directory: Path) -> LogManager:
    config = LogConfig(segment_bytes=2048, index_interval_bytes=256)
    manager = LogManager(
        [str(directory)],
        filesystem=OsFilesystem(),
        clock=StillClock(),
        offload=InPlace(),
        log_config=lambda topic: config,
    )
    manager.start(broker_id=1, cluster_id="4E7wk8apSBGD1cEJr3XB2g").result()
    return manager


def write(log):
    """Every codec, times out of order, null keys and values, headers, an aborted and a committed transaction."""
    for number in range(150):
        records = [
            Record(
                place,
                NOW_MS + (number * 7919 + place) % 5000,
                None if place % 5 == 0 else b"k%d" % place,
                None if place % 7 == 3 else bytes(place),
                [("header", b"x"), ("null", None)] if place % 2 else (),
            )
            for place in range(1 + number % 9)
        ]
        log.append(bytearray(build_batch(records, codec=Codec(number % 5))), number // 40, NOW_MS)
    for sequence, kind in enumerate((ControlType.ABORT, ControlType.COMMIT)):
        data = build_batch(
            [Record(0, NOW_MS, b"t", b"v")],
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        log.append(bytearray(data), 4, NOW_MS)
        marker = build_marker(
            EndTransactionMarker(kind, 1), timestamp=NOW_MS, producer_id=7, producer_epoch=0
        )
        log.append(bytearray(marker), 4, NOW_MS, origin=AppendOrigin.COORDINATOR)


@pytest.fixture(scope="module", params=["closed", "recovered"])
def partition(request, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("written")
    manager = manager_of(root)
    write(manager.get_or_create(TopicPartition("dumped", 0), b"0123456789abcdef"))
    manager.shutdown(clean=request.param == "closed")
    if request.param == "recovered":
        with max((root / "dumped-0").glob("*.log")).open("ab") as file:
            file.write(b"\0" * 100)
        manager_of(root).shutdown()
    return root / "dumped-0"


def dumped(kafka_tool, files, *options):
    names = ",".join(str(file) for file in sorted(files))
    done = kafka_tool("kafka-dump-log", "--files", names, *options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert [line for line in (done.stdout + done.stderr).splitlines() if COMPLAINTS.search(line)] == []
    return done.stdout


def test_batches_and_records(kafka_tool, partition):
    text = dumped(kafka_tool, partition.glob("*.log"), "--deep-iteration", "--print-data-log")
    offsets = [int(number) for number in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]

    assert len(list(partition.glob("*.log"))) > 3
    assert offsets == list(range(sum(1 + number % 9 for number in range(150)) + 4))
    assert set(re.findall(r"compresscodec: (\w+)", text)) == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert re.findall(r"endTxnMarker: (\w+)", text) == ["ABORT", "COMMIT"]


def test_indexes(kafka_tool, partition):
    indexes = [*partition.glob("*.index"), *partition.glob("*.timeindex")]
    text = dumped(kafka_tool, indexes, "--index-sanity-check")
    assert text.count("passed sanity check") == len(indexes)
    dumped(kafka_tool, indexes, "--deep-iteration", "--verify-index-only")


def test_transactions_and_snapshots(kafka_tool, partition):
    text = dumped(kafka_tool, [*partition.glob("*.txnindex"), *partition.glob("*.snapshot")])

    assert len(re.findall(r"version: 0 producerId: 7 firstOffset", text)) == 1
    assert re.search(r"producerId: 7 producerEpoch: 0 coordinatorEpoch: 1", text)

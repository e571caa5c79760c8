"""Kafka's own eyes on log directories that the log alone wrote, and our `dump-log` beside its tool."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.manager import LogManager
from barnabas.log.producers import AppendOrigin
from barnabas.protocol import consumer_protocol
from barnabas.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.protocol.coordinator import consumer_group
from barnabas.protocol.coordinator.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record
from standing_clock import Clock

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

NOW_MS = 1_700_000_000_000
INDEXES = (".index", ".timeindex")
GOLDEN = Path(__file__).parent.parent / "golden" / "logdir" / "broker0"
COMPLAINTS = re.compile(
    r"mismatch|Mismatch|Misses|Indexed offset|Index timestamp|isvalid: false|xception|orrupt"
)


def manager_of(directory: Path) -> LogManager:
    config = LogConfig(segment_bytes=2048, index_interval_bytes=256)
    manager = LogManager(
        [str(directory)],
        filesystem=OsFilesystem(),
        clock=Clock(),
        offload=InPlace(),
        log_config=lambda topic: config,
    )
    manager.start(broker_id=1, cluster_id="4E7wk8apSBGD1cEJr3XB2g").result()
    return manager


def write(log):
    """Every codec, times out of order, null keys and values, headers, an aborted and a committed
    transaction.
    """
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


# Our tool beside Kafka's


@pytest.fixture
def same_lines(kafka_tool):
    """Both tools over the same files: the same lines on stdout and stderr. Returns those of stdout."""

    def run(files, *options):
        arguments = ["--files", ",".join(map(str, sorted(files))), *options]
        theirs = kafka_tool("kafka-dump-log", *arguments)
        command = [sys.executable, "-m", "barnabas", "dump-log", *arguments]
        ours = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)
        assert ours.stdout.splitlines() == theirs.stdout.splitlines()
        return ours.stdout.splitlines()

    return run


def golden(*patterns):
    return [path for pattern in patterns for path in GOLDEN.glob(pattern)]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--print-data-log",),
        ("--deep-iteration", "--max-bytes", "300"),
        ("--print-data-log", "--skip-record-metadata"),
        ("--key-decoder-class", "--value-decoder-class", "kafka.serializer.StringDecoder"),
    ],
    ids=" ".join,
)
def test_same_lines_of_logs_that_kafka_wrote(same_lines, options):
    assert len(same_lines(golden("*/*.log"), *options)) > 100


def test_same_lines_of_logs_that_we_wrote(same_lines, partition):
    assert len(same_lines(partition.glob("*.log"), "--deep-iteration", "--print-data-log")) > 800
    same_lines([*partition.glob("*.index"), *partition.glob("*.timeindex")])
    same_lines([*partition.glob("*.txnindex"), *partition.glob("*.snapshot")])


@pytest.mark.parametrize("options", [(), ("--verify-index-only",), ("--index-sanity-check",)], ids=" ".join)
def test_same_lines_of_indexes_that_kafka_wrote(same_lines, options):
    # Kafka's tool falls over the index of a log without a batch.
    full = {log.with_suffix(suffix) for log in golden("*/*.log") if log.stat().st_size for suffix in INDEXES}
    same_lines([*full, *golden("*/*.snapshot", "*/*.txnindex")], *options)


def test_same_lines_of_files_that_are_odd(same_lines, tmp_path):
    log = tmp_path / "00000000000000000000.log"
    batch = build_batch([Record(offset, NOW_MS, b"k", b"v") for offset in (0, 3, 4, 9)])
    damaged = bytearray(batch)
    damaged[-2] ^= 1
    log.write_bytes(batch + damaged + batch[:50])
    log.with_suffix(".index").write_bytes((1).to_bytes(4) + bytes(84))
    times = [(NOW_MS, 9), (NOW_MS - 5, 9), (NOW_MS, 4), (NOW_MS, 2000)]
    log.with_suffix(".timeindex").write_bytes(b"".join(t.to_bytes(8) + o.to_bytes(4) for t, o in times))
    (tmp_path / "notes.txt").touch()

    same_lines([*tmp_path.iterdir()], "--deep-iteration")


def members(subscription: bytes, assignment: bytes):
    return [
        MemberMetadata(
            member_id='é "q" \\ \x01\x1f\n',
            group_instance_id="i",
            client_host="/1.2.3.4",
            rebalance_timeout=1,
            subscription=subscription,
            assignment=assignment,
        )
    ]


def offsets_and_groups():
    """Keys and values of every type and version that Kafka 3.9 knows, some of them odd."""
    commit = OffsetCommitValue(
        offset=1 << 40, leader_epoch=3, metadata="é", commit_timestamp=7, expire_timestamp=9
    )
    key = OffsetCommitKey(group="g", topic="t", partition=1).to_bytes()
    old_key = LegacyOffsetCommitKey(group="g", topic="t", partition=1).to_bytes()
    yield from ((key, commit.to_bytes(version)) for version in range(5))
    yield from ((old_key, commit.to_bytes(version)) for version in (0, 1, 3))
    yield from ((key, None), (b"\0\x63abc", b"x"), (key, b"\0"), (b"\0", b"x"), (b"", b"x"))

    owned = [consumer_protocol.TopicPartition(topic="a", partitions=[1])]
    wanted = ConsumerProtocolSubscription(topics=["a"], user_data=b"xx", owned_partitions=owned, rack_id="r")
    given = ConsumerProtocolAssignment(assigned_partitions=owned)
    group = GroupMetadataKey(group="g").to_bytes()
    opaque = [
        (b"", b""),
        (b"\0\x07zzz", b"\0"),
        (wanted.to_bytes(0), given.to_bytes(3)),
        (wanted.to_bytes(1) + b"tail", b"zz"),
        (wanted.to_bytes(3), given.to_bytes(0)),
        (b"\xff\xff", b"\0\0\xff"),
        (b"\0\0\0\0\0\x05", b""),
    ]
    for protocol_type in ("consumer", "connect", ""):
        for version, pair in [
            *((version, opaque[4]) for version in range(5)),
            *((3, pair) for pair in opaque),
        ]:
            value = GroupMetadataValue(protocol_type=protocol_type, generation=3, members=members(*pair))
            yield group, value.to_bytes(version)
    yield group, None


def consumer_groups():
    """Records of groups that the coordinator assigns (KIP-848)."""
    records = consumer_group
    topic_id = bytes(range(16))
    group = {"group_id": "g"}
    member = {**group, "member_id": "m"}
    racks = [records.PartitionMetadata(partition=0, racks=["r"])]
    topic = records.TopicMetadata(
        topic_id=topic_id, topic_name="t", num_partitions=2, partition_metadata=racks
    )
    classic = records.ClassicMemberMetadata(
        session_timeout_ms=4, supported_protocols=[records.ClassicProtocol(name="range", metadata=b"\0\x01")]
    )
    yield records.ConsumerGroupMetadataKey(**group), records.ConsumerGroupMetadataValue(epoch=4)
    yield records.ConsumerGroupMetadataKey(**group), None
    yield (
        records.ConsumerGroupPartitionMetadataKey(**group),
        records.ConsumerGroupPartitionMetadataValue(topics=[topic]),
    )
    for classic_member in (None, classic):
        yield (
            records.ConsumerGroupMemberMetadataKey(**member),
            records.ConsumerGroupMemberMetadataValue(
                instance_id=None, subscribed_topic_names=["a", "b"], classic_member_metadata=classic_member
            ),
        )
    yield (
        records.ConsumerGroupTargetAssignmentMetadataKey(**group),
        records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4),
    )
    yield (
        records.ConsumerGroupTargetAssignmentMemberKey(**member),
        records.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[records.TopicPartition(topic_id=topic_id, partitions=[1])]
        ),
    )
    yield (
        records.ConsumerGroupCurrentMemberAssignmentKey(**member),
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=1,
            state=2,
            assigned_partitions=[records.TopicPartitions(topic_id=topic_id, partitions=[1])],
        ),
    )


def log_of(folder, pairs):
    path = folder / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(place, NOW_MS, *pair) for place, pair in enumerate(pairs)]))
    return path


def test_same_lines_of_offsets_and_groups(same_lines, tmp_path):
    pairs = [
        *offsets_and_groups(),
        *((key.to_bytes(), value and value.to_bytes()) for key, value in consumer_groups()),
    ]
    lines = same_lines([log_of(tmp_path, pairs), *golden("__consumer_offsets-*/*.log")], "--offsets-decoder")
    assert len(lines) > len(pairs)


def test_same_lines_of_transactions(same_lines, tmp_path):
    key = TransactionLogKey(transactional_id="tx").to_bytes()
    pairs = [(key, None), (b"\0\x07", b"x")]
    for count in (0, 1, 2, 4, 5, 11, 12, 23, 24, 40):
        for state in range(8):
            partitions = [
                PartitionsSchema(topic=f"topic{number}", partition_ids=list(range(count)))
                for number in range(1 + count % 3)
            ]
            value = TransactionLogValue(
                producer_id=5, transaction_status=state, transaction_partitions=partitions if state else None
            )
            pairs.append((key, value.to_bytes(0)))

    logs = [log_of(tmp_path, pairs), *golden("__transaction_state-*/*.log")]
    assert len(same_lines(logs, "--transaction-log-decoder")) > len(pairs)

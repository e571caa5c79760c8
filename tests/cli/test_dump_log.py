"""``barnabas dump-log`` on files of a real Kafka 3.9, and on files that are odd.

The expected lines were printed by kafka-dump-log.sh of 3.9.2; tests/jvm asks it again.
"""

import struct
from pathlib import Path

import pytest

from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.coordinator.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
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
from barnabas.records.record import Record

GOLDEN = Path(__file__).parent.parent / "golden" / "logdir" / "broker0"
NOW = 1_700_000_000_000
COMMIT_KEY = OffsetCommitKey(group="g", topic="t", partition=1).to_bytes()
COMMIT = OffsetCommitValue(offset=7, leader_epoch=3, metadata="m", commit_timestamp=8, expire_timestamp=9)


@pytest.fixture
def dump(barnabas):
    """The lines on stdout of a run that ends well and says nothing on stderr."""

    def run(*arguments):
        done = barnabas("dump-log", *map(str, arguments))
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run


@pytest.fixture
def written(tmp_path):
    """Writes records as one batch; the path of the log."""

    def write(*records, name="00000000000000000000.log", **batch):
        path = tmp_path / name
        numbered = [Record(offset, NOW, key, value) for offset, (key, value) in enumerate(records)]
        path.write_bytes(build_batch(numbered, **batch))
        return path

    return write


@pytest.fixture
def decoded(dump, written):
    """What a decoder prints of each record, without what stands before the key."""

    def run(flag, *records):
        lines = dump("--files", written(*records), flag)[3:]
        return [line.partition("headerKeys: [] ")[2] for line in lines]

    return run


# Logs


def test_a_real_log(dump):
    log = GOLDEN / "txn-0" / "00000000000000000003.log"

    lines = dump("--files", log, "--print-data-log")

    assert lines[:6] == [
        f"Dumping {log}",
        "Log starting offset: 3",
        (
            "baseOffset: 3 lastOffset: 3 count: 1 baseSequence: -1 lastSequence: -1 producerId: 1000"
            " producerEpoch: 0 partitionLeaderEpoch: 0 isTransactional: true isControl: true"
            " deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1795260023981 size: 78 magic: 2"
            " compresscodec: none crc: 548748744 isvalid: true"
        ),
        (
            "| offset: 3 CreateTime: 1795260023981 keySize: 4 valueSize: 6 sequence: -1 headerKeys: []"
            " endTxnMarker: COMMIT coordinatorEpoch: 0"
        ),
        (
            "baseOffset: 4 lastOffset: 6 count: 3 baseSequence: 3 lastSequence: 5 producerId: 1000"
            " producerEpoch: 0 partitionLeaderEpoch: 0 isTransactional: true isControl: false"
            " deleteHorizonMs: OptionalLong.empty position: 78 CreateTime: 1700000000102 size: 94 magic: 2"
            " compresscodec: none crc: 1339222519 isvalid: true"
        ),
        (
            "| offset: 4 CreateTime: 1700000000100 keySize: 2 valueSize: 2 sequence: 3 headerKeys: []"
            " key: r1 payload: v0"
        ),
    ]
    markers = [line.partition(" endTxnMarker: ")[2].split()[0] for line in lines if "endTxnMarker" in line]
    assert markers == ["COMMIT", "ABORT", "COMMIT"]
    assert dump("--files", log) == [line for line in lines if not line.startswith("|")]


@pytest.mark.parametrize(
    ("folder", "codec"), [("gz", "gzip"), ("sn", "snappy"), ("lz", "lz4"), ("zs", "zstd")]
)
def test_compressed_batches(dump, folder, codec):
    lines = dump("--files", GOLDEN / f"{folder}-0" / "00000000000000000000.log", "--deep-iteration")

    batches = [line for line in lines if line.startswith("baseOffset")]
    assert batches
    assert all(f" compresscodec: {codec} " in line and line.endswith("isvalid: true") for line in batches)
    assert sum(int(line.split("count: ")[1].split()[0]) for line in batches) == len(lines) - len(batches) - 2


def test_null_keys_and_values_headers_and_sequences(dump, tmp_path):
    records = [
        Record(0, NOW, None, None),
        Record(1, NOW + 5, b"k", "v é".encode(), [("a", b"1"), ("b", None)]),
    ]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch(records, producer_id=4, producer_epoch=1, base_sequence=2**31 - 1))

    assert dump("--files", path, "--print-data-log")[3:] == [
        f"| offset: 0 CreateTime: {NOW} keySize: -1 valueSize: -1 sequence: 2147483647 headerKeys: []",
        (
            f"| offset: 1 CreateTime: {NOW + 5} keySize: 1 valueSize: 4 sequence: 0 headerKeys: [a,b] key: k "
            "payload: v é"
        ),
    ]


def test_without_the_metadata_of_records(dump, written):
    lines = dump(
        "--files",
        written((b"k", b"v"), (None, b"v"), (b"k", None)),
        "--print-data-log",
        "--skip-record-metadata",
    )

    # The blank in the second line is Kafka's.
    assert lines[3:] == ["| key: k payload: v", " payload: v", "| key: k"]


def test_deep_iteration_prints_records_without_their_contents(dump, written):
    (line,) = dump("--files", written((b"k", b"v")), "--deep-iteration")[3:]
    assert line.endswith("sequence: -1 headerKeys: []")


def test_a_limit_on_bytes_and_bytes_that_are_no_batch(dump, written):
    path = written((b"k", b"v"))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\0\1" * 10)

    assert dump("--files", path)[-1] == "Found 20 invalid bytes at the end of 00000000000000000000.log"
    assert len(dump("--files", path, "--max-bytes", size)) == 3
    assert len(dump("--files", path, "--max-bytes", size - 1)) == 2


def test_a_batch_whose_checksum_is_wrong(dump, written):
    path = written((b"k", b"v"))
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)

    assert dump("--files", path)[-1].endswith("isvalid: false")


def test_gaps_between_offsets_are_printed_at_the_end(barnabas, tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([Record(offset, NOW, b"k", b"v") for offset in (0, 3, 4, 9)]))

    done = barnabas("dump-log", "--deep-iteration", "--files", str(path))

    assert done.stderr.splitlines() == [
        f"Non-consecutive offsets in {path}",
        "  4 is followed by 9",
        "  0 is followed by 3",
    ]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (bytes(80), "Found record size 0 smaller than minimum"),
        (bytes(11) + b"\x40\0\0\0\0\1" + bytes(80), "magic 1"),
    ],
)
def test_bytes_that_cannot_be_batches(barnabas, tmp_path, data, complaint):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)

    done = barnabas("dump-log", "--files", str(path))

    assert done.exit_code == 1
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_numbers_as_keys_and_values(dump, written):
    path = written(((-2).to_bytes(4, signed=True), (1 << 40).to_bytes(8)))

    lines = dump(
        *("--files", path),
        *("--key-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"),
        *("--value-decoder-class", "kafka.serializer.LongDecoder"),
    )

    assert lines[1] == (
        "kafka.serializer.LongDecoder is deprecated. "
        "Please use org.apache.kafka.tools.api.LongDecoder instead"
    )
    assert lines[-1].endswith("key: -2 payload: 1099511627776")


# Decoders


def test_a_real_group_and_its_commits(dump):
    lines = dump("--offsets-decoder", "--files", GOLDEN / "__consumer_offsets-2" / "00000000000000000000.log")

    group, commit, _emptied = (line for line in lines if line.startswith("|"))
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in group
    assert (
        '"subscription":{"topics":["txn"],"userData":"","ownedPartitions":[],"generationId":-1,"rackId":""},'
        '"assignment":{"assignedPartitions":[{"topic":"txn","partitions":[0]}],"userData":""}' in group
    )
    assert (
        'key: {"type":"1","data":{"group":"g1","topic":"txn","partition":0}} payload: {"version":"3"'
        in commit
    )


def test_offsets_of_every_version(decoded):
    key = 'key: {"type":"1","data":{"group":"g","topic":"t","partition":1}} payload: '
    fields = {
        0: '"offset":7,"metadata":"m","commitTimestamp":8',
        1: '"offset":7,"metadata":"m","commitTimestamp":8,"expireTimestamp":9',
        2: '"offset":7,"metadata":"m","commitTimestamp":8',
        3: '"offset":7,"leaderEpoch":3,"metadata":"m","commitTimestamp":8',
        4: '"offset":7,"leaderEpoch":3,"metadata":"m","commitTimestamp":8',
    }
    lines = decoded(
        "--offsets-decoder", *((COMMIT_KEY, COMMIT.to_bytes(v)) for v in fields), (COMMIT_KEY, None)
    )

    assert lines == [
        *(f'{key}{{"version":"{v}","data":{{{text}}}}}' for v, text in fields.items()),
        f"{key}<DELETE>",
    ]


def test_keys_of_the_first_version_with_values_of_a_later_one(decoded):
    key = LegacyOffsetCommitKey(group="g", topic="t", partition=1).to_bytes()

    assert decoded("--offsets-decoder", (key, COMMIT.to_bytes(1))) == [
        (
            'key: {"type":"0","data":{"group":"g","topic":"t","partition":1}} payload: {"version":"1","data":'
            '{"offset":7,"metadata":"m","commitTimestamp":8,"expireTimestamp":9}}'
        )
    ]


@pytest.mark.parametrize(
    ("protocol_type", "subscription", "shown"),
    [
        (
            "consumer",
            ConsumerProtocolSubscription(topics=["a"]).to_bytes(0),
            '{"topics":["a"],"userData":null}',
        ),
        ("connect", ConsumerProtocolSubscription(topics=["a"]).to_bytes(0), '"AAAAAAABAAFh/////w=="'),
        ("consumer", b"\0\x09what is this", '"AAl3aGF0IGlzIHRoaXM="'),
        ("consumer", b"\0\0\0", '"AAAA"'),
        ("consumer", b"", '""'),
    ],
)
def test_subscriptions_of_consumers_are_opened_where_they_can_be(decoded, protocol_type, subscription, shown):
    value = GroupMetadataValue(
        protocol_type=protocol_type,
        members=[MemberMetadata(member_id="m", subscription=subscription)],
    )
    (line,) = decoded("--offsets-decoder", (GroupMetadataKey(group="g").to_bytes(), value.to_bytes(3)))

    assert f'"subscription":{shown},"assignment":""' in line


def test_records_of_the_consumer_protocol(decoded):
    member = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m").to_bytes()
    target = ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m").to_bytes()
    topic_id = bytes(range(16))
    lines = decoded(
        "--offsets-decoder",
        (member, ConsumerGroupMemberMetadataValue(client_id="c", subscribed_topic_names=["a"]).to_bytes()),
        (
            target,
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[TopicPartition(topic_id=topic_id, partitions=[1, 2])]
            ).to_bytes(),
        ),
    )

    assert lines == [
        (
            'key: {"type":"5","data":{"groupId":"g","memberId":"m"}} payload: '
            '{"version":"0","data":{"instanceId":"",'
            '"rackId":"","clientId":"c","clientHost":"","subscribedTopicNames":["a"],'
            '"subscribedTopicRegex":"","rebalanceTimeoutMs":-1,"serverAssignor":""}}'
        ),
        (
            'key: {"type":"7","data":{"groupId":"g","memberId":"m"}} payload: {"version":"0","data":'
            '{"topicPartitions":[{"topicId":"AAECAwQFBgcICQoLDA0ODw","partitions":[1,2]}]}}'
        ),
    ]


def test_texts_are_escaped_as_jackson_does(decoded):
    key = OffsetCommitKey(group='é "q" \\ \x01\x1f\n', topic="t", partition=1).to_bytes()

    (line,) = decoded("--offsets-decoder", (key, None))

    assert r'"group":"é \"q\" \\ \u0001\u001F\n"' in line


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"\0\x63abc", b"x", "Unknown record type 99 at offset 0, skipping."),
        (b"\0", b"x", "Error at offset 0, skipping. Could not read version from key's buffer."),
        (COMMIT_KEY, b"\0", "Error at offset 0, skipping. Could not read version from value's buffer."),
        (
            COMMIT_KEY,
            b"\0\x09",
            "Error at offset 0, skipping. Could not read record with version 9 from value's buffer due to: ",
        ),
        (
            COMMIT_KEY[:-1],
            None,
            "Error at offset 0, skipping. Could not read record with version 1 from key's buffer due to: ",
        ),
    ],
)
def test_records_that_cannot_be_read_do_not_stop_the_others(decoded, key, value, text):
    first, second = decoded("--offsets-decoder", (key, value), (COMMIT_KEY, None))

    assert first.startswith(f"key: {text}")
    assert second.endswith("<DELETE>")


def test_a_record_without_a_key_is_none_of_the_offsets_topic(barnabas, written):
    done = barnabas("dump-log", "--offsets-decoder", "--files", str(written((None, b"v"))))

    assert done.exit_code == 1
    assert "Failed to decode message at offset 0" in done.stderr


def test_transactions(decoded):
    key = TransactionLogKey(transactional_id="tx").to_bytes()
    fields = {
        "producer_id": 5,
        "producer_epoch": 1,
        "transaction_timeout_ms": 60000,
        "transaction_last_update_timestamp_ms": 11,
    }
    partitions = [
        PartitionsSchema(topic=name, partition_ids=list(range(12))) for name in ("topic0", "topic1")
    ]
    lines = decoded(
        "--transaction-log-decoder",
        (
            key,
            TransactionLogValue(transaction_status=0, transaction_partitions=partitions, **fields).to_bytes(
                0
            ),
        ),
        (
            key,
            TransactionLogValue(transaction_status=4, transaction_partitions=partitions, **fields).to_bytes(
                0
            ),
        ),
        (key, None),
        (b"\0\7", b"x"),
    )

    text = "key: transaction_metadata::transactionalId=tx payload: producerId:5,producerEpoch:1,state="
    ends = ",txnLastUpdateTimestamp=11,txnTimeoutMs=60000"
    assert lines == [
        f"{text}Empty,partitions=[]{ends}",
        (
            f"{text}CompleteCommit,partitions=[topic1-1,topic0-0,topic1-0,topic0-2,topic1-3,topic0-1,"
            "topic1-2,topic0-11,topic0-8,topic1-9,topic0-7,topic1-8,topic0-10,topic1-11,topic1-10,"
            f"topic0-9,topic0-4,topic1-5,topic0-3,topic1-4,topic0-6,topic1-7,topic1-6,topic0-5]{ends}"
        ),
        "key: transaction_metadata::transactionalId=tx payload: <DELETE>",
        "key: unknown::version=7",
    ]


# Indexes and what stands beside a log


def test_indexes_of_a_real_log(dump):
    index = GOLDEN / "small-0" / "00000000000000000000.index"
    times = GOLDEN / "small-0" / "00000000000000000000.timeindex"

    offsets = struct.iter_unpack(">ii", index.read_bytes())
    stamps = struct.iter_unpack(">qi", times.read_bytes())
    assert dump("--files", index) == [f"Dumping {index}", *(f"offset: {o} position: {p}" for o, p in offsets)]
    assert dump("--files", times) == [f"Dumping {times}", *(f"timestamp: {t} offset: {o}" for t, o in stamps)]
    assert dump("--files", f"{index},{times}", "--verify-index-only") == [
        f"Dumping {index}",
        f"Dumping {times}",
    ]
    assert dump("--files", f"{index},{times}", "--index-sanity-check") == [
        f"Dumping {index}",
        f"{index} passed sanity check.",
        f"Dumping {times}",
        f"{times} passed sanity check.",
    ]


def beside(log, suffix, data):
    path = log.with_suffix(suffix)
    path.write_bytes(data)
    return path


def test_what_was_preallocated_is_not_printed(dump, written):
    log = written((b"k", b"v"))
    index = beside(log, ".index", bytes(80))
    times = beside(log, ".timeindex", struct.pack(">qi", NOW, 0) + bytes(60))

    assert dump("--files", index) == [f"Dumping {index}", "offset: 0 position: 0"]
    assert dump("--files", times) == [f"Dumping {times}", f"timestamp: {NOW} offset: 0"]
    assert dump("--files", beside(log, ".index", b""))[1] == f"{index} is empty."


def test_an_index_that_does_not_fit_its_log(barnabas, written):
    log = written((b"k", b"v"), (b"k", b"v"))
    index = beside(log, ".index", struct.pack(">iiii", 1, 0, 7, 0))
    times = beside(log, ".timeindex", struct.pack(">qiqiqiqi", NOW, 1, NOW - 5, 1, NOW, 0, NOW, 9))

    done = barnabas("dump-log", "--verify-index-only", "--files", f"{index},{times}")

    assert done.stderr.splitlines() == [
        f"Mismatches in :{index}",
        "  Index offset: 7, log offset: 1",
        f"Found timestamp mismatch in :{times}",
        f"  Index timestamp: {NOW - 5}, log timestamp: {NOW}",
        f"Found out of order timestamp in :{times}",
        f"  Index timestamp: {NOW - 5}, Previously indexed timestamp: {NOW}",
    ]


def test_a_time_index_that_names_offsets_the_log_does_not_have(barnabas, written):
    log = written((b"k", b"v"), (b"k", b"v"))
    times = beside(log, ".timeindex", struct.pack(">qiqi", NOW, 0, NOW, 9))

    done = barnabas("dump-log", "--files", str(times))

    assert done.stdout.splitlines()[1:] == [f"timestamp: {NOW} offset: 0", f"timestamp: {NOW} offset: 9"]
    assert done.stderr.splitlines() == [
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 0, found log offset: 1",
        "Indexed offset: 9, found log offset: -1",
    ]


@pytest.mark.parametrize(
    ("suffix", "data", "complaint"),
    [
        (".index", bytes(12), "found 12 bytes which is neither positive nor a multiple of 8"),
        (".index", struct.pack(">ii", -3, 5), "the last offset is -3 which is less than the base offset 0"),
        (".timeindex", bytes(13), "found 13 bytes which is neither positive nor a multiple of 12"),
        (".timeindex", struct.pack(">qiqi", 9, 1, 8, 2), "last timestamp is 8 which is less than the first"),
        (".timeindex", struct.pack(">qi", 9, -1), "last offset is -1 which is less than the first offset 0"),
    ],
)
def test_an_index_that_cannot_be_one(barnabas, written, suffix, data, complaint):
    done = barnabas(
        "dump-log", "--index-sanity-check", "--files", str(beside(written((b"k", b"v")), suffix, data))
    )

    assert done.exit_code == 1
    assert complaint in done.stderr


@pytest.mark.parametrize("position", [-1, 4, 10_000])
def test_an_index_that_points_beside_the_log(barnabas, written, position):
    index = beside(written((b"k", b"v")), ".index", struct.pack(">ii", 0, position))

    done = barnabas("dump-log", "--files", str(index))

    assert done.exit_code == 1
    assert f"points to position {position}" in done.stderr


def test_a_batch_larger_than_expected(barnabas, written):
    index = beside(written((b"k", bytes(500))), ".index", bytes(8))

    assert barnabas("dump-log", "--files", str(index)).exit_code == 0
    refused = barnabas("dump-log", "--files", str(index), "--max-message-size", "100")
    assert refused.exit_code == 1
    assert "--max-message-size" in refused.stderr


def test_producers_and_aborted_transactions(dump):
    snapshot = GOLDEN / "txn-0" / "00000000000000000012.snapshot"
    aborted = GOLDEN / "txn-0" / "00000000000000000003.txnindex"

    _, producer = dump("--files", snapshot)
    assert producer == (
        "producerId: 1000 producerEpoch: 0 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty"
        " lastTimestamp: 1795260024165 firstSequence: 6 lastSequence: 8 lastOffset: 10 offsetDelta: 2"
        " timestamp: 1795260024165"
    )
    assert dump("--files", aborted)[1:] == [
        "version: 0 producerId: 1000 firstOffset: 4 lastOffset: 7 lastStableOffset: 8"
    ]


def test_a_damaged_snapshot_does_not_stop_the_others(barnabas, tmp_path):
    path = beside(tmp_path / "00000000000000000000.log", ".snapshot", bytes(20))

    done = barnabas("dump-log", "--files", f"{path},{GOLDEN / 'txn-0' / '00000000000000000003.txnindex'}")

    assert done.exit_code == 0
    assert done.stderr == "snapshot version 0\n"
    assert "version: 0 producerId: 1000" in done.stdout


# Arguments


def test_files_of_other_kinds_are_passed_over(barnabas):
    name = str(GOLDEN / "meta.properties")

    done = barnabas("dump-log", "--files", name)

    assert (done.exit_code, done.stderr) == (0, f"Ignoring unknown file {name}\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], 'Missing required argument "[files]"'),
        (["--files", "00.log"], "00.log: No such file"),
        (["--files", "00.log", "--cluster-metadata-decoder"], "ZooKeeper"),
        (["--files", "00.log", "--remote-log-metadata-decoder"], "tiered storage"),
        (
            ["--files", "00.log", "--value-decoder-class", "com.example.Mine"],
            "com.example.Mine is a Java class",
        ),
        (["--files", "00.log", "--max-bytes", "many"], "many"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(barnabas, arguments, complaint):
    done = barnabas("dump-log", *arguments)

    assert done.exit_code != 0
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_one_line(barnabas, tmp_path):
    missing = str(tmp_path / f"{0:020}.log")

    done = barnabas("dump-log", "--files", missing)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: {missing}: No such file or directory\n"


def test_a_log_is_named_after_an_offset(barnabas, tmp_path):
    named = tmp_path / "x.log"
    named.touch()

    assert "x.log is not named after an offset" in barnabas("dump-log", "--files", str(named)).stderr

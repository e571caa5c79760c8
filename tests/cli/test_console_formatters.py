"""What ``barnabas consume`` prints by the formatters and deserializers of Kafka, and the flags of both
consoles.
"""

import struct

import pytest

from barnabas.cli.deserializers import DeserializationError, deserializer
from barnabas.cli.message_formatters import formatter
from barnabas.client.types import ConsumerRecord
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.records.batch import TimestampType

PACKAGE = "org.apache.kafka.common.serialization."
FORMATTERS = "org.apache.kafka.tools.consumer."
COMMIT = OffsetCommitKey(group="g", topic="t", partition=3)
OFFSET = OffsetCommitValue(offset=7, leader_epoch=2, metadata='a "b"', commit_timestamp=5)
PRINTED_OFFSET = (
    '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":3}},"value":{"version":3,"data":'
    '{"offset":7,"leaderEpoch":2,"metadata":"a \\"b\\"","commitTimestamp":5}}}'
)


def record(key, value):
    return ConsumerRecord("t", 0, 1, 5, TimestampType.CREATE_TIME, key, value, [], 0)


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("Long", struct.pack(">q", -5), "-5"),
        ("Integer", struct.pack(">i", 1 << 20), "1048576"),
        ("Short", struct.pack(">h", -1), "-1"),
        ("Double", struct.pack(">d", 1.0), "1.0"),
        ("Double", struct.pack(">d", 9999999.5), "9999999.5"),
        ("Double", struct.pack(">d", 1e7), "1.0E7"),
        ("Double", struct.pack(">d", 123456789.125), "1.23456789125E8"),
        ("Double", struct.pack(">d", 0.001), "0.001"),
        ("Double", struct.pack(">d", -1e-4), "-1.0E-4"),
        ("Double", struct.pack(">d", -0.0), "-0.0"),
        ("Double", struct.pack(">d", float("-inf")), "-Infinity"),
        ("Float", struct.pack(">f", 0.1), "0.1"),
        ("Float", struct.pack(">f", 3.4028235e38), "3.4028235E38"),
        ("Boolean", b"\1", "true"),
        ("UUID", b"123E4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("String", b"\xffx", "\N{REPLACEMENT CHARACTER}x"),
        ("ByteArray", b"raw", "raw"),
    ],
)
def test_bytes_are_read_as_java_reads_them(name, data, text):
    assert deserializer(f"{PACKAGE}{name}Deserializer")(data).decode() == text


@pytest.mark.parametrize("name", ["Long", "Integer", "Short", "Double", "Float", "Boolean", "UUID"])
def test_bytes_that_are_something_else_are_refused(name):
    with pytest.raises(DeserializationError):
        deserializer(f"{PACKAGE}{name}Deserializer")(b"123")


@pytest.mark.parametrize(
    ("name", "key", "value", "text"),
    [
        (
            "Offsets",
            COMMIT,
            OFFSET,
            PRINTED_OFFSET,
        ),
        (
            "Offsets",
            COMMIT,
            None,
            '{"key":{"type":1,"data":{"group":"g","topic":"t","partition":3}},"value":null}',
        ),
        ("Offsets", GroupMetadataKey(group="g"), GroupMetadataValue(), ""),
        ("GroupMetadata", COMMIT, OFFSET, ""),
        (
            "GroupMetadata",
            GroupMetadataKey(group="g"),
            None,
            '{"key":{"type":2,"data":{"group":"g"}},"value":null}',
        ),
        (
            "TransactionLog",
            TransactionLogKey(transactional_id="id"),
            None,
            '{"key":{"type":0,"data":{"transactionalId":"id"}},"value":null}',
        ),
        ("NoOp", COMMIT, OFFSET, ""),
    ],
)
def test_formatters_of_internal_topics(name, key, value, text):
    data = None if value is None else value.to_bytes(3)
    printed = formatter(f"{FORMATTERS}{name}MessageFormatter", {})(record(key.to_bytes(), data))
    assert printed.decode() == text


@pytest.mark.parametrize("name", ["Offsets", "GroupMetadata", "TransactionLog"])
@pytest.mark.parametrize("record_type", [3, 8, 16, 99])
def test_a_record_of_a_type_that_is_not_asked_for_prints_nothing(name, record_type):
    # Its value begins with a version that another type's value has, too.
    key, value = struct.pack(">h", record_type) + b"\2g", struct.pack(">hi", 0, 5)
    assert formatter(f"{FORMATTERS}{name}MessageFormatter", {})(record(key, value)) == b""


def test_a_record_without_a_key_prints_nothing():
    assert formatter(f"{FORMATTERS}OffsetsMessageFormatter", {})(record(None, b"x")) == b""


def test_a_transaction_is_printed_with_its_partitions():
    value = TransactionLogValue(producer_id=4, transaction_timeout_ms=60_000).to_bytes(0)
    key = TransactionLogKey(transactional_id="id").to_bytes()
    printed = formatter(f"{FORMATTERS}TransactionLogMessageFormatter", {})(record(key, value))
    assert b'"value":{"version":0,"data":{"producerId":4,' in printed


def test_the_old_formatter_of_offsets():
    old = formatter("kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter", {})
    assert old(record(COMMIT.to_bytes(), OFFSET.to_bytes(3))).decode() == (
        '[g,t,3]::OffsetAndMetadata(offset=7, leaderEpoch=Optional[2], metadata=a "b", commitTimestamp=5, '
        "expireTimestamp=None)\n"
    )
    assert old(record(COMMIT.to_bytes(), None)) == b"[g,t,3]::NULL\n"
    assert old(record(GroupMetadataKey(group="g").to_bytes(), b"")) == b""


@pytest.fixture
def consume(barnabas, cluster):
    return lambda *flags: barnabas(
        "consume", "--bootstrap-server", cluster.bootstrap, "--from-beginning", *flags
    )


@pytest.fixture
def numbers(barnabas, cluster):
    """A topic with a number, something else, and a number."""
    text = (struct.pack(">q", 1 << 56 | 0x41) + b"\nother\n" + struct.pack(">q", 1 << 56 | 0x42)).decode(
        "latin-1"
    )
    assert text.isascii()
    assert barnabas("produce", "--broker-list", cluster.bootstrap, "--topic", "t", stdin=text).exit_code == 0


def test_a_record_that_cannot_be_printed_ends_the_run_or_is_passed_over(consume, numbers):
    flags = ("--topic", "t", "--max-messages", "3", "--value-deserializer", f"{PACKAGE}LongDeserializer")
    ended = consume(*flags)
    assert (ended.exit_code, ended.stdout) == (1, "72057594037928001\n")
    place = (
        "Error processing the record at offset 1 of t-0: Size of data received by LongDeserializer is not 8"
    )
    assert place in ended.stderr

    passed = consume(*flags, "--skip-message-on-error", "--enable-systest-events")
    assert (passed.exit_code, passed.stdout) == (
        0,
        "72057594037928001\n72057594037928002\nshutdown_complete\n",
    )
    assert passed.stderr == f"{place}; skipped\nProcessed a total of 3 messages\n"


def test_a_property_goes_before_the_short_flag(consume, numbers):
    flags = ("--topic", "t", "--max-messages", "1", "--value-deserializer", f"{PACKAGE}LongDeserializer")
    printed = consume(*flags, "--property", f"value.deserializer={PACKAGE}StringDeserializer")
    assert printed.stdout == "\1\0\0\0\0\0\0A\n"


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            ("--formatter", "com.acme.Avro"),
            "com.acme.Avro is a Java class that this tool cannot run; it knows ",
        ),
        (
            ("--formatter", "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter"),
            (
                "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter is not there: "
                f"take {FORMATTERS}"
            ),
        ),
        (
            ("--key-deserializer", "com.acme.Avro"),
            "com.acme.Avro is a Java class that this tool cannot run; of ",
        ),
        (("--formatter-property", "value.deserialiser=x"), "Unknown property value.deserialiser; there are "),
    ],
)
def test_classes_that_are_not_there_are_one_line(consume, flags, line):
    result = consume("--topic", "t", *flags)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1


def test_a_class_by_its_old_name_is_warned_of(consume, numbers):
    result = consume("--topic", "t", "--max-messages", "1", "--formatter", "kafka.tools.NoOpMessageFormatter")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("WARNING: kafka.tools.NoOpMessageFormatter is deprecated")


def test_flags_of_the_producer_go_before_its_properties(barnabas, cluster):
    def produce(*flags):
        return barnabas(
            "produce", "--topic", "t", "--bootstrap-server", cluster.bootstrap, *flags, stdin="x\n"
        )

    assert produce("--command-property", "acks=2", "--request-required-acks", "1").exit_code == 0
    assert "Invalid value 2 for configuration acks" in produce("--command-property", "acks=2").stderr
    small = produce("--batch-size", "10", "--max-partition-memory-bytes", "0")
    assert "batch.size" in small.stderr
    warned = produce("--message-send-max-retries", "3", "--socket-buffer-size", "1000")
    assert warned.exit_code == 0
    assert warned.stderr.splitlines() == [
        "Warning: this client does not obey retries",
        "Warning: this client does not obey send.buffer.bytes",
    ]
    assert "LineMessageReader" in produce("--line-reader", "com.acme.Reader").stderr

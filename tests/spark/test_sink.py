"""Rows become records: which columns count, of which types, and what is refused."""

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from barnabas.records.record import decode_records, make_record
from barnabas.spark.errors import OptionError
from barnabas.spark.options import client_options, sink_options, source_options
from barnabas.spark.sink import by_topic, check_columns, send_all

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def schema(**columns):
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_all_columns_that_the_connector_knows():
    check_columns(
        schema(
            topic=StringType(), key=BinaryType(), value=StringType(), headers=ArrayType(HEADER),
            partition=IntegerType(), other=LongType(),
        ),
        None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "topic", "words"),
    [
        ({"key": StringType()}, "t", "Required attribute 'value' not found"),
        ({"value": StringType()}, None, "topic option required when no 'topic' attribute is present"),
        (
            {"value": LongType()},
            "t",
            "value attribute unsupported type bigint. value must be a(n) string or binary",
        ),
        (
            {"value": StringType(), "partition": LongType()},
            "t",
            "partition attribute unsupported type bigint",
        ),
        ({"value": StringType(), "topic": BinaryType()}, None, "topic attribute unsupported type binary"),
        ({"value": StringType(), "headers": StringType()}, "t", "headers attribute unsupported type string"),
    ],
)
def test_columns_that_cannot_become_records(columns, topic, words):
    with pytest.raises(OptionError) as caught:
        check_columns(schema(**columns), topic)
    assert words in str(caught.value)


def test_the_option_wins_over_the_column():
    batch = pa.RecordBatch.from_pydict({"topic": ["a", "b", "a"], "value": ["1", "2", "3"]})

    def values(topic):
        return [(name, rows.column("value").to_pylist()) for name, rows in by_topic(batch, topic)]

    assert values(None) == [("a", ["1", "3"]), ("b", ["2"])]
    assert values("t") == [("t", ["1", "2", "3"])]


def test_a_row_without_a_topic_is_an_error():
    batch = pa.RecordBatch.from_pydict({"topic": ["a", None], "value": ["1", "2"]})

    with pytest.raises(OptionError, match="KAFKA_NULL_TOPIC_IN_DATA"):
        list(by_topic(batch, None))


class ListProducer:
    """Takes everything at once; a topic has two partitions."""

    section_bytes = 1_000

    def __init__(self):
        self.sent, self.flushed = [], 0

    def partitions_for(self, topic):
        return [0, 1]

    available_partitions = partitions_for

    def send_section(self, topic, partition, section, count):
        self.sent += [
            (topic, partition, record.value) for record in decode_records(make_record, section, count, 0, 0)
        ]

    def flush(self):
        self.flushed = len(self.sent)


def test_a_task_is_done_when_everything_is_stored():
    producer = ListProducer()
    batches = [
        pa.RecordBatch.from_pydict({"value": ["a", "b"], "partition": pa.array([1, 0], pa.int32())}),
        pa.RecordBatch.from_pydict({"value": ["c"], "partition": pa.array([1], pa.int32())}),
    ]

    assert send_all(producer, batches, "t") == 3
    assert (producer.sent, producer.flushed) == ([("t", 0, b"b"), ("t", 1, b"a"), ("t", 1, b"c")], 3)


def test_no_rows_are_no_records():
    producer = ListProducer()

    assert send_all(producer, [], "t") == 0
    assert producer.sent == []


def source_options_of_a_batch(given):
    return source_options(given, streaming=False)


def test_options_for_java_alone_are_left_out():
    from barnabas.client.config import PRODUCER_CONFIG

    given = sink_options(
        {"kafka.bootstrap.servers": "h:1", "kafka.acks": "1", "kafka.session.timeout.ms": "9"}
    ).client
    assert client_options(given, PRODUCER_CONFIG) == {"bootstrap.servers": "h:1", "acks": "1"}


@pytest.mark.parametrize("options", [source_options_of_a_batch, sink_options])
@pytest.mark.parametrize(
    "given",
    [
        {"kafka.Security.Protocol": "SASL"},
        {"kafka.sasl.jaas.config": "secret"},
        {"kafka.ssl.truststore.location": "plaintext"},
    ],
)
def test_a_job_that_asks_for_security_does_not_run_without(options, given):
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given}
    name = list(given)[-1]
    with pytest.raises(OptionError, match=name.lower().removeprefix("kafka.")) as refused:
        options(given)
    assert "secret" not in str(refused.value)
    options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", "kafka.security.protocol": "plaintext"})

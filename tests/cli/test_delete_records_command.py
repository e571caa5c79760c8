"""``barnabas delete-records`` and `admin.partitions.delete_records` on a running broker."""

import json

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.cli.partition_json import BadJsonError, parse_deletion
from barnabas.client import Producer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition


@pytest.fixture
def topic(broker, topic_name):
    """A topic of two partitions with five records in the first."""
    name = topic_name("delete")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=2))
    with Producer(broker.bootstrap) as producer:
        for number in range(5):
            producer.send(name, b"%d" % number, partition=0)
        producer.flush()
    return name


def plan(folder, *entries):
    file = folder / "offsets.json"
    partitions = [
        {"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in entries
    ]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return ("--offset-json-file", str(file))


def test_lines_and_exit_codes(broker, barnabas, topic, tmp_path):
    server = ("--bootstrap-server", broker.bootstrap)
    done = barnabas("delete-records", *server, *plan(tmp_path, (topic, 0, 3), (topic, 1, 9)))

    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [
        "Executing records delete operation",
        "Records delete operation completed:",
    ]
    assert sorted(done.stdout.splitlines()[2:]) == [
        f"partition: {topic}-0\tlow_watermark: 3",
        (
            f"partition: {topic}-1\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException:"
            " The requested offset is not within the range of offsets maintained by the server."
        ),
    ]
    offsets = barnabas("get-offsets", *server, "--topic", topic, "--time", "earliest")
    assert offsets.stdout.splitlines() == [f"{topic}:0:3", f"{topic}:1:0"]


def test_what_is_missing_or_wrong_is_one_line(broker, barnabas, topic, tmp_path):
    server = ("--bootstrap-server", broker.bootstrap)
    twice = barnabas("delete-records", *server, *plan(tmp_path, (topic, 0, 1), (topic, 0, 2)))
    without = barnabas("delete-records", *server)

    assert (twice.exit_code, twice.stderr.strip()) == (
        1,
        f"Offset json file contains duplicate topic partitions: {topic}-0",
    )
    assert without.exit_code == 1
    assert 'Missing required argument "[offset-json-file]"' in without.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "The input string is not a valid JSON"),
        ('{"version": 2, "partitions": []}', "Not supported version field value 2"),
        ('{"version": 1}', "Missing partitions field"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "No such field exists: `offset`"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 9223372036854775808}]}',
            "Expected `Long`",
        ),
    ],
)
def test_files_that_cannot_be_read_as_a_plan(text, message):
    with pytest.raises(BadJsonError, match=message):
        parse_deletion(text)


def test_the_admin_client(broker, topic):
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Admin(broker.bootstrap) as admin:
        assert admin.partitions.delete_records({first: -1, second: 0}) == {first: 5, second: 0}
        with pytest.raises(KafkaError) as refused:
            admin.partitions.delete_records({first: 6})
        missing = TopicPartition(topic, 2)
        found = admin.partitions.try_delete_records({first: 0, missing: 0}, timeout_ms=3_000)

    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert found[first] == 5
    assert found[missing].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

"""``barnabas-log`` and ``barnabas-lag`` on a genuine Kafka that runs:
what `kafka-dump-log` and `kafka-consumer-groups` print.
"""

import re

import pyarrow as pa
import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]

LINE = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*producerId: (-?\d+) .*position: (\d+) .*"
    r"size: (\d+) magic: 2 compresscodec: (\w+) crc: (\d+) isvalid: true"
)


def rows(directory, **given):
    from barnabas.spark.logs.options import log_options
    from barnabas.spark.logs.segments import find_segments, plan_tasks
    from barnabas.spark.logs.views import read_pieces

    options = log_options({"path": str(directory), **given})
    tasks = plan_tasks(find_segments(options), options)
    return pa.Table.from_batches([one for task in tasks for one in read_pieces(task, options)]).to_pylist()


def test_the_batches_of_kafka_dump_log(kafka39, server_folder, topic_name, kafka_tool):
    topic = topic_name("log-source")
    with Admin(kafka39) as admin:
        admin.topics.create(
            NewTopic(topic, partitions=1, configs={"segment.bytes": "20000", "retention.ms": "-1"})
        )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(kafka39, compression_type=codec) as producer:
            for number in range(300):
                producer.send(topic, b"%d " % number * 20, b"k%d" % number)
            producer.flush()

    directory = server_folder / "kafka39" / "data" / f"{topic}-0"
    found = rows(directory, view="batches")
    names = ",".join(str(file) for file in sorted(directory.glob("*.log")))
    printed = LINE.findall(kafka_tool("kafka-dump-log", "--files", names).stdout)

    columns = ("baseOffset", "lastOffset", "count", "producerId", "position", "sizeInBytes", "codec", "crc")
    assert [tuple(str(row[name]) for name in columns) for row in found] == printed
    assert len({row["segment"] for row in found}) > 1
    assert [row["offset"] for row in rows(directory)] == list(range(1500))
    assert sum(row["records"] for row in rows(directory, view="segments")) == 1500


def test_the_lag_of_kafka_consumer_groups(kafka39, server_folder, topic_name, kafka_tool):
    from barnabas.spark.groups.history import lag_history
    from barnabas.spark.groups.lag import lag_rows, one_record_at_a_time, standings
    from barnabas.spark.groups.options import group_options
    from barnabas.spark.kafka import shared_fetcher

    topic, group = topic_name("lag"), topic_name("lag-group")
    with Admin(kafka39) as admin:
        admin.topics.create(NewTopic(topic, partitions=1, configs={"retention.ms": "-1"}))
        with Producer(kafka39) as producer:
            for number in range(20):
                producer.send_and_wait(topic, b"v", timestamp_ms=1_700_000_000_000 + number * 1000)
        arguments = ("--bootstrap-server", kafka39, "--group", group)
        reset = ("--reset-offsets", "--topic", topic, "--to-offset", "7", "--execute")
        kafka_tool("kafka-consumer-groups", *arguments, *reset)
        printed = kafka_tool("kafka-consumer-groups", *arguments, "--describe").stdout.split()
        options = group_options({"kafka.bootstrap.servers": kafka39, "groups": group}, "barnabas-lag")
        fetcher = shared_fetcher(one_record_at_a_time(options.brokers.client))
        (row,) = lag_rows(standings(admin, options), fetcher, 30_000).to_pylist()

    expected = [group, topic, "0", *(str(row[name]) for name in ("committedOffset", "logEndOffset", "lag"))]
    assert expected == printed[printed.index(group) :][:6]
    assert (row["lag"], row["lagSeconds"], row["secondsToDataLoss"]) == (13, 12, None)

    data = group_options({"path": str(server_folder / "kafka39" / "data"), "groups": group}, "barnabas-lag")
    (then,) = pa.Table.from_batches(lag_history([TopicPartition(topic, 0)], data)).to_pylist()
    assert (then["committedOffset"], then["logEndOffset"], then["lagSeconds"]) == (7, 20, 12)

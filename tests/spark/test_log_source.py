"""``barnabas-log`` through Spark:
directories of a genuine Kafka, of our broker while it runs, and damaged ones.
"""

import shutil
from pathlib import Path

import pytest

from barnabas.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

GOLDEN = Path(__file__).parents[1] / "golden" / "logdir" / "broker0"


def log(spark, **options):
    return spark.read.format("barnabas-log").options(**options)


def test_the_views_of_a_directory_that_kafka_wrote(spark):
    records = log(spark, subscribePattern="plain|gz", includeHeaders="true").load(str(GOLDEN))
    batches = log(spark, view="batches", subscribePattern="plain|gz").load(str(GOLDEN))
    segments = log(spark, view="segments", subscribePattern="plain|gz").load(str(GOLDEN))

    by_topic = {row.topic: row["count"] for row in records.groupBy("topic").count().collect()}
    assert by_topic == {row.topic: row.records for row in segments.collect() if row.records}
    assert {row.codec for row in batches.filter("topic = 'gz'").collect()} == {"gzip"}
    assert records.filter("value is not null").count() == sum(by_topic.values())


def test_a_directory_that_our_broker_writes(spark, broker, broker_folder):
    with Admin(broker) as admin:
        admin.topics.create([NewTopic("log-source", partitions=2, configs={"retention.ms": "-1"})])
    with Producer(broker, compression_type="lz4") as producer:
        for number in range(500):
            producer.send(
                "log-source", b"v%d" % number, b"k", partition=number % 2, timestamp_ms=1_700_000_000_000
            )

    from_disk = log(spark, subscribe="log-source").load(str(broker_folder))
    from_broker = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", broker)
        .option("subscribe", "log-source")
        .load()
    )
    assert from_disk.columns == from_broker.columns
    assert sorted(from_disk.collect()) == sorted(from_broker.collect())
    assert from_disk.count() == 500


def test_a_stream_reads_a_copy_of_the_directory_first_and_then_the_broker(
    spark, broker, broker_folder, tmp_path, topic_name
):
    name = topic_name("backfilled")

    def send(producer, *numbers):
        for number in numbers:
            producer.send(name, b"v%d" % number, partition=number % 2)
        producer.flush()

    with Admin(broker) as admin, Producer(broker) as producer:
        admin.topics.create([NewTopic(name, partitions=2)])
        send(producer, *range(60))
        for number in range(2):
            shutil.copytree(broker_folder / f"{name}-{number}", tmp_path / "copy" / f"{name}-{number}")
        send(producer, *range(60, 80))
        admin.partitions.delete_records({TopicPartition(name, number): 25 for number in range(2)})

    options = {
        "kafka.bootstrap.servers": broker, "subscribe": name, "startingOffsets": "earliest",
        "backfillLogs": str(tmp_path / "copy"), "maxOffsetsPerTrigger": "30",
    }  # fmt: skip
    stream = spark.readStream.format("barnabas").options(**options).load()
    writer = stream.writeStream.format("memory").queryName("backfilled").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    query.awaitTermination()
    found = spark.sql("SELECT partition, offset, CAST(value AS STRING) FROM backfilled").collect()
    assert sorted(tuple(row) for row in found) == sorted(
        (number % 2, number // 2, f"v{number}") for number in range(80)
    )


def test_commits_and_lag_of_a_broker_and_of_its_directory(spark, broker, broker_folder):
    with Admin(broker) as admin:
        admin.topics.create([NewTopic("lag-source", partitions=1, configs={"retention.ms": "-1"})])
        with Producer(broker) as producer:
            for number in range(10):
                producer.send_and_wait("lag-source", b"v", timestamp_ms=1_700_000_000_000 + number * 1000)
        for offset in (6, 4):
            position = {TopicPartition("lag-source", 0): OffsetAndMetadata(offset)}
            admin.groups.alter_offsets("lag-source-group", position)

    def rows(source, *columns, path=None):
        opened = spark.read.format(source).option("groups", "lag-source-group")
        frame = opened.load(str(path)) if path else opened.option("kafka.bootstrap.servers", broker).load()
        return [tuple(row) for row in frame.select(*columns).collect()]

    from_broker = rows("barnabas-offsets", "group", "topic", "partition", "offset", "recordOffset")
    assert [row[:4] for row in from_broker] == [
        ("lag-source-group", "lag-source", 0, offset) for offset in (6, 4)
    ]
    columns = ("group", "topic", "partition", "offset", "recordOffset")
    assert rows("barnabas-offsets", *columns, path=broker_folder) == from_broker
    assert rows("barnabas-lag", "committedOffset", "lag", "lagSeconds") == [(4, 6, 5.0)]
    history = rows("barnabas-lag", "committedOffset", "lag", "lagSeconds", "rewound", path=broker_folder)
    assert history == [(6, 4, 3.0, 0), (4, 6, 5.0, 2)]


def test_mistakes_and_damage_reach_the_user_in_one_line(spark, tmp_path):
    from pyspark.errors import PySparkException

    shutil.copytree(GOLDEN / "plain-0", tmp_path / "plain-0")
    (file,) = (tmp_path / "plain-0").glob("*.log")
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)

    def failure(act):
        with pytest.raises(PySparkException) as caught:
            act()
        assert "Traceback" not in str(caught.value)
        return str(caught.value)

    assert "has no option views" in failure(lambda: log(spark, views="batches").load(str(tmp_path)))
    assert "is not a directory" in failure(log(spark).load(str(tmp_path / "nowhere")).count)
    frame = log(spark).load(str(tmp_path))
    assert "Corrupt record batch at offset 0: stored crc = " in failure(frame.count)
    whole = log(spark).load(str(GOLDEN / "plain-0")).count()
    assert log(spark, corruptBatches="skip").load(str(tmp_path)).count() < whole

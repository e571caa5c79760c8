"""Topics through Spark itself, against a running broker."""

import json

import pytest
from pyspark.sql import udf

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark import follow, register
from barnabas.spark.errors import OptionError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

_names = iter(range(1_000))


@pytest.fixture
def topic(broker):
    name = f"topic-{next(_names)}"
    with Admin(broker) as admin:
        # The records are years old on purpose: without this, retention may come before the reader.
        admin.topics.create([NewTopic(name, partitions=3, configs={"retention.ms": "-1"})])
    return name


def produce(broker, topic, count, *, start=0):
    with Producer(broker) as producer:
        for number in range(start, start + count):
            producer.send(
                topic,
                f"v{number}",
                f"k{number}" if number % 2 else None,
                partition=number % 3,
                timestamp_ms=1_700_000_000_000 + number,
                headers=[("n", b"%d" % number)],
            )


def reader(source, broker, topic, **options):
    opened = source.format("barnabas").option("kafka.bootstrap.servers", broker).option("subscribe", topic)
    for name, value in options.items():
        opened = opened.option(name, value)
    return opened


def test_a_batch_read_gives_every_record_with_all_columns(spark, broker, topic):
    produce(broker, topic, 300)

    frame = reader(spark.read, broker, topic, includeHeaders="true").load()
    rows = sorted(frame.collect(), key=lambda row: row.timestamp)

    assert frame.columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
    ]  # fmt: skip
    assert [bytes(row.value) for row in rows] == [b"v%d" % number for number in range(300)]
    fifth = rows[5]
    assert (bytes(fifth.key), fifth.topic, fifth.partition, fifth.offset) == (b"k5", topic, 2, 1)
    assert (rows[4].key, fifth.timestampType) == (None, 0)
    assert [(header.key, bytes(header.value)) for header in fifth.headers] == [("n", b"5")]


def test_offsets_cut_a_batch_read(spark, broker, topic):
    produce(broker, topic, 30)

    frame = reader(
        spark.read,
        broker,
        topic,
        startingOffsets=f'{{"{topic}":{{"0":2,"1":-2,"2":9}}}}',
        endingOffsets=f'{{"{topic}":{{"0":5,"1":1,"2":-1}}}}',
    ).load()

    found = sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
    assert found == [(0, 2), (0, 3), (0, 4), (1, 0), (2, 9)]


def test_what_is_written_is_read_back(spark, broker, topic):
    frame = spark.range(60).selectExpr(
        "cast(id as string) key", "cast(concat('value ', id) as binary) value",
        "cast(id % 2 as int) partition",
        f"'{topic}' topic", "array(named_struct('key', 'h', 'value', cast('x' as binary))) headers",
    )  # fmt: skip
    frame.write.format("barnabas").option("kafka.bootstrap.servers", broker).mode("append").save()

    rows = reader(spark.read, broker, topic, includeHeaders="true").load().collect()
    assert sorted(bytes(row.value) for row in rows) == sorted(b"value %d" % number for number in range(60))
    assert {row.partition for row in rows} == {0, 1}
    assert all(row.partition == int(bytes(row.key)) % 2 for row in rows)
    assert all([(one.key, bytes(one.value)) for one in row.headers] == [("h", b"x")] for row in rows)


def run_once(spark, broker, topic, folder, **options):
    """A run of a query that reads what is there and stops; its progress."""
    stream = reader(spark.readStream, broker, topic, **options).load()
    query = (
        stream.selectExpr("cast(value as string) value")
        .writeStream.format("parquet")
        .option("path", str(folder / "table"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def test_a_stream_keeps_its_limit_and_its_place(spark, broker, topic, tmp_path):
    produce(broker, topic, 90)
    first = run_once(spark, broker, topic, tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger=45)
    produce(broker, topic, 30, start=90)
    second = run_once(spark, broker, topic, tmp_path, startingOffsets="latest")

    values = [row.value for row in spark.read.parquet(str(tmp_path / "table")).collect()]
    assert sorted(values) == sorted(f"v{number}" for number in range(120))
    assert [progress["numInputRows"] for progress in first] == [45, 45]
    assert [progress["numInputRows"] for progress in second] == [30]


def test_real_time_mode_is_refused_in_one_line_that_names_the_way(spark, broker, topic):
    """Of our sources alone, and no other trigger."""
    ours = reader(spark.readStream, broker, topic).load().selectExpr("value")
    other = spark.readStream.format("rate").load()

    for rows in (ours, other.selectExpr("encode(string(value), 'utf-8') AS value").union(ours)):
        with pytest.raises(
            OptionError, match=r"barnabas is: .* own connector, format\(\"kafka\"\)"
        ) as caught:
            rows.writeStream.trigger(realTime="5 seconds")
        assert "\n" not in str(caught.value)
    ours.writeStream.trigger(processingTime="5 seconds")
    other.writeStream.trigger(realTime="5 seconds")


def test_the_start_of_a_stream_changes_no_map_that_streams_share(spark, broker, topic, tmp_path, monkeypatch):
    """Two that started at once left one that no task could be sent with:
    every query of the session failed.
    """
    wrap, functions = udf._wrap_function, []

    def wrapped(*args):
        functions.append(wrap(*args))
        return functions[-1]

    monkeypatch.setattr(udf, "_wrap_function", wrapped)
    register(spark)
    before = [set(function.envVars()) for function in functions]
    produce(broker, topic, 3)
    assert run_once(spark, broker, topic, tmp_path, startingOffsets="earliest")

    assert len(functions) > 1
    assert [set(function.envVars()) for function in functions] == before


def test_a_query_is_followed_and_its_group_starts_another(spark, broker, topic, tmp_path):
    produce(broker, topic, 30)
    stream = reader(
        spark.readStream, broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger=15
    ).load()
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    with follow(query, broker, group=f"{topic}-group", spark=spark):
        assert query.awaitTermination(90)
    produce(broker, topic, 6, start=30)

    rows = reader(spark.read, broker, topic, startingOffsets=f"group:{topic}-group").load().collect()
    assert sorted(bytes(row.value) for row in rows) == sorted(b"v%d" % number for number in range(30, 36))


def write_to(frame, broker, topic, checkpoint, mode):
    """A run of a query into a topic, until it has read what is there."""
    query = (
        frame.writeStream.format("barnabas")
        .outputMode(mode)
        .option("kafka.bootstrap.servers", broker)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)


def test_a_stream_writes_to_a_topic(spark, broker, topic, tmp_path):
    produce(broker, topic, 20)
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(f"{topic}-{name}", partitions=1) for name in ("out", "counts")])

    read = reader(spark.readStream, broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger=10).load()
    write_to(read.select("key", "value"), broker, f"{topic}-out", tmp_path / "append", "append")

    rows = reader(spark.read, broker, f"{topic}-out").load().collect()
    assert sorted(bytes(row.value) for row in rows) == sorted(b"v%d" % number for number in range(20))

    # In output mode complete each batch writes the whole result again.
    counts = read.groupBy().count().selectExpr("cast(count as string) value")
    write_to(counts, broker, f"{topic}-counts", tmp_path / "complete", "complete")
    rows = reader(spark.read, broker, f"{topic}-counts").load().orderBy("offset").collect()
    assert int(rows[-1].value) == 20
    assert len(rows) > 1


def test_patterns_find_topics(spark, broker, topic):
    produce(broker, topic, 6)
    frame = spark.read.format("barnabas").option("kafka.bootstrap.servers", broker)

    assert frame.option("subscribePattern", f"{topic[:-1]}[{topic[-1]}]").load().count() == 6


def test_a_task_reads_one_partition_or_what_the_options_say(spark, broker, topic):
    produce(broker, topic, 30)

    def tasks(**options):
        return reader(spark.read, broker, topic, **options).load().rdd.getNumPartitions()

    assert (tasks(), tasks(minPartitions=6), tasks(tasksPerBatch=2)) == (3, 6, 2)


def test_assigned_partitions_that_do_not_exist_are_left_out(spark, broker, topic):
    produce(broker, topic, 30)
    frame = spark.read.format("barnabas").option("kafka.bootstrap.servers", broker)

    assert frame.option("assign", json.dumps({topic: [1, 7]})).load().count() == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"subscribe": "no-such-topic", "fetchOffset.retryIntervalMs": 1}, "no-such-topic"),
        ({"assign": '{"no-such-topic":[0]}', "fetchOffset.retryIntervalMs": 1}, "no-such-topic"),
    ],
)
def test_mistakes_reach_the_user_in_one_line(spark, broker, topic, options, words):
    from pyspark.errors import PySparkException

    opened = spark.read.format("barnabas").option("kafka.bootstrap.servers", broker)
    frame = opened.options(**({} if "assign" in options else {"subscribe": topic}) | options).load()
    with pytest.raises(PySparkException) as caught:
        frame.count()
    assert words in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("source", ["read", "readStream"])
def test_wrong_options_are_refused_at_load(spark, broker, topic, source):
    from pyspark.errors import AnalysisException

    opened = reader(getattr(spark, source), broker, topic, **{"kafka.auto.offset.reset": "latest"})
    with pytest.raises(AnalysisException) as caught:
        opened.load()
    assert "Kafka option 'auto.offset.reset' is not supported" in str(caught.value)
    assert "Traceback" not in str(caught.value)

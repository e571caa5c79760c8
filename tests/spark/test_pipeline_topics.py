"""A topic as the sink of a pipeline: filter, enrich and route without another tool."""

import io
import json

import pytest
from pyspark.sql import types as spark_types
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.reports.status import status
from barnabas.spark.pipeline.rows import records
from barnabas.spark.pipeline.running import supervisor
from barnabas.spark.pipeline.sinks.sink import compact, open_table

FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "json"
schema = "id INT, name STRING"
[transform]
sql = "{sql}"
[sink]
kind = "topic"
topic = "{target}"
{more}
[restart]
attempts = 0
"""


def write(
    folder, *, broker="h:1", topic="t", target="out", sql="SELECT value.* FROM source", more="", end=""
):
    path = folder / "routed.toml"
    path.write_text(FILE.format(broker=broker, topic=topic, target=target, sql=sql, more=more) + end)
    return path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": "t"}, "sink.topic t is read by the pipeline itself"),
        ({"target": "a b"}, "sink.topic is 'a b', which is no name of a topic"),
        ({"more": 'mode = "merge"'}, "sink.mode is unknown"),
        ({"more": 'partitionBy = ["id"]'}, "sink.partitionBy is unknown"),
        ({"more": 'path = "table"'}, "sink.path is unknown"),
    ],
)
def test_what_a_topic_does_not_have_is_refused(tmp_path, given, words):
    with pytest.raises(PipelineError, match=words):
        load(write(tmp_path, **given))


@pytest.mark.parametrize(
    ("columns", "key", "words"),
    [
        ("id INT", ("nr",), "sink.key: the rows have no column nr; they have id"),
        ("key INT, value STRING", (), "column key is int: a record's is bytes or a text"),
        ("value STRUCT<a: INT>", (), "column value is struct<a:int>: a record's is bytes or a text"),
        ("key STRING, value STRING", ("key",), "sink.key has no use"),
    ],
)
def test_rows_that_are_no_records_are_refused(columns, key, words):
    from barnabas.spark import ddl

    with pytest.raises(PipelineError, match=words):
        records.check(ddl.columns(columns), key)
    assert isinstance(ddl.columns(columns), spark_types.StructType)


def test_a_batch_is_written_down_once_it_was_sent(tmp_path):
    sink = load(write(tmp_path)).sink
    with open_table(sink) as table:
        with pytest.raises(ZeroDivisionError):
            table.append("q", 0, {}, (), lambda _: 1 / 0)
        assert not table.has("q", 0)
        table.append("q", 0, {}, (), lambda _: ())
        assert table.has("q", 0)
        assert not table.has("q", 1)
        assert not table.has("other", 0)
        with pytest.raises(PipelineError, match="is being written by another process"):
            open_table(sink).__enter__()
    with pytest.raises(PipelineError, match="the broker merges"):
        compact(sink, 1, lambda *_: None)
    (sink.path / "_barnabas" / "sent.json").write_text('{"batch": "x"}')
    with pytest.raises(PipelineError, match=r"sent\.json is no note of a batch"):
        open_table(sink).has("q", 0)


class World:
    def __init__(self, spark, broker, topic, folder):
        self.spark, self.broker, self.topic, self.target, self.folder = (
            spark,
            broker,
            topic,
            f"{topic}-out",
            folder,
        )
        with Admin(broker) as admin:
            admin.topics.create([NewTopic(name, partitions=1) for name in (topic, self.target)])

    def send(self, *values):
        with Producer(self.broker) as producer:
            for value in values:
                producer.send_and_wait(
                    self.topic, json.dumps(value).encode(), key=b"k", headers=[("h", b"1")]
                )

    def run(self, **given):
        path = write(self.folder, broker=self.broker, topic=self.topic, target=self.target, **given)
        self.pipeline = load(path)
        return supervisor.run(self.spark, self.pipeline, Console(file=io.StringIO()))

    def sent(self):
        with Consumer(self.broker) as consumer:
            tp = TopicPartition(self.target, 0)
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            end, found = consumer.end_offsets([tp])[tp], []
            while len(found) < end:
                found += consumer.poll(1000)
            return [(one.key, one.value, list(one.headers)) for one in found]


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("routed"), tmp_path)


@pytest.mark.spark
def test_rows_become_records_and_rules_hold_before_they_are_sent(world):
    world.send({"id": 1, "name": "ü"}, {"id": 2}, {"id": -3})
    rules = '[[expect]]\nrule = "id > 0"\nviolation = "drop"\n'
    outcome = world.run(more='key = ["id"]', end=rules)
    assert (outcome.records_read, outcome.rows_written, outcome.rows_dropped) == (3, 2, 1)
    expected = [(b"1", '{"id":1,"name":"ü"}'.encode(), []), (b"2", b'{"id":2}', [])]
    assert world.sent() == expected
    assert (status(world.pipeline).state, status(world.pipeline).files) == ("ended", None)

    world.send({"id": 4}, {"id": -5})
    with pytest.raises(PipelineError, match="1 rows of the batch violate the rule id > 0"):
        world.run(more='key = ["id"]', end='[[expect]]\nrule = "id > 0"\n')
    assert world.sent() == expected
    # Spark's commit of the first batch is lost: it is asked for again, and not sent again.
    for commit in (world.folder / "checkpoint" / "commits").glob("*0*"):
        commit.unlink()
    world.run(more='key = ["id", "name"]')
    assert world.sent() == [*expected, (b'{"id":4}', b'{"id":4}', []), (b'{"id":-5}', b'{"id":-5}', [])]


@pytest.mark.spark
def test_rows_with_a_value_are_records_as_they_are(world):
    world.send({"id": 1})
    text = "SELECT concat(topic, '-out') AS topic, key, CAST(NULL AS BINARY) AS value, headers FROM source"
    path = write(world.folder, broker=world.broker, topic=world.topic, target=world.target, sql=text)
    path.write_text(path.read_text().replace("startingOffsets", 'includeHeaders = "true"\nstartingOffsets'))
    supervisor.run(world.spark, load(path), Console(file=io.StringIO()))
    assert world.sent() == [(b"k", None, [("h", b"1")])]

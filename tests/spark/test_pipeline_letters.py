"""Records that do not fit, and rules: what is put aside, where, in which words; when a pipeline stops."""

import dataclasses
import datetime as dt
import io
import json

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.dead_letters.replay import replay
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.reports.status import status
from barnabas.spark.pipeline.running import supervisor
from seeds import drawn_by_this_run

pytestmark = pytest.mark.spark

FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "json"
schema = "id INT, delay INT"
[transform]
sql = "SELECT value.id, value.delay, _record FROM source"
[sink]
kind = "delta"
path = "table"
[restart]
attempts = 0
[deadLetter]
kind = "{kind}"
{where}
"""


class World:
    """A topic, a topic of dead letters, and the pipeline between."""

    def __init__(self, spark, broker, topic, folder):
        self.spark, self.broker, self.topic, self.folder = spark, broker, topic, folder
        self.dead = f"{topic}-dlq"
        with Admin(broker) as admin:
            admin.topics.create([NewTopic(topic, partitions=1), NewTopic(self.dead, partitions=1)])

    def file(self, kind="topic", more=""):
        where = f'topic = "{self.dead}"' if kind == "topic" else 'path = "table~dlq"'
        where += '\ntable = "lake.letters"' if kind == "iceberg" else ""
        self.text = FILE.format(broker=self.broker, topic=self.topic, kind=kind, where=where) + more
        return self

    def replace(self, old, new):
        assert old in self.text
        self.text = self.text.replace(old, new)
        return self

    def send(self, *values):
        with Producer(self.broker) as producer:
            for number, value in enumerate(values):
                headers = [("h", b"\xff")] if number == 0 else []
                producer.send_and_wait(self.topic, value, key=b"k\xfe", headers=headers)

    def run(self):
        path = self.folder / "letters.toml"
        path.write_text(self.text)
        return supervisor.run(self.spark, load(path), Console(file=io.StringIO()))

    def ids(self):
        return sorted(DeltaTable(str(self.folder / "table")).to_pyarrow_table()["id"].to_pylist())

    def dead_records(self):
        with Consumer(self.broker, auto_offset_reset="earliest") as consumer:
            tp = TopicPartition(self.dead, 0)
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            end, found = consumer.end_offsets([tp])[tp], []
            while len(found) < end:
                found += consumer.poll(1000)
            return found


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("letters"), tmp_path)


def row(key, delay=0):
    return json.dumps({"id": key, "delay": delay}).encode()


def test_a_letter_on_a_topic_is_the_record_with_connects_headers(world):
    world.file().send(b"\xffno json", row(1), row(2), b"{")
    outcome = world.run()

    assert (outcome.records_read, outcome.rows_written, outcome.letters) == (4, 2, 2)
    assert world.ids() == [1, 2]
    first, second = world.dead_records()
    assert (first.key, first.value, second.value) == (b"k\xfe", b"\xffno json", b"{")
    headers = dict(first.headers)
    assert headers.pop("h") == b"\xff"
    assert headers == {
        "__connect.errors.topic": world.topic.encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"0",
        "__connect.errors.connector.name": b"letters",
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"barnabas.spark.pipeline",
        "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
        "__connect.errors.exception.message": b"it is no JSON that fits format.schema",
    }
    assert dict(second.headers)["__connect.errors.offset"] == b"3"


@pytest.mark.parametrize("kind", drawn_by_this_run(["parquet", "delta", "iceberg"], "table of letters"))
def test_a_table_of_letters_has_them_as_they_came(world, kind):
    world.file(kind).send(b"\xff", row(1))
    world.run()
    world.send(row(2), b"[")
    world.run()

    folder = world.folder / "table~dlq"
    if kind == "iceberg":
        catalog = load_catalog("default", uri=f"sqlite:///{world.folder}/catalog.db")
        table = catalog.load_table("lake.letters").scan().to_arrow()
    else:
        table = (
            DeltaTable(str(folder)).to_pyarrow_table() if kind == "delta" else ds.dataset(folder).to_table()
        )
    found = sorted(table.to_pylist(), key=lambda letter: letter["offset"])
    assert [(one["offset"], one["key"], one["value"], one["stage"]) for one in found] == [
        (0, b"k\xfe", b"\xff", "VALUE_CONVERTER"),
        (3, b"k\xfe", b"[", "VALUE_CONVERTER"),
    ]
    assert found[0]["headers"] == [{"key": "h", "value": b"\xff"}]
    assert world.ids() == [1, 2]


def test_letters_of_a_batch_that_comes_again_are_in_their_table_once(world, monkeypatch):
    from barnabas.spark.pipeline.tables.delta import DeltaFolder

    world.file("parquet").send(b"x", row(1))
    with monkeypatch.context() as patch:
        patch.setattr(DeltaFolder, "_commit", lambda *_: 1 / 0)
        with pytest.raises(PipelineError):
            world.run()
    world.run()

    assert ds.dataset(world.folder / "table~dlq").to_table()["offset"].to_pylist() == [0]
    assert world.ids() == [1]


def test_letters_of_a_batch_that_is_tried_again_count_once(world, monkeypatch):
    """A run had counted them with each try, and its status had more dead letters than records."""
    from barnabas.spark.pipeline.tables.delta import DeltaFolder

    rule = '[[expect]]\nrule = "delay >= -120"\nviolation = "deadLetter"\n'
    world.file(more=rule).replace("attempts = 0", 'attempts = 2\nbackoff = "1ms"')
    world.send(b"x", row(1), row(2, -121))
    commit, tries = DeltaFolder._commit, []

    def fails_once(*args):
        tries.append(args)
        return commit(*args) if len(tries) > 1 else 1 / 0

    monkeypatch.setattr(DeltaFolder, "_commit", fails_once)
    outcome = world.run()

    assert (outcome.letters, outcome.violations) == (2, {"delay >= -120": 1})
    assert (outcome.restarts, len(world.dead_records())) == (1, 4)
    assert status(load(world.folder / "letters.toml")).letters == 2


@pytest.mark.parametrize("limit", ["maxRecords = 1", "maxShare = 0.5"])
def test_too_many_letters_end_the_run_before_anything_is_written(world, limit):
    world.file("parquet", limit).send(b"x", row(1), b"y")
    words = rf"2 of 3 records of the batch do not fit, more than deadLetter\.{limit} allows; one is "
    with pytest.raises(PipelineError, match=words):
        world.run()
    assert not list((world.folder / "table~dlq").glob("*.parquet"))
    assert not DeltaTable.is_deltatable(str(world.folder / "table"))

    world.replace(limit, "maxRecords = 2\nmaxShare = 1").run()
    assert world.ids() == [1]


def test_rules_drop_put_aside_or_end(world):
    rules = """
[[expect]]
rule = "delay >= -120"
violation = "deadLetter"
[[expect]]
rule = "id < 100"
violation = "drop"
"""
    world.file("parquet", rules).send(row(1), row(2, -121), row(3, None), row(100), row(101, -500))
    outcome = world.run()

    assert world.ids() == [1, 3]
    assert (outcome.letters, outcome.rows_dropped) == (2, 1)
    found = ds.dataset(world.folder / "table~dlq").to_table().to_pylist()
    assert [(one["offset"], one["stage"], one["reason"]) for one in found] == [
        (1, "TRANSFORMATION", "it violates the rule delay >= -120"),
        (4, "TRANSFORMATION", "it violates the rule delay >= -120"),
    ]
    world.text += '[[expect]]\nrule = "id <> 7"\n'
    world.send(row(7), row(8))
    with pytest.raises(PipelineError, match=r"1 rows of the batch violate the rule id <> 7"):
        world.run()
    assert world.ids() == [1, 3]


def test_a_rule_that_asks_the_clock_says_one_thing_of_a_record(world):
    """Each job of Spark has a time of its own: records were no letters, and were not in the table either."""
    rule = "at > current_timestamp() + INTERVAL 30 SECONDS"
    world.file("delta", more=f'[[expect]]\nrule = "{rule}"\nviolation = "deadLetter"\n')
    world.replace("id INT, delay INT", "id INT, at TIMESTAMP").replace("value.delay", "value.at")
    now = dt.datetime.now(dt.UTC)
    with Producer(world.broker) as producer:
        for number in range(12_000):
            at = now + dt.timedelta(milliseconds=5 * number)
            producer.send(world.topic, json.dumps({"id": number, "at": at.isoformat()}).encode())
        producer.flush()
    world.run()
    letters = DeltaTable(str(world.folder / "table~dlq")).to_pyarrow_table()["offset"].to_pylist()
    assert letters
    assert world.ids()
    assert sorted([*letters, *world.ids()]) == list(range(12_000))


def test_a_rule_that_no_row_keeps_drops_them_all(world):
    """Spark left the rows out of its plan, and what counts them: the run ended with "assertion failed"."""
    world.file(more='[[expect]]\nrule = "current_date() < DATE \'2020-01-01\'"\nviolation = "drop"\n')
    world.send(row(1), row(2))
    outcome = world.run()
    assert (outcome.rows_written, outcome.rows_dropped) == (0, 2)


def test_an_empty_value_does_not_fit(world):
    """Spark reads null from it: it was a row of nulls."""
    world.file().send(b"", b" \n", row(1))
    assert world.run().letters == 2
    assert world.ids() == [1]


def test_rules_need_no_dead_letters(world):
    world.file(more='[[expect]]\nrule = "delay > 0"\nviolation = "drop"\n')
    start = world.text.index("[deadLetter]")
    world.text = world.text[:start] + world.text[world.text.index("[[expect]]") :]
    world.replace(", _record", "").send(row(1, 1), row(2, 0), row(3, 5))
    assert world.run().rows_dropped == 1
    assert world.ids() == [1, 3]


def test_null_keys_and_what_is_no_change_are_letters_of_a_merge(world):
    world.file("parquet").replace('kind = "delta"', 'kind = "delta"\nmode = "merge"\nkey = ["id"]')
    world.replace("[transform]\n", "").replace(
        'sql = "SELECT value.id, value.delay, _record FROM source"\n', ""
    ).replace('schema = "id INT, delay INT"', 'schema = "id INT, delay INT"\nenvelope = "debezium"\n'
              'key = { schema = "id INT" }')  # fmt: skip
    world.send(
        json.dumps({"op": "c", "after": {"id": 1, "delay": 2}}).encode(),
        json.dumps({"op": "c", "after": {"id": None, "delay": 2}}).encode(),
        json.dumps({"op": "x", "after": {"id": 3, "delay": 2}}).encode(),
        b"{{",
        None,
    )
    world.run()

    assert world.ids() == [1]
    found = ds.dataset(world.folder / "table~dlq").to_table().to_pylist()
    assert {one["offset"]: one["reason"] for one in found} == {
        1: "it has null in the key (id)",
        2: "is no change as Debezium writes them",
        3: "it is no JSON that fits format.schema",
        4: "it has null in the key (id)",
    }


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("_record", "1 AS x", "expect: the transformation must hand on the column _record"),
        ('"id > 0"', '"idd > 0"', r"expect\[0\]\.rule: .*idd"),
        ('"id > 0"', '"id > "', r"expect\[0\]\.rule: .*PARSE_SYNTAX_ERROR"),
        ('"id > 0"', '"id"', r"expect\[0\]\.rule is int: it must be true or false"),
        ("SELECT value.id, value.delay, _record", "SELECT DISTINCT value.id, _record",
            r"transform has a \w+ over batches, which \[deadLetter\] does not go with"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_before_anything_is_read(world, old, new, words):
    world.file(more='[[expect]]\nrule = "id > 0"\nviolation = "deadLetter"\n').replace(old, new)
    with pytest.raises(PipelineError, match=words) as caught:
        world.run()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", drawn_by_this_run(["topic", "parquet", "delta", "iceberg"], "sent again"))
def test_letters_are_sent_again_once(world, kind):
    """What was wrong is mended in the file; then the letters are records of their topic again."""
    world.file(kind).send(b'{"id": "one", "delay": 1}', row(2))
    assert world.run().letters == 1
    world.replace("id INT", "id STRING").replace("SELECT value.id", "SELECT length(value.id) AS id")

    def replayed():
        path = world.folder / "letters.toml"
        path.write_text(world.text)
        return replay(load(path))

    assert (replayed(), replayed()) == (1, 0)
    assert world.run().letters == 0
    assert world.ids() == [2, 3]
    world.replace("id STRING", "id INT").replace("length(value.id) AS id", "value.id").send(b"no")
    assert world.run().letters == 1
    assert (replayed(), replayed()) == (1, 0)


def test_a_replay_leaves_the_letters_of_others_on_a_topic_that_is_shared(world, caplog):
    """Each of two pipelines sent both letters, so each of them twice."""
    world.file().send(b"x")
    world.run()
    (mine,) = world.dead_records()
    name = "__connect.errors.connector.name"
    others = [(key, b"another" if key == name else value) for key, value in mine.headers]
    with Producer(world.broker) as producer:
        producer.send_and_wait(world.dead, b"y", headers=others)
    pipeline = load(world.folder / "letters.toml")
    assert (replay(pipeline), replay(pipeline)) == (1, 0)
    assert "1 letters on" in caplog.text
    assert replay(dataclasses.replace(pipeline, name="another")) == 1


def test_a_replay_keeps_partition_key_and_headers(world):
    world.file().send(b"x")
    world.run()
    path = world.folder / "letters.toml"
    replay(load(path))

    with Consumer(world.broker) as consumer:
        tp = TopicPartition(world.topic, 0)
        consumer.assign([tp])
        consumer.seek(tp, 1)
        (found,) = consumer.poll(10_000)
    assert (found.key, found.value, [*found.headers]) == (b"k\xfe", b"x", [("h", b"\xff")])


def test_what_cannot_be_sent_again_is_said_in_a_line(world):
    path = world.folder / "letters.toml"
    path.write_text(world.file().text)
    with Producer(world.broker) as producer:
        producer.send_and_wait(world.dead, b"no letter")
    with pytest.raises(
        PipelineError, match=r"-dlq-0 offset 0 is no dead letter: it has no headers __connect"
    ):
        replay(load(path))
    path.write_text(world.text.replace('path = "table"', 'path = "table"\nmode = "merge"\nkey = ["id"]'))
    with pytest.raises(PipelineError, match="an old record that is sent again would count as the newest"):
        replay(load(path))
    path.write_text(world.text[: world.text.index("[deadLetter]")])
    with pytest.raises(PipelineError, match=r"\[deadLetter\] is missing"):
        replay(load(path))

"""Records that are joined with tables, by the commands of the pipeline and on a real Spark."""

import json
import shutil
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Consumer, Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark import sessions
from barnabas.spark.errors import Failure
from barnabas.spark.pipeline.joined import joined_tables
from barnabas.spark.pipeline.sinks.sink import BatchSink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = {batch}
[format]
kind = "json"
schema = "id INT, carrier STRING"
{format}
{transform}
[sink]
kind = "delta"
path = "table"
{sink}
[restart]
attempts = 0
backoff = "100ms"
"""
JOIN = '[[join]]\ntable = "airlines"\nkind = "delta"\non = ["carrier"]\nas = "airline"\n'
SQL = "SELECT value.id, airline.name FROM source"
AA = {"carrier": "AA", "name": "American", "country": 1}
UA = {"carrier": "UA", "name": "United", "country": 2}


class World:
    """A topic, a table of airlines, and the pipeline that joins them."""

    def __init__(self, broker, topic, folder):
        self.broker, self.topic, self.folder = broker, topic, folder
        with Admin(broker) as admin:
            admin.topics.create([NewTopic(topic, partitions=1)])
        self.airlines(AA, UA)

    def airlines(self, *rows):
        shape = pa.schema([("carrier", pa.string()), ("name", pa.string()), ("country", pa.int64())])
        write_deltalake(self.folder / "airlines", pa.Table.from_pylist(list(rows), shape), mode="overwrite")

    def send(self, *records):
        with Producer(self.broker) as producer:
            for number, carrier in records:
                value = None if carrier is None else json.dumps({"id": number, "carrier": carrier})
                producer.send_and_wait(self.topic, value and value.encode(), key=b"%d" % number)

    def write(self, *, batch=1000, sql=SQL, more=JOIN, sink="", **words):
        transform = f'[transform]\nsql = "{sql}"' if sql else ""
        text = FILE.format(
            broker=self.broker, topic=self.topic, batch=batch, transform=transform, sink=sink,
            format=words.get("format", ""),
        )  # fmt: skip
        (self.folder / "flights.toml").write_text(text + more)

    def call(self, command, **given):
        self.write(**given)
        return CliRunner().invoke(cli, ["pipeline", command, str(self.folder / "flights.toml")])

    def run(self, **given):
        done = self.call("run", **given)
        assert done.exit_code == 0, done.output
        return done.output

    def rows(self, name="table"):
        found = DeltaTable(str(self.folder / name)).to_pyarrow_table().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=str)


@pytest.fixture
def world(spark, broker, topic_name, tmp_path, monkeypatch):
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sessions, "make", lambda *_, **__: spark)
    handler = signal.getsignal(signal.SIGTERM)
    yield World(broker, topic_name("joined"), tmp_path)
    signal.signal(signal.SIGTERM, handler)


def test_records_have_the_columns_of_tables_that_change(world, monkeypatch):
    """All commands; a join with what another one found; and a table that changes between two batches."""
    pq.write_table(
        pa.table({"number": pa.array([1], pa.int32()), "code": ["US"]}), world.folder / "lands.parquet"
    )
    more = JOIN + '[[join]]\ntable = "lands.parquet"\nkind = "parquet"\non = { number = "airline.country" }\n'
    sql = "SELECT value.id, airline.name, lands.code FROM source"
    world.send((1, "AA"), (2, "UA"), (3, "ZZ"))

    assert world.call("check", sql=sql, more=more).output == "id int\nname string\ncode string\n"
    assert "+ name: string" in world.call("schema", sql=sql, more=more).output
    tried = world.call("try", sql=sql, more=more).output
    assert '{"id":1,"name":"American","code":"US"}\n{"id":2,"name":"United"}\n{"id":3}\n' in tried
    assert not (world.folder / "checkpoint" / "joins").exists()

    of = joined_tables.Copies.of

    def changing(self, batch):
        if batch == 2:
            world.airlines({**AA, "name": "New"}, {"carrier": "ZZ", "name": "Zebra", "country": 1})
        return of(self, batch)

    monkeypatch.setattr(joined_tables.Copies, "of", changing)
    world.run(sql=sql, more=more, batch=1)
    assert world.rows() == [(1, "American", "US"), (2, "United", None), (3, "Zebra", "US")]
    shutil.rmtree(world.folder / "checkpoint" / "joins")  # what another run has not kept
    world.send((4, "AA"))
    world.run(sql=sql, more=more)
    assert world.rows()[-1] == (4, "New", "US")


def test_what_only_spark_knows_of_a_join_is_one_line_too(world):
    for given, words in (
        ({"more": JOIN.replace('["carrier"]', '{ carrier = "value.id + 1" }')},
            "join[0].on: value.id + 1 is int, and column carrier"),
        ({"more": JOIN.replace('["carrier"]', '{ carrier = "upper(value.x)" }')}, "join[0].on: [FIELD"),
        ({"more": JOIN.replace('["carrier"]', '{ carrier = "upper(" }')}, "join[0].on: [PARSE_SYNTAX_ERROR]"),
        ({"more": JOIN.replace('["carrier"]', '{ carrier = "explode(array(value.carrier))" }')},
            "join[0].on has a function that makes several rows of one, such as explode"),
        ({"sql": "SELECT count(*) AS n FROM source"}, "over batches, which [[join]] does not go with"),
        ({"sql": "SELECT airline.nmae FROM source"}, "transform.sql: [FIELD_NOT_FOUND]"),
        ({"more": JOIN.replace('"airlines"', '"nowhere"')}, "there is no Delta table"),
    ):  # fmt: skip
        done = world.call("check", **given)
        assert done.exit_code == 1
        assert words in str(done.exception)
        assert "\n" not in str(done.exception)


def test_records_without_a_match_are_kept_dropped_or_letters(world):
    world.send((1, "AA"), (2, "ZZ"), (3, "AA"))
    world.airlines(AA, {**AA, "name": "Other"})
    done = world.call("run", more=JOIN + 'how = "inner"\n')
    assert done.exit_code == 1
    assert "airlines has 2 rows with carrier = 'AA'" in str(done.exception)
    assert not DeltaTable.is_deltatable(str(world.folder / "table"))

    world.run(more=JOIN + 'how = "inner"\nmany = true\n')
    assert world.rows() == [(1, "American"), (1, "Other"), (3, "American"), (3, "Other")]
    world.airlines(AA)
    world.send((4, "ZZ"), (5, "AA"))
    rule = '[[expect]]\nrule = "name IS NOT NULL"\nviolation = "deadLetter"\n'
    box = '[deadLetter]\nkind = "delta"\npath = "dead"\n'
    said = world.run(sql=SQL.replace(" FROM", ", _record FROM"), more=JOIN + rule + box)
    assert "1 rows written in 1 batches, 0 restarts, 1 dead letters" in said
    assert (5, "American") in world.rows()
    assert "it violates the rule name IS NOT NULL" in str(world.rows("dead"))


def test_a_table_that_is_changed_by_key_has_joined_columns(world):
    how = {"sink": 'mode = "merge"\nkey = ["id"]', "format": 'key = { kind = "text", schema = "id INT" }'}
    world.send((1, "AA"), (2, "UA"), (3, "ZZ"))
    world.run(sql="", **how)
    assert world.rows() == [(1, "AA", AA), (2, "UA", UA), (3, "ZZ", None)]
    world.send((1, "UA"), (2, None))
    world.run(sql="", **how)
    assert world.rows() == [(1, "UA", UA), (3, "ZZ", None)]


def test_a_batch_that_died_between_two_tables_sees_the_joined_table_as_it_was(world, monkeypatch):
    """Else the row that was written would be in the table of its new country too."""
    given = {"sql": "SELECT value.id, airline.country FROM source", "sink": ""}
    world.send((1, "AA"), (2, "UA"))
    world.write(**given)
    text = (world.folder / "flights.toml").read_text().replace('path = "table"', 'path = "lake/{country}"')
    (world.folder / "flights.toml").write_text(text)
    command = ["pipeline", "run", str(world.folder / "flights.toml")]
    take, written = BatchSink.take, []

    def die(self, *given):
        if written:
            self.failure = Failure("the disk is full", is_final=False)
            raise OSError(self.failure.reason)
        take(self, *given)
        written.append(given)

    monkeypatch.setattr(BatchSink, "take", die)
    assert "the disk is full" in str(CliRunner().invoke(cli, command).exception)
    monkeypatch.setattr(BatchSink, "take", take)
    assert world.rows("lake/1") == [(1, 1)]
    world.airlines({**AA, "country": 3}, UA)
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert (world.rows("lake/1"), world.rows("lake/2")) == ([(1, 1)], [(2, 2)])
    assert not (world.folder / "lake" / "3").exists()
    world.send((4, "AA"))
    assert CliRunner().invoke(cli, command).exit_code == 0
    assert world.rows("lake/3") == [(4, 3)]


def test_a_batch_that_failed_by_the_table_sees_it_mended(world):
    """Else it would fail by the copy that it saw first, whatever was done to the table."""
    rule = '[[expect]]\nrule = "name IS NOT NULL"\nviolation = "fail"\n'
    world.send((1, "AA"), (2, "ZZ"))
    assert "violate the rule name IS NOT NULL" in str(world.call("run", more=JOIN + rule).exception)
    world.airlines(AA, {**AA, "carrier": "ZZ", "name": "Zebra"})
    world.run(more=JOIN + rule)
    assert world.rows() == [(1, "American"), (2, "Zebra")]


def test_a_batch_with_letters_sees_the_table_as_they_saw_it(world, monkeypatch):
    """Else a record that was none is one by now, and the letters' table passes its batch over."""
    world.send((1, "AA"), (2, "ZZ"))
    rule = '[[expect]]\nrule = "name IS NOT NULL"\nviolation = "deadLetter"\n'
    given = {
        "sql": SQL.replace(" FROM", ", _record FROM"),
        "more": JOIN + rule + '[deadLetter]\nkind = "delta"\npath = "dead"\n',
    }
    take = BatchSink._take

    def die(self, query, rows, batch):
        if "name" in rows.columns:
            raise OSError("the disk is full")
        take(self, query, rows, batch)

    monkeypatch.setattr(BatchSink, "_take", die)
    assert "the disk is full" in str(world.call("run", **given).exception)
    monkeypatch.setattr(BatchSink, "_take", take)
    world.airlines({**AA, "carrier": "ZZ", "name": "Zebra"})
    world.run(**given)
    assert world.rows() == [(1, "American")]
    assert len(world.rows("dead")) == 1


def test_columns_and_folders_may_have_any_name(world):
    odd = "a`b.c'\"; --"
    table = pa.table({odd: ["AA"], "name": ["American"]})
    folder = world.folder / "[x] {a}*?%20"
    folder.mkdir()
    pq.write_table(table, folder / "airlines")
    world.send((1, "AA"))
    key = json.dumps(odd)
    world.write(more=f'[[join]]\ntable = "airlines"\nkind = "parquet"\non = {{ {key} = "value.carrier" }}\n',
                sql="SELECT value.id, airlines.name FROM source")  # fmt: skip
    (world.folder / "flights.toml").rename(folder / "flights.toml")
    text = (folder / "flights.toml").read_text().replace('path = "table"', 'path = "../table"')
    (folder / "flights.toml").write_text(text)
    done = CliRunner().invoke(cli, ["pipeline", "run", str(folder / "flights.toml")])
    assert done.exit_code == 0, done.output + str(done.exception)
    assert world.rows() == [(1, "American")]


def test_a_table_that_is_away_is_waited_for_with_a_line(world, monkeypatch):
    """Before the first batch and between two of them; no attempt is counted, of which there are none."""
    world.send((1, "AA"), (2, "UA"))
    world.run()  # one that never was there is refused
    world.send((3, "AA"), (4, "UA"))
    here, away = world.folder / "airlines", world.folder / "moved"
    here.rename(away)
    waits, say = [], Console.print

    def noticing(self, *words, **more):
        say(self, *words, **more)
        if "waits: " in str(words) and away.exists():
            waits.append(str(words))
            away.rename(here)

    of = joined_tables.Copies.of

    def leaving(self, batch):
        if batch == 2 and len(waits) == 1:
            here.rename(away)
        return of(self, batch)

    monkeypatch.setattr(Console, "print", noticing)
    monkeypatch.setattr(joined_tables.Copies, "of", leaving)
    said = world.run(batch=1)
    assert world.rows() == [(1, "American"), (2, "United"), (3, "American"), (4, "United")]
    assert len(waits) == 2
    assert all("join[0]: the table" in line and "there is no Delta table" in line for line in waits)
    assert "2 records read, 2 rows written in 2 batches, 1 restarts" in said


def test_records_of_a_topic_keep_their_order(world, topic_name):
    """A join that sorts would bring those of a key out of theirs."""
    target = topic_name("enriched")
    with Admin(world.broker) as admin:
        admin.topics.create([NewTopic(target, partitions=1)])
    world.send(*((number, ("UA", "AA", "ZZ")[number % 3]) for number in range(30)))
    world.write(more=JOIN + "[spark]\nsql.autoBroadcastJoinThreshold = -1\n")
    text = (world.folder / "flights.toml").read_text()
    text = text.replace('kind = "delta"\npath = "table"', f'kind = "topic"\ntopic = "{target}"')
    (world.folder / "flights.toml").write_text(text)
    done = CliRunner().invoke(cli, ["pipeline", "run", str(world.folder / "flights.toml")])
    assert done.exit_code == 0, done.output
    with Consumer(world.broker) as consumer:
        tp = TopicPartition(target, 0)
        consumer.assign([tp])
        consumer.seek_to_beginning(tp)
        found = []
        while len(found) < 30:
            found += [json.loads(record.value) for record in consumer.poll(1000)]
    assert [one["id"] for one in found] == list(range(30))
    assert found[0] == {"id": 0, "name": "United"}

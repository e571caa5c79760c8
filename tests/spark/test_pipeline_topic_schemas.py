"""Many topics, each with its own schema and its own table."""

import io
import json
import struct
import threading

import fastavro
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Producer
from barnabas.operations.schemas.registry import RegistryAwayError
from barnabas.spark import sessions
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.formats.reader_schema import keep, settled
from barnabas.spark.pipeline.many_tables import topic_tables
from barnabas.spark.pipeline.running import supervisor
from barnabas.spark.pipeline.sinks.sink import BatchSink
from schema_registry import SchemaRegistry, serving
from waiting import until

FILE = """
checkpoint = "checkpoint"
events = "topics.events"
trigger = "{trigger}"
[source]
kafka.bootstrap.servers = "{broker}"
subscribePattern = "{prefix}.*"
startingOffsets = "earliest"
[format]
{format}
[transform]
sql = "SELECT value.* {more} FROM source"
[sink]
kind = "delta"
path = "{path}"
{sink}
[restart]
attempts = 0
backoff = "100ms"
{end}
"""
REGISTRY = 'kind = "avro"\nheader = "confluent"\nschema = "latest"\nregistry = {{ url = "{}" }}'
SECTIONS = (
    'kind = "json"\n[format.topics."{0}.orders"]\nschema = "id INT, amount DOUBLE"\n'
    '[format.topics."{0}.users"]\nkind = "csv"\ndelimiter = ";"\nschema = "name STRING, age INT"\n'
)


def write(folder, **given):
    words = {"trigger": "availableNow", "broker": "h:1", "prefix": "p", "path": "lake/{topic}", "more": "",
             "sink": "", "end": "", "format": SECTIONS.format("p")}  # fmt: skip
    path = folder / "topics.toml"
    path.write_text(FILE.format(**{**words, **given}))
    return path


def test_sections_of_topics_stand_over_what_all_have(tmp_path):
    form = load(write(tmp_path)).format
    orders, users = form.of_topic("p.orders"), form.of_topic("p.users")
    assert (form.by_topic, orders.kind, orders.schema) == (True, "json", "id INT, amount DOUBLE")
    assert (users.kind, users.delimiter, users.notes_folder) == ("csv", ";", "topics/p.users")
    with pytest.raises(PipelineError, match=r'p\.new has no schema: give it \[format\.topics\."p\.new"\]'):
        form.of_topic("p.new")
    form = load(write(tmp_path, format='schema = "a INT"\n' + SECTIONS.format("p"))).format
    assert form.of_topic("p.new").schema == "a INT"


def test_each_topic_has_its_own_subject_unless_the_file_names_one(tmp_path):
    form = load(write(tmp_path, format=REGISTRY.format("http://h"))).format
    assert form.by_topic
    assert form.of_topic("p.new").latest.subject == "p.new-value"
    one = 'registry = { url = "http://h", subject = "all" }'
    form = load(
        write(tmp_path, format=f'kind = "avro"\nheader = "confluent"\nschema = "latest"\n{one}')
    ).format
    assert not form.by_topic
    keys = REGISTRY.format("http://h") + '\nkey = { kind = "avro", schema = "latest" }'
    pipeline = load(write(tmp_path, format=keys, sink='mode = "merge"\nkey = ["id"]'))
    assert topic_tables.of_topic(pipeline, "p.new").format.key.latest.subject == "p.new-key"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "lake"}, "format.topics needs a table for each topic: {topic}, and no other column"),
        ({"path": "lake/{topic}/{id}"}, "format.topics needs a table for each topic"),
        ({"format": REGISTRY.format("http://h"), "path": "lake"}, "format.registry.subject is missing: it"),
        ({"format": 'kind = "json"\n[format.topics]\norders = 5'}, "format.topics must be tables, each as"),
        ({"format": 'kind = "json"\n[format.topics."p.a"]\nschema = "a INTT"'},
            'format.topics."p.a".schema says that a is'),
        ({"format": 'kind = "json"\n[format.topics."p.a"]\nshema = "a INT"'},
            'format.topics."p.a".shema is unknown; did you mean schema?'),
        ({"format": 'kind = "json"\n[format.topics.p.a]\nschema = "a INT"'}, 'topics."p".schema is missing'),
        ({"end": '[deadLetter]\nkind = "topic"\ntopic = "d"\n',
            "format": 'kind = "json"\n[format.topics."p.a"]\nschema = "a INT"\nmalformed = "keep"'},
            "format.malformed must be fail with [deadLetter]"),
        ({"format": 'schema = "a INT"\nkind = "json"', "sink": 'mode = "merge"\nkey = ["a"]'},
            "sink.path has columns that are not in sink.key: topic"),
        ({"format": 'kind = "json"\nschema = "a INT"\n[format.topics."q.a"]\nschema = "b INT"'},
            'format.topics."q.a": source.subscribePattern does not have the topic'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path, given, words):
    with pytest.raises(PipelineError) as caught:
        load(write(tmp_path, **given))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_section_of_a_topic_that_is_not_read_is_refused(tmp_path):
    """It would be read by what all others have, and nobody would see it."""
    form = 'kind = "json"\nschema = "a INT"\n[format.topics."p.ordres"]\nschema = "b INT"'
    path = write(tmp_path, format=form)
    path.write_text(path.read_text().replace('subscribePattern = "p.*"', 'subscribe = "p.orders,p.users"'))
    with pytest.raises(PipelineError, match=r'"p\.ordres": the topic is unknown; did you mean p\.orders\?'):
        load(path)


def test_a_topic_that_was_given_up_with_its_subject_does_not_stop_the_others(tmp_path):
    registry = SchemaRegistry()
    for topic in ("p.orders", "p.users"):
        fields = [{"name": "id", "type": "int"}]
        registry.register(f"{topic}-value", json.dumps({"type": "record", "name": "a", "fields": fields}))
    with serving(registry) as address:
        pipeline = load(write(tmp_path, format=REGISTRY.format(address)))
        orders, users = (topic_tables.of_topic(pipeline, topic).format for topic in ("p.orders", "p.users"))
        pipeline.checkpoint.mkdir()
        keep(settled(orders, pipeline.checkpoint), pipeline.checkpoint)
        registry.broken = True
        with pytest.raises(RegistryAwayError):
            settled(orders, pipeline.checkpoint)
        registry.broken = False
        registry.subjects.clear()
        assert settled(orders, pipeline.checkpoint).version.subject == "p.orders-value"
        with pytest.raises(PipelineError, match=r"the registry has no subject p\.users-value"):
            settled(users, pipeline.checkpoint)


def test_topics_that_name_no_table_are_refused(tmp_path):
    pipeline = load(write(tmp_path))
    with pytest.raises(PipelineError, match=r"the topic _schemas names no table: letters of ASCII"):
        topic_tables.of_topic(pipeline, "_schemas")
    assert topic_tables.of_topic(pipeline, "p.users").sink.path == tmp_path / "lake" / "p.users"
    assert [topic for topic, _ in topic_tables.each(pipeline, ask=False)] == ["p.orders", "p.users"]
    pipeline = load(write(tmp_path, format=REGISTRY.format("http://h")))
    with pytest.raises(PipelineError, match="no topic is known without brokers"):
        topic_tables.each(pipeline, ask=False)


class World:
    """Topics, their registry and the pipeline."""

    def __init__(self, spark, broker, prefix, folder, registry):
        self.spark, self.broker, self.prefix = spark, broker, prefix
        self.folder, self.registry, self.said = folder, registry, io.StringIO()

    def create(self, *names):
        with Admin(self.broker) as admin:
            admin.topics.create([NewTopic(f"{self.prefix}.{name}", partitions=1) for name in names])

    def send(self, name, *values):
        with Producer(self.broker) as producer:
            for value in values:
                producer.send_and_wait(f"{self.prefix}.{name}", value)

    def avro(self, topic, record, /, **fields):
        fields = [{"name": one, "type": ["null", kind], "default": None} for one, kind in fields.items()]
        schema = {"type": "record", "name": topic, "fields": fields}
        number = self.registry.register(f"{self.prefix}.{topic}-value", json.dumps(schema))
        file = io.BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
        self.send(topic, struct.pack(">bI", 0, number) + file.getvalue())

    def write(self, **given):
        return write(self.folder, broker=self.broker, prefix=self.prefix, **given)

    def run(self, stop=None, **given):
        return supervisor.run(self.spark, load(self.write(**given)), Console(file=self.said), stop)

    def tables(self):
        found = {}
        for path in (self.folder / "lake").glob("*"):
            if DeltaTable.is_deltatable(str(path)):
                rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
                found[path.name.rpartition(".")[2]] = sorted(rows, key=str)
        return found


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("apart"), tmp_path, SchemaRegistry())


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_topics_of_a_registry_come_while_it_runs_and_grow_by_themselves(world, spark, monkeypatch):
    world.create("orders", "users")
    world.avro("orders", {"id": 1, "amount": 2.5}, id="int", amount="double")
    world.avro("users", {"name": "a"}, name="string")
    orders, users = [{"id": 1, "amount": 2.5}], [{"name": "a"}]
    stop = threading.Event()
    with serving(world.registry) as address:
        form = REGISTRY.format(address)
        given = {"format": form, "trigger": "100ms", "stop": stop}
        running = threading.Thread(target=world.run, kwargs=given)
        running.start()
        try:
            until(lambda: world.tables() == {"orders": orders, "users": users}, lambda: str(world.tables()))
            world.create("visits")
            world.registry.broken = True
            world.avro("visits", {"page": "p", "name": 7}, page="string", name="int")
            until(lambda: "waits: [SCHEMA_REGISTRY_AWAY]" in world.said.getvalue(), world.said.getvalue)
            world.registry.broken = False
            until(
                lambda: world.tables().get("visits") == [{"page": "p", "name": 7}],
                lambda: str(world.tables()),
            )
        finally:
            stop.set()
            running.join()

        world.avro("orders", {"id": 2, "amount": 1.0, "note": "n"}, id="int", amount="double", note="string")
        world.run(format=form)
        assert world.tables()["orders"] == [
            {"id": 1, "amount": 2.5, "note": None}, {"id": 2, "amount": 1.0, "note": "n"},
        ]  # fmt: skip
        assert (world.tables()["users"], len(world.tables()["visits"])) == (users, 1)

        monkeypatch.setattr(spark, "stop", lambda: None)
        monkeypatch.setattr(sessions, "make", lambda *_, **__: spark)
        said = CliRunner().invoke(cli, ["pipeline", "check", str(world.write(format=form))]).output
        assert f"{world.prefix}.users:\nname string\n{world.prefix}.visits:\npage string\nname int\n" in said
        world.avro("users", {"name": 5}, name="int")
        with pytest.raises(PipelineError, match=r"of the topic .*\.users: column name is int now and string"):
            world.run(format=form)
        said = CliRunner().invoke(cli, ["pipeline", "schema", str(world.write(format=form))])
        assert (said.exit_code, "! name: string in the table, int in the rows" in said.output) == (1, True)
        world.create("strange")
        world.send("strange", b"x")
        world.registry.subjects[f"{world.prefix}.users-value"].pop()  # the version that is refused
        with pytest.raises(PipelineError, match=r"the registry has no subject .*\.strange-value"):
            world.run(format=form)


@pytest.mark.spark
def test_a_column_that_a_topic_does_not_have_ends_the_run_at_once(world):
    """Its transformation is looked at when its first record comes."""
    world.create("orders")
    world.send("orders", b'{"id": 1, "amount": 2}')
    path = world.write(format=SECTIONS.format(world.prefix), more=", value.nothing")
    path.write_text(path.read_text().replace("attempts = 0", "attempts = 5"))
    words = rf"of the topic {world.prefix}\.orders: transform\.sql: \[FIELD_NOT_FOUND\]"
    with pytest.raises(PipelineError, match=words):
        supervisor.run(world.spark, load(path), Console(file=world.said))
    assert "restart" not in world.said.getvalue()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_topics_of_the_file_have_letters_rules_and_each_batch_once(world, spark, monkeypatch):
    world.create("orders", "users")
    world.send("orders", b'{"id": 1, "amount": 2.5}', b"{", b'{"id": -1, "amount": 1}')
    world.send("users", b"a;7", b"b;x")
    given = {
        "format": SECTIONS.format(world.prefix),
        "more": ", topic, _record",
        "end": '[deadLetter]\nkind = "delta"\npath = "dead"\n'
        '[[expect]]\nrule = "topic NOT LIKE \'%orders\' OR offset_of >= 0"\nviolation = "drop"\n',
    }
    given["more"] = ", topic, offset AS offset_of, _record"
    written, append = [], BatchSink._append

    def die(self, frame, batch):
        if "lake" in str(self._sink.path):
            if written:
                raise OSError("the disk is full")
            written.append(batch)
        append(self, frame, batch)

    monkeypatch.setattr(BatchSink, "_append", die)
    with pytest.raises(PipelineError, match=r"\.users: .*the disk is full"):
        world.run(**given)
    monkeypatch.setattr(BatchSink, "_append", append)
    outcome = world.run(**given)
    found = world.tables()
    assert [(row["id"], row["amount"]) for row in found["orders"]] == [(-1, 1.0), (1, 2.5)]
    assert [(row["name"], row["age"]) for row in found["users"]] == [("a", 7)]
    assert (outcome.rows_written, outcome.letters) == (1, 2)
    events = [json.loads(line) for line in (world.folder / "topics.events").read_text().splitlines()]
    told = [one["tables"] for one in events if one["event"] == "batch"]
    assert told == [{str(world.folder / "lake" / f"{world.prefix}.users"): 1}]
    letters = DeltaTable(str(world.folder / "dead")).to_pyarrow_table().to_pylist()
    assert sorted(one["value"] for one in letters) == [b"b;x", b"{"]

    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sessions, "make", lambda *_, **__: spark)
    tried = CliRunner().invoke(cli, ["pipeline", "try", str(world.write(**given))]).output
    assert f"{world.prefix}.orders: 3 records read, 2 rows, 1 that do not fit" in tried
    assert f"{world.prefix}.users: 2 records read, 1 rows, 1 that do not fit" in tried


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_tables_of_topics_are_changed_by_their_key(world):
    """The column of the topic need not be in it: each topic is a table, and a key is in no other one."""
    world.create("orders", "users")
    with Producer(world.broker) as producer:
        for topic, key, value in (
            ("orders", b"1", b'{"amount": 1}'), ("users", b"1", b'{"name": "a"}'),
            ("users", b"2", b'{"name": "b"}'), ("orders", b"1", b'{"amount": 2}'), ("users", b"2", None),
        ):  # fmt: skip
            producer.send_and_wait(f"{world.prefix}.{topic}", value, key=key)
    sections = "".join(
        f'[format.topics."{world.prefix}.{name}"]\nschema = "id INT, {column}"\n'
        for name, column in (("orders", "amount INT"), ("users", "name STRING"))
    )
    form = 'kind = "json"\nkey = { kind = "text", schema = "id INT" }\n' + sections
    world.run(format=form, more=", _change", sink='mode = "merge"\nkey = ["id"]')
    assert world.tables() == {"orders": [{"id": 1, "amount": 2}], "users": [{"id": 1, "name": "a"}]}

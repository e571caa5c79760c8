"""Protobuf and JSON of a schema registry, ``schema = "latest"``, and what `pipeline schema` shows."""

import io
import json
import struct
from dataclasses import replace

import fastavro
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyiceberg.catalog import load_catalog
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Producer
from barnabas.operations.schemas.protobuf import frame_indexes
from barnabas.spark.errors import FormatError, PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.formats.json_schema import columns_of
from barnabas.spark.pipeline.formats.proto_text import message_name
from barnabas.spark.pipeline.formats.reader_schema import settled
from barnabas.spark.pipeline.running import supervisor
from schema_registry import SchemaRegistry, serving

PROTO = """
syntax = "proto3"; // message Comment { }
package lake.v1;
import "google/protobuf/timestamp.proto";
/* message Other {} */
option java_package = "message Text { }";
enum Kind { message = 0; }
message First { message Inner { int32 a = 1; } oneof one { string b = 2; } message Second { } }
message Flight { string carrier = 1; reserved "message X {"; }
"""


@pytest.mark.parametrize(
    ("indexes", "name"),
    [([0], "lake.v1.First"), ([0, 0], "lake.v1.First.Inner"), ([0, 1], "lake.v1.First.Second"),
     ([1], "lake.v1.Flight")],
)  # fmt: skip
def test_messages_are_named_by_their_places(indexes, name):
    assert message_name(PROTO, indexes) == name


def test_a_place_that_the_file_does_not_have_is_said():
    for indexes in ([2], [1, 0], [-1], []):
        with pytest.raises(ValueError, match="which its schema does not have"):
            message_name(PROTO, indexes)
    assert message_name("message A {", [0]) == "A"
    assert message_name("}} message A {}", [0]) == "A"


@pytest.mark.parametrize(
    ("body", "found"),
    [(b"\0rest", ((0,), b"rest")), (b"\2\2rest", ((1,), b"rest")), (b"\4\0\2", ((0, 1), b""))],
)
def test_indexes_of_a_frame(body, found):
    assert frame_indexes(body) == found


@pytest.mark.parametrize("body", [b"", b"\4\0", b"\xff\xff\xff\xff\xff\xff", b"\1", b"\xfe\xff\xff\xff\x0f"])
def test_indexes_that_are_none_are_malformed(body):
    with pytest.raises(ValueError, match=r"which message it is|number of indexes"):
        frame_indexes(body)


def compiled(*messages, package="lake"):
    """A file of messages, each a name and its fields by their numbers, as a registry compiles it."""
    file = descriptor_pb2.FileDescriptorProto(name="", package=package, syntax="proto3")
    for name, fields in messages:
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            message.field.add(name=field, number=number, label=1, type=getattr(
                descriptor_pb2.FieldDescriptorProto, f"TYPE_{kind}"))  # fmt: skip
    return file


def text_of(file):
    return f"package {file.package};" + "".join(f"message {one.name} {{}}" for one in file.message_type)


def framed_message(number, index, file, name, **values):
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_named(file))
    cls = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}"))
    return struct.pack(">bI", 0, number) + index + cls(**values).SerializeToString()


def _named(file):
    named = descriptor_pb2.FileDescriptorProto()
    named.CopyFrom(file)
    named.name = "x.proto"
    return named


TOML = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "{kind}"
header = "confluent"
schema = "latest"
registry = {{ url = "{address}", timeout = "5s" }}
[transform]
sql = "SELECT value.* FROM source"
[sink]
kind = "delta"
path = "table"
[restart]
attempts = 0
backoff = "100ms"
"""


@pytest.fixture
def registry():
    return SchemaRegistry()


def settings(folder, address, kind, **more):
    path = folder / "latest.toml"
    path.write_text(TOML.format(**{"broker": "h:1", "topic": "t", "address": address, "kind": kind, **more}))
    return load(path)


def test_protobuf_is_read_by_its_newest_version(registry, tmp_path):
    """The order of messages, and fields, differ between the versions."""
    old = compiled(("Flight", {"carrier": "STRING"}), ("Other", {"x": "INT32"}))
    new = compiled(("Other", {"x": "INT32"}), ("Flight", {"carrier": "STRING", "delay": "INT32"}))
    first = registry.register("t-value", text_of(old), kind="PROTOBUF", compiled=old.SerializeToString())
    second = registry.register("t-value", text_of(new), kind="PROTOBUF", compiled=new.SerializeToString())
    with serving(registry) as address:
        pipeline = settings(tmp_path, address, "protobuf")
        found = settled(pipeline.format, pipeline.checkpoint)
        assert found.version.number == 2
        assert found.decoder.type.simpleString() == "struct<x:int>"  # the first message of the file
        path = tmp_path / "latest.toml"
        path.write_text(path.read_text().replace("[transform]", 'message = "lake.Flight"\n[transform]'))
        pipeline = load(path)
        form = settled(pipeline.format, pipeline.checkpoint)
        form.ids.prepare()
        column, malformed = form.ids.column_of(
            form.decoder,
            [
                framed_message(first, b"\0", old, "Flight", carrier="UA"),
                framed_message(second, b"\2\2", new, "Flight", carrier="AA", delay=7),
                framed_message(second, b"\0", new, "Other", x=1),
                framed_message(first, b"\2\x08", old, "Flight", carrier="UA"),
                None,
            ],
            [],
        )
    assert column.to_pylist()[:2] == [{"carrier": "UA", "delay": 0}, {"carrier": "AA", "delay": 7}]
    assert malformed == {
        2: "ValueError: it is a lake.Other, not a lake.Flight",
        3: "ValueError: its frame names message [4], which its schema does not have",
    }


def test_protobuf_has_what_its_file_imports(registry, tmp_path):
    time = compiled(("Stamp", {"at": "INT64"}), package="times")
    file = compiled(("Flight", {"carrier": "STRING"}))
    file.dependency.extend(["times.proto", "google/protobuf/timestamp.proto"])
    for number, kind in ((2, ".times.Stamp"), (3, ".google.protobuf.Timestamp")):
        file.message_type[0].field.add(name=f"f{number}", number=number, label=1, type=11, type_name=kind)
    registry.register("times", text_of(time), kind="PROTOBUF", compiled=time.SerializeToString())
    registry.register("t-value", text_of(file), [{"name": "times.proto", "subject": "times", "version": 1}],
                      kind="PROTOBUF", compiled=file.SerializeToString())  # fmt: skip
    with serving(registry) as address:
        pipeline = settings(tmp_path, address, "protobuf")
        found = settled(pipeline.format, pipeline.checkpoint)
    assert found.decoder.type.simpleString() == "struct<carrier:string,f2:struct<at:bigint>,f3:timestamp>"


def test_what_the_registry_lacks_is_one_line(registry, tmp_path):
    with serving(registry) as address:
        pipeline = settings(tmp_path, address, "avro")
        with pytest.raises(PipelineError, match="the registry has no subject t-value"):
            settled(pipeline.format, pipeline.checkpoint)
        registry.register("t-value", text_of(compiled()), kind="PROTOBUF")
        with pytest.raises(
            PipelineError, match="kind is avro, and the newest schema of t-value is of the kind PRO"
        ):
            settled(pipeline.format, pipeline.checkpoint)
        pipeline = settings(tmp_path, address, "protobuf")
        with pytest.raises(PipelineError, match="does not give the compiled form"):
            settled(pipeline.format, pipeline.checkpoint)


class Mending(Console):
    """A console that mends the registry once it has heard that the pipeline waits for it."""

    def __init__(self, registry):
        super().__init__(file=io.StringIO())
        self._registry = registry

    def print(self, *words, **more):
        super().print(*words, **more)
        if "waits: [SCHEMA_REGISTRY_AWAY]" in str(words):
            self._registry.broken = False


@pytest.mark.spark
def test_a_run_that_begins_while_the_registry_is_away_waits_for_its_newest_schema(
    spark, broker, topic_name, tmp_path, registry
):
    """By the schema that it read by before, a good record was a dead letter, and another one's new field was
    not in its row, for good.
    """
    topic = topic_name("away")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])

    def send(kind, record, *more):
        fields = [{"name": "id", "type": kind}, *more]
        schema = {"type": "record", "name": "R", "fields": fields}
        number = registry.register(f"{topic}-value", json.dumps(schema))
        file = io.BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
        with Producer(broker) as producer:
            producer.send_and_wait(topic, struct.pack(">bI", 0, number) + file.getvalue())

    with serving(registry) as address:
        settings(tmp_path, address, "avro", broker=broker, topic=topic)
        path, console = tmp_path / "latest.toml", Mending(registry)
        text = path.read_text().replace(
            'kind = "delta"', 'kind = "iceberg"'
        )  # whose columns may become wider
        path.write_text(
            text.replace("value.*", "value.*, _record") + '[deadLetter]\nkind = "parquet"\npath = "letters"\n'
        )
        send("int", {"id": 1})
        supervisor.run(spark, load(path), console)
        send("long", {"id": 2**40, "name": "b"}, {"name": "name", "type": "string", "default": ""})
        registry.broken = True
        outcome = supervisor.run(spark, load(path), console)
    assert outcome.letters == 0
    catalog = load_catalog("default", uri=f"sqlite:///{tmp_path}/catalog.db")
    rows = catalog.load_table("default.table").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, None), (2**40, "b")]


def test_a_version_that_is_kept_of_a_topic_and_damaged_is_said(registry, tmp_path):
    with serving(registry) as address:
        pipeline = settings(tmp_path, address, "avro")
        form = replace(pipeline.format, notes_folder="t")
        (pipeline.checkpoint / "t").mkdir(parents=True)
        (pipeline.checkpoint / "t" / "reader-schema.json").write_text("{")
        with pytest.raises(PipelineError, match=r"reader-schema\.json is no schema"):
            settled(form, pipeline.checkpoint)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'registry = { url = "http://h:1", timeout = "5s" }\n',
            "",
            "is 'latest', and format.registry is missing",
        ),
        ('header = "confluent"\n', "", "format.registry has no use without header"),
        ('subscribe = "t"', 'subscribePattern = "t.*"', "format.registry.subject is missing"),
        ('subscribe = "t"', 'subscribe = "t,u"', "format.registry.subject is missing"),
        ('kind = "avro"', 'kind = "csv"', r"format\.(registry|header)"),
    ],
)
def test_what_latest_needs_is_said_before_spark_starts(tmp_path, old, new, words):
    path = tmp_path / "latest.toml"
    text = TOML.format(broker="h:1", topic="t", address="http://h:1", kind="avro")
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(PipelineError, match=words) as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "columns"),
    [
        ({"a": {"type": "integer"}, "b c": {"type": ["null", "string"]}}, "a BIGINT, `b c` STRING"),
        ({"a": {"oneOf": [{"type": "null"}, {"type": "number"}]}}, "a DOUBLE"),
        ({"a": {"type": "string", "format": "date-time"}}, "a TIMESTAMP"),
        ({"a": {"$ref": "#/$defs/x~1y"}}, "a BOOLEAN"),
        ({"a": {"type": "integer", "connect.type": "int32"}}, "a INT"),
        ({"a": {"type": "array", "items": {"properties": {"b": {}}}}}, "a ARRAY<STRUCT<b: STRING>>"),
        ({"a": {"type": "object"}, "b": {"type": ["integer", "string"]}}, "a STRING, b STRING"),
        ({"a": True, "b": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}, "a STRING, b STRING"),
    ],
)
def test_columns_of_a_json_schema(schema, columns):
    whole = {"properties": schema, "$defs": {"x/y": {"type": "boolean"}}}
    assert columns_of(json.dumps(whole)) == columns
    assert (
        columns_of(json.dumps({"$ref": "#/definitions/R", **whole, "definitions": {"R": whole}})) == columns
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON Schema"), ("[]", "must be of an object"),
        ('{"type": "string"}', "must be of an object"),
        ('{"$ref": "#"}', "refers to itself"), ('{"$ref": "#/x"}', "refers to #/x, which it does not have"),
        ('{"$ref": "http://h/x"}', "only references within it"),
        ('{"properties": {"a": {"type": "object", "properties": {"a": {"$ref": "#"}}}}}', "is recursive"),
    ],
)  # fmt: skip
def test_what_is_no_json_schema_of_columns(text, words):
    with pytest.raises(FormatError, match=words):
        columns_of(text)


def json_schema(**properties):
    return json.dumps(
        {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    )


@pytest.mark.spark
def test_a_new_version_adds_columns_and_one_that_does_not_fit_stops(
    spark, broker, topic_name, tmp_path, registry
):
    topic = topic_name("latest")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])
    path = tmp_path / "latest.toml"

    def send(schema, *values):
        number = registry.register(f"{topic}-value", schema, kind="JSON")
        with Producer(broker) as producer:
            for value in values:
                producer.send_and_wait(topic, struct.pack(">bI", 0, number) + json.dumps(value).encode())

    def run():
        return supervisor.run(spark, load(path), Console(file=io.StringIO()))

    with serving(registry) as address:
        drafted = CliRunner().invoke(
            cli,
            [
                "pipeline",
                "init",
                str(path),
                "--topic",
                topic,
                "--bootstrap-server",
                broker,
                "--registry",
                address,
            ],
        )
        assert "no records yet" in str(drafted.exception)
        settings(tmp_path, address, "json", broker=broker, topic=topic)
        send(json_schema(id="integer"), {"id": 1})
        run()
        send(json_schema(id="integer", name="string"), {"id": 2, "name": "b"}, {"id": 3})
        run()
        rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
        assert sorted((row["id"], row["name"]) for row in rows) == [(1, None), (2, "b"), (3, None)]

        send(json_schema(id="string", name="string", more="number"), {"id": "x"})
        words = rf"^column id is string now and bigint in the table.*version 3 of {topic}-value, id 3\)$"
        with pytest.raises(PipelineError, match=words):
            run()
        from barnabas.spark.pipeline.reports.schema_report import report

        found = report(spark, load(path), 100)
        assert found.reads_by == f"version 3 of {topic}-value, id 3"
        assert [(one.sign, one.name, one.in_table, one.in_rows) for one in found.columns] == [
            ("!", "id", "bigint", "string"), (" ", "name", "string", "string"), ("+", "more", None, "double"),
        ]  # fmt: skip
        assert found.values == {"id 2": 2, "id 1": 1, "id 3": 1}
        assert "column id is string now" in found.refused


CHANGES = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "avro"
header = "confluent"
envelope = "debezium"
schema = "latest"
registry = {{ url = "{address}" }}
key = {{ kind = "avro", schema = "latest" }}
[sink]
kind = "delta"
path = "table"
mode = "merge"
key = ["id"]
[restart]
attempts = 0
"""
ROW = {"type": "record", "name": "Value", "fields": [
    {"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"], "default": None},
]}  # fmt: skip
ENVELOPE = {"type": "record", "name": "Envelope", "fields": [
    {"name": "before", "type": ["null", ROW], "default": None},
    {"name": "after", "type": ["null", "Value"], "default": None},
    {"name": "op", "type": "string"},
]}  # fmt: skip
KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}


def avro(number, schema, record):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    return struct.pack(">bI", 0, number) + file.getvalue()


@pytest.mark.spark
def test_changes_in_avro_have_keys_in_avro(spark, broker, topic_name, tmp_path, registry):
    """As Debezium writes them with Confluent's converter: a tombstone has nothing but its key."""
    topic = topic_name("avro-keys")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])
    keys = registry.register(f"{topic}-key", json.dumps(KEY))
    values = registry.register(f"{topic}-value", json.dumps(ENVELOPE))

    def send(key, change):
        value = None if change is None else avro(values, ENVELOPE, change)
        with Producer(broker) as producer:
            producer.send_and_wait(topic, value, key=avro(keys, KEY, {"id": key}))

    send(1, {"op": "c", "after": {"id": 1, "name": "a"}})
    send(2, {"op": "c", "after": {"id": 2, "name": "b"}})
    send(3, {"op": "r", "after": {"id": 3, "name": "c"}})
    send(2, None)
    send(3, {"op": "u", "after": {"id": 3, "name": "C"}})
    path = tmp_path / "changes.toml"
    with serving(registry) as address:
        path.write_text(CHANGES.format(broker=broker, topic=topic, address=address))
        supervisor.run(spark, load(path), Console(file=io.StringIO()))
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["name"]) for row in rows) == [(1, "a"), (3, "C")]


def test_keys_in_avro_need_a_registry(tmp_path):
    path = tmp_path / "changes.toml"
    text = CHANGES.format(broker="h:1", topic="t", address="http://h:1").replace(
        'envelope = "debezium"\n', ""
    )
    for old, new, words in (
        (
            'kind = "avro"\nheader = "confluent"',
            'kind = "binary"',
            "format.key.kind is 'avro', and format.registry",
        ),
        ('subscribe = "t"', 'subscribe = "t,u"', "format.registry.subject is missing"),
    ):
        assert old in text
        changed = text.replace(old, new)
        if "binary" in new:
            changed = changed.replace('schema = "latest"\nregistry = { url = "http://h:1" }\n', "")
        path.write_text(changed)
        with pytest.raises(PipelineError, match=words):
            load(path)

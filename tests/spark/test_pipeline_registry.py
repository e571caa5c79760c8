"""Values of a schema registry: each is read by the schema that it was written with."""

import datetime as dt
import io
import json
import socket
import struct
import threading
from decimal import Decimal

import fastavro
import pytest
from deltalake import DeltaTable
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.operations.schemas.registry import RegistryAwayError, RegistryClient, RegistryError
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.formats.avro import AvroDecoder
from barnabas.spark.pipeline.formats.registry import RegistrySchemas
from barnabas.spark.pipeline.running import supervisor
from schema_registry import SchemaRegistry, serving

READER = {
    "type": "record", "name": "User", "fields": [
        {"name": "id", "type": "long"},
        {"name": "full_name", "type": "string", "aliases": ["name"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["B", "A"]}, "default": "A"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1000},
        {"name": "sum", "default": "\u0001\u0000", "type": {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}  # fmt: skip
SECOND = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
MORE = {"at": SECOND, "sum": Decimal("2.56")}
OLD = {"type": "record", "name": "User", "fields": [
    {"name": "name", "type": "string"}, {"name": "id", "type": "int"},
]}  # fmt: skip


def framed(number, schema, record):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    return struct.pack(">bI", 0, number) + file.getvalue()


@pytest.fixture
def registry():
    return SchemaRegistry()


def read(address, folder, *values, reader=READER, **options):
    schemas = RegistrySchemas(folder / "checkpoint", RegistryClient(address, **options))
    (folder / "checkpoint").mkdir(exist_ok=True)
    schemas.prepare()
    column, malformed = schemas.column_of(AvroDecoder(json.dumps(reader), confluent=True), values, [])
    return column.to_pylist(), malformed


def test_each_value_is_read_by_its_own_schema(registry, tmp_path):
    old, new = registry.register("u", json.dumps(OLD)), registry.register("u", json.dumps(READER))
    with serving(registry) as address:
        found, malformed = read(
            address,
            tmp_path,
            framed(old, OLD, {"name": "a", "id": 1}),
            None,
            framed(
                new,
                READER,
                {"id": 2**40, "full_name": "b", "kind": "B", "age": 7, "at": SECOND, "sum": Decimal("-0.01")},
            ),
            framed(old, OLD, {"name": "c", "id": 3}),
        )
    assert malformed == {}
    assert found == [
        {"id": 1, "full_name": "a", "kind": "A", "age": None, **MORE},
        None,
        {"id": 2**40, "full_name": "b", "kind": "B", "age": 7, "at": SECOND, "sum": Decimal("-0.01")},
        {"id": 3, "full_name": "c", "kind": "A", "age": None, **MORE},
    ]
    assert sorted(registry.asked) == [f"/schemas/ids/{old}", f"/schemas/ids/{new}"]


WIDE = {"type": "record", "name": "Event", "aliases": ["shop.OrderMade", "UserSeen"], "fields": [
    {"name": "order", "type": ["null", "long"], "default": None},
    {"name": "user", "type": ["null", "string"], "default": None},
    {"name": "amount", "type": ["null", "double"], "default": None},
]}  # fmt: skip
ORDER = {"type": "record", "name": "shop.OrderMade", "fields": [
    {"name": "amount", "type": "double"}, {"name": "order", "type": "int"},
]}  # fmt: skip
USER = {"type": "record", "name": "UserSeen", "fields": [
    {"name": "user", "type": "string"}, {"name": "more", "type": "int"},
]}  # fmt: skip


def test_events_of_several_kinds_fill_a_few_columns_each(registry, tmp_path):
    """The page says so: their records are aliases of one that has the fields of all."""
    order, user = registry.register("o", json.dumps(ORDER)), registry.register("u", json.dumps(USER))
    other = registry.register("x", json.dumps({**USER, "name": "UserGone"}))
    with serving(registry) as address:
        found, malformed = read(
            address, tmp_path, framed(order, ORDER, {"order": 1, "amount": 2.5}),
            framed(user, USER, {"user": "a", "more": 1}), framed(other, USER, {"user": "b", "more": 1}),
            reader=WIDE,
        )  # fmt: skip
    assert found[:2] == [
        {"order": 1, "user": None, "amount": 2.5}, {"order": None, "user": "a", "amount": None},
    ]  # fmt: skip
    assert list(malformed) == [2]


def test_what_is_known_needs_no_registry_and_what_is_not_holds_the_batch(registry, tmp_path, monkeypatch):
    from barnabas.spark.pipeline.formats import registry as module

    old = registry.register("u", json.dumps(OLD))
    value = framed(old, OLD, {"name": "a", "id": 1})
    with serving(registry) as address:
        read(address, tmp_path, value)
    monkeypatch.setattr(module, "_known", {})  # another process
    assert read(address, tmp_path, value)[0][0]["id"] == 1
    with pytest.raises(RegistryAwayError, match=r"^\[SCHEMA_REGISTRY_AWAY\] .*does not answer"):
        read(address, tmp_path, value, framed(99, OLD, {"name": "a", "id": 1}))


def test_a_registry_that_is_broken_says_nothing_of_a_value(registry, tmp_path):
    registry.broken = True
    with serving(registry) as address, pytest.raises(RegistryAwayError, match="HTTP 500"):
        read(address, tmp_path, framed(1, OLD, {"name": "a", "id": 1}))


def test_values_that_cannot_be_resolved_are_malformed(registry, tmp_path):
    other = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}
    strange = registry.register("u", json.dumps(other))
    proto = registry.register("u", 'syntax = "proto3";', kind="PROTOBUF")
    old = registry.register("u", json.dumps(OLD))
    good = framed(old, OLD, {"name": "a", "id": 1})
    with serving(registry) as address:
        found, malformed = read(
            address, tmp_path,
            framed(strange, other, {"id": "x"}), framed(proto, OLD, {"name": "a", "id": 1}),
            framed(77, OLD, {"name": "a", "id": 1}), b"\x01", b"\x00\x00", good + b"!", good,
        )  # fmt: skip
    assert [row for row in range(7) if row not in malformed] == [6]
    assert "Schema" in malformed[0]
    assert "PROTOBUF, not AVRO" in malformed[1]
    assert malformed[2] == "ValueError: the registry has no schema with the id 77"
    assert "1 bytes are behind the record" in malformed[5]
    assert found[6]["id"] == 1


def test_schemas_refer_to_others(registry, tmp_path):
    street = {"type": "record", "name": "org.Street", "fields": [{"name": "name", "type": "string"}]}
    place = {"type": "record", "name": "org.Place", "fields": [
        {"name": "street", "type": "org.Street"}, {"name": "other", "type": ["null", "org.Street"]},
    ]}  # fmt: skip
    user = {"type": "record", "name": "org.User", "fields": [
        {"name": "id", "type": "int"}, {"name": "home", "type": "org.Place"},
    ]}  # fmt: skip
    registry.register("street", json.dumps(street))
    registry.register("place", json.dumps(place), [{"name": "org.Street", "subject": "street", "version": 1}])
    number = registry.register(
        "u", json.dumps(user), [{"name": "org.Place", "subject": "place", "version": 1}]
    )
    whole = json.loads(json.dumps(user))
    whole["fields"][1]["type"] = json.loads(json.dumps(place))
    whole["fields"][1]["type"]["fields"][0]["type"] = street
    record = {"id": 1, "home": {"street": {"name": "a"}, "other": {"name": "b"}}}
    with serving(registry) as address:
        found, malformed = read(address, tmp_path, framed(number, whole, record), reader=whole)
    assert (found, malformed) == ([record], {})


def test_a_login_that_is_refused_is_no_fault_of_the_registry(registry, tmp_path):
    registry.login = ("pipeline", "s3cret")
    number = registry.register("u", json.dumps(OLD))
    value = framed(number, OLD, {"name": "a", "id": 1})
    with serving(registry) as address:
        assert read(address, tmp_path, value, username="pipeline", password="s3cret")[1] == {}
        with pytest.raises(RegistryError, match=r"refuses the user pipeline \(HTTP 401\)") as caught:
            read(address, tmp_path / "..", framed(number + 1, OLD, {"name": "a", "id": 1}),
                 username="pipeline", password="wr0ng")  # fmt: skip
    assert not isinstance(caught.value, RegistryAwayError)
    assert "wr0ng" not in str(caught.value)
    assert "s3cret" not in repr(RegistryClient("http://h", "pipeline", "s3cret"))


def test_a_registry_that_answers_byte_by_byte_is_away():
    ended = threading.Event()

    def drip(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not ended.wait(0.02):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener,))
        server.start()
        client = RegistryClient(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=0.5)
        with pytest.raises(RegistryAwayError, match="no whole answer"):
            client.schema(1)
        ended.set()
        server.join()


FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "avro"
header = "confluent"
schema = '''{schema}'''
registry = {{ url = "{address}", timeout = "5s" }}
[transform]
sql = "SELECT value.* FROM source"
[sink]
kind = "delta"
path = "table"
[restart]
attempts = 0
backoff = "200ms"
"""


@pytest.mark.spark
def test_a_pipeline_waits_for_a_registry_that_is_away(spark, broker, topic_name, tmp_path, registry):
    """The registry is broken when the pipeline begins, and answers once it has heard that it waits."""
    topic = topic_name("registry")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])
    old, new = registry.register("u", json.dumps(OLD)), registry.register("u", json.dumps(READER))
    with Producer(broker) as producer:
        producer.send_and_wait(topic, framed(old, OLD, {"name": "a", "id": 1}))
        producer.send_and_wait(
            topic,
            framed(
                new,
                READER,
                {"id": 2, "full_name": "b", "kind": "B", "age": 7, "at": SECOND, "sum": Decimal("-0.01")},
            ),
        )
    registry.broken = True
    with serving(registry) as address:
        path = tmp_path / "users.toml"
        path.write_text(FILE.format(broker=broker, topic=topic, schema=json.dumps(READER), address=address))
        said = io.StringIO()

        class Noticing(Console):
            """A console that mends the registry once it has heard that the pipeline waits."""

            def print(self, *words, **more):
                super().print(*words, **more)
                if "waits: " in str(words):
                    registry.broken = False

        outcome = supervisor.run(spark, load(path), Noticing(file=said), threading.Event())
    assert outcome.restarts >= 1
    assert "does not answer: HTTP 500" in said.getvalue()
    table = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["full_name"], row["kind"], row["age"]) for row in table) == [
        (1, "a", "A", None), (2, "b", "B", 7),
    ]  # fmt: skip


@pytest.mark.spark
def test_a_login_that_is_refused_ends_the_run_at_once(spark, broker, topic_name, tmp_path, registry):
    """Executors are the ones that hear of it."""
    topic, registry.login = topic_name("registry"), ("pipeline", "s3cret")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=1)])
    with Producer(broker) as producer:
        producer.send_and_wait(topic, framed(1, OLD, {"name": "a", "id": 1}))
    path, console = tmp_path / "users.toml", Console(file=io.StringIO())
    with serving(registry) as address:
        text = FILE.format(broker=broker, topic=topic, schema=json.dumps(READER), address=address)
        path.write_text(text.replace("attempts = 0", "attempts = 5"))
        with pytest.raises(PipelineError, match=r"^users: the schema registry .* refuses the user"):
            supervisor.run(spark, load(path), console)
    assert "restart" not in console.file.getvalue()


def test_confluents_own_serializer_is_understood(registry, tmp_path):
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    with serving(registry) as address:
        client = SchemaRegistryClient({"url": address})
        context = SerializationContext("users", MessageField.VALUE)
        values = [
            AvroSerializer(client, json.dumps(schema))(record, context)
            for schema, record in (
                (OLD, {"name": "a", "id": 1}),
                (
                    READER,
                    {"id": 2, "full_name": "b", "kind": "B", "age": None, "at": SECOND, "sum": Decimal(1)},
                ),
            )
        ]
        found, malformed = read(address, tmp_path, *values)
    assert malformed == {}
    assert [(row["id"], row["full_name"], row["kind"]) for row in found] == [(1, "a", "A"), (2, "b", "B")]

"""The first file of a pipeline: what is guessed from a topic, and that it runs as it stands."""

import io
import json
import tomllib

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Producer
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.drafts import text, types
from barnabas.spark.pipeline.drafts.draft import Draft
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.running import supervisor


class World:
    """A topic, and what `pipeline init` writes of it."""

    def __init__(self, broker, topic, folder):
        self.broker, self.topic, self.path = broker, topic, folder / "drafted.toml"
        with Admin(broker) as admin:
            admin.topics.create([NewTopic(topic, partitions=2)])

    def send(self, *records):
        with Producer(self.broker) as producer:
            for key, value in records:
                producer.send_and_wait(
                    self.topic,
                    value if isinstance(value, bytes | None) else json.dumps(value).encode(),
                    key=key if isinstance(key, bytes | None) else json.dumps(key).encode(),
                )

    def init(self, *options):
        return CliRunner().invoke(
            cli,
            [
                "pipeline", "init", str(self.path), "--topic", self.topic, "--bootstrap-server", self.broker,
                *options,
            ],
        )  # fmt: skip

    def refused(self, words, *options):
        error = self.init(*options).exception
        assert isinstance(error, PipelineError)
        assert words in str(error)
        assert "\n" not in str(error)

    def drafted(self, *options):
        found = self.init(*options)
        assert found.exit_code == 0, found.output
        load(self.path)
        return tomllib.loads(self.path.read_text())


@pytest.fixture
def world(broker, topic_name, tmp_path):
    return World(broker, topic_name("drafts"), tmp_path)


def test_json_has_the_columns_of_its_objects(world):
    world.send(
        (None, {"carrier": "UA", "delay": 2, "at": "2013-01-01T05:17:00Z", "odd name": [1.5, None]}),
        (None, {"carrier": "AA", "delay": None, "at": "2013-01-01T23:59:00.5+01:00", "where": {"lat": 1}}),
    )
    found = world.drafted()
    assert found["format"] == {
        "kind": "json",
        "schema": "carrier STRING, delay BIGINT, at TIMESTAMP, `odd name` ARRAY<DOUBLE>, "
        "where STRUCT<lat: BIGINT>",
    } or set(found["format"]["schema"].split(", ")) == {
        "carrier STRING", "delay BIGINT", "at TIMESTAMP", "`odd name` ARRAY<DOUBLE>",
        "where STRUCT<lat: BIGINT>",
    }  # fmt: skip
    assert (found["sink"]["kind"], found["sink"]["eventTime"]) == (
        "parquet", {"column": "record_time", "by": "day"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (b"a;1", {"kind": "csv", "schema": "column1 STRING, column2 STRING", "delimiter": ";"}),
        (b"\xff\xfe", {"kind": "binary"}),
        (b"[1]", {"kind": "binary"}),
        (b"plain words", {"kind": "binary"}),
    ],
)  # fmt: skip
def test_what_is_no_object_of_json_is_csv_or_bytes(world, value, form):
    world.send((None, value))
    assert world.drafted()["format"] == form


@pytest.mark.parametrize(
    ("key", "options", "form", "columns"),
    [
        (b"7", (), {"kind": "text", "schema": "id BIGINT"}, ["id"]),
        (b"x-7", (), {"kind": "text", "schema": "record_key STRING"}, ["record_key"]),
        ({"id": 7}, (), {"schema": "id BIGINT"}, ["id"]),
        (None, ("--key", "name"), None, ["name"]),
    ],
)
def test_a_table_by_key_takes_it_from_the_keys_of_records(world, key, options, form, columns):
    world.send((key, {"id": 7, "name": "a"}))
    found = world.drafted("--mode", "merge", "--sink", "iceberg", *options)
    assert found["format"].get("key") == form
    assert (found["sink"]["mode"], found["sink"]["key"]) == ("merge", columns)


def test_changes_of_debezium_have_the_types_that_connect_says(world):
    schema = {"type": "struct", "fields": [
        {"field": "before", "type": "struct", "fields": []},
        {"field": "after", "type": "struct", "fields": [
            {"field": "id", "type": "int32"},
            {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal",
             "parameters": {"scale": "2", "connect.decimal.precision": "10"}},
            {"field": "at", "type": "int64", "name": "io.debezium.time.Timestamp"},
            {"field": "tags", "type": "array", "items": {"type": "string"}},
        ]},
    ]}  # fmt: skip
    after = {"id": 1, "price": "BOI=", "at": 1_000, "tags": ["a"]}
    world.send(
        ({"schema": {}, "payload": {"id": 1}}, {"schema": schema, "payload": {"op": "c", "after": after}})
    )
    found = world.drafted()
    assert found["format"] == {
        "kind": "json", "envelope": "debezium", "times": "millis", "decimals": "precise",
        "schema": "id INT, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>",
        "key": {"schema": "id INT"},
    }  # fmt: skip
    assert (found["sink"]["kind"], found["sink"]["mode"], found["sink"]["key"]) == ("delta", "merge", ["id"])


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        ((), (), "has no records yet"),
        (((None, {"id": 1}),), ("--mode", "merge"), "have no keys: name the columns of the key with --key"),
        (((b"1", {"id": 1}),), ("--mode", "merge", "--key", "nr"), "no such column; they have id"),
        (((b"1", {"id": 1}),), ("--mode", "merge", "--sink", "parquet"), "needs a table that changes"),
        (((None, {"op": "c", "after": {"id": 1}}),), (), "are changes without keys"),
        ((({"id": 1}, {"op": "c", "after": {"id": 1}}),), ("--mode", "append"),
            "mode must be merge or history"),
        (((None, b"\0\0\0\0\1x"),), (), "begin with the frame of a schema registry"),
    ],
)  # fmt: skip
def test_what_no_file_can_be_written_of_is_one_line(world, records, options, words):
    world.send(*records)
    world.refused(words, *options)
    assert not world.path.exists()


def test_a_file_that_is_there_stays(world):
    world.send((None, {"id": 1}))
    world.path.write_text("mine")
    assert "is there already" in world.init().output
    assert world.path.read_text() == "mine"


def test_a_topic_that_is_not_there_is_one_line(world):
    world.topic = "no-such-topic"
    world.refused("the topic no-such-topic", "--timeout", "500")


def test_passwords_are_left_to_the_environment():
    client = {"bootstrap.servers": "h:1", "ssl.key.password": "s3cret", "client.id": "${x}"}
    whole = text.text(Draft("t", 1, "binary"), text.TableChoice(), client)
    source = tomllib.loads(whole)["source"]["kafka"]
    assert (source["ssl"]["key"]["password"], source["client"]["id"]) == ("${SSL_KEY_PASSWORD}", "$${x}")
    assert "s3cret" not in whole


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None], "BIGINT"), ([1, 2.5], "DOUBLE"), ([True], "BOOLEAN"), ([True, 1], "STRING"),
        ([2**70], "DECIMAL(38,0)"), (["2013-01-01"], "DATE"), (["2013-01-01", "x"], "STRING"),
        ([None], "STRING"),
        ([{}], "STRING"), ([[], [1]], "ARRAY<BIGINT>"), ([[{"a": 1}, {"b-c": "x"}]],
         "ARRAY<STRUCT<a: BIGINT, `b-c`: STRING>>"), ([{"a": 1}, [1]], "STRING"),
    ],
)  # fmt: skip
def test_a_type_holds_all_values(values, kind):
    assert types.kind(values) == kind


def test_what_nests_without_end_is_a_text():
    deep = value = []
    for _ in range(100):
        inner = []
        value.append(inner)
        value = inner
    assert types.kind([deep]).count("ARRAY") <= 22


@pytest.mark.spark
def test_drafted_files_run_as_they_stand(spark, world):
    world.send((b"1", {"id": 1, "name": "a", "at": "2013-01-01T05:17:00Z"}), (b"2", {"id": 2, "name": None}))
    world.drafted()
    assert supervisor.run(spark, load(world.path), Console(file=io.StringIO())).rows_written == 2
    world.path.unlink()
    for place in (f"{world.topic}.checkpoint", world.topic):
        (world.path.parent / place).rename(world.path.parent / f"old-{place}")
    world.send((b"1", {"id": 1, "name": "A"}), (b"2", None))
    world.drafted("--mode", "merge")
    supervisor.run(spark, load(world.path), Console(file=io.StringIO()))
    rows = DeltaTable(str(world.path.parent / world.topic)).to_pyarrow_table().to_pylist()
    assert [(row["id"], row["name"]) for row in rows] == [(1, "A")]

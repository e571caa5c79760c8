"""Debezium's changes of a table of a database, from the topic to the columns."""

import base64
import datetime as dt
import io
import json
from decimal import Decimal

import pytest
from deltalake import DeltaTable
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline import supervisor
from barnabas.spark.pipeline.debezium import decimal_of
from barnabas.spark.pipeline.settings import load

pytestmark = pytest.mark.spark

FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
startingOffsets = "earliest"
[format]
kind = "json"
envelope = "debezium"
schema = "id INT, name STRING, price DECIMAL(10,2), made DATE, at TIMESTAMP"
key = {{ schema = "id INT" }}
[sink]
kind = "delta"
path = "table"
mode = "merge"
key = ["id"]
[restart]
attempts = 0
"""


def row(key, name, price="12.50", **more):
    unscaled = int(Decimal(price).scaleb(2))
    size = unscaled.bit_length() // 8 + 1
    return {
        "id": key, "name": name,
        "price": base64.b64encode(unscaled.to_bytes(size, "big", signed=True)).decode(),
        "made": 15706, "at": 1_357_041_600_000_001, **more,
    }  # fmt: skip


def change(op, before=None, after=None):
    return {"before": before, "after": after, "op": op, "ts_ms": 2, "source": {"ts_ms": 1, "lsn": 5}}


def with_schema(payload):
    """As converters write it with ``schemas.enable``."""
    return {"schema": {"type": "struct", "optional": False}, "payload": payload}


@pytest.fixture
def world(spark, broker, topic_name, tmp_path):
    return World(spark, broker, topic_name("changes"), tmp_path)


class World:
    """A topic of changes and the pipeline that reads it."""

    def __init__(self, spark, broker, topic, folder):
        self.spark, self.broker, self.topic, self.folder = spark, broker, topic, folder
        with Admin(broker) as admin:
            admin.topics.create([NewTopic(topic, partitions=1)])
        self.file = FILE.format(broker=broker, topic=topic)

    def send(self, *changes):
        with Producer(self.broker) as producer:
            for key, value in changes:
                producer.send_and_wait(
                    self.topic,
                    None if value is None else json.dumps(value).encode(),
                    key=None if key is None else json.dumps(key).encode(),
                )

    def run(self):
        path = self.folder / "changes.toml"
        path.write_text(self.file)
        return supervisor.run(self.spark, load(path), Console(file=io.StringIO()))

    def rows(self):
        found = DeltaTable(str(self.folder / "table")).to_pyarrow_table().to_pylist()
        return sorted(found, key=lambda row: row["id"])


def test_changes_become_the_rows_of_the_database(world):
    world.send(
        ({"id": 1}, change("r", after=row(1, "a"))),
        ({"id": 2}, change("r", after=row(2, "b"))),
        ({"id": 3}, with_schema(change("c", after=row(3, "c", "-0.01")))),
        (with_schema({"id": 2}), change("u", row(2, "b"), row(2, "B", "99999999.99"))),
        ({"id": 1}, change("d", row(1, None, price="0"))),
        ({"id": 1}, None),
    )
    world.run()

    assert world.rows() == [
        {
            "id": key, "name": name, "price": Decimal(price), "made": dt.date(2013, 1, 1),
            "at": dt.datetime(2013, 1, 1, 12, 0, 0, 1, tzinfo=dt.UTC),
        }
        for key, name, price in ((2, "B", "99999999.99"), (3, "c", "-0.01"))
    ]  # fmt: skip
    world.send(
        ({"id": 3}, None),  # compaction has left the tombstone alone
        ({"id": 2}, change("d")),  # without a row before, as REPLICA IDENTITY NOTHING has it
        ({"id": 4}, change("c", after=row(4, "d", made=None, at="2013-01-01T12:00:00.000001Z"))),
    )
    world.run()
    assert [(one["id"], one["made"], one["at"].microsecond) for one in world.rows()] == [(4, None, 1)]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (change("t"), "offset 1 is a TRUNCATE, which is not applied"),
        (
            change("u", after=row(1, "__debezium_unavailable_value")),
            "offset 1 has __debezium_unavailable_value",
        ),
        (change("u"), "offset 1 is no change as Debezium writes them"),
        ({"id": 1, "name": "a"}, "offset 1 is no change as Debezium writes them"),
    ],
)
def test_what_cannot_be_applied_ends_the_run_with_its_place(world, value, words):
    world.send(({"id": 7}, change("c", after=row(7, "x"))), ({"id": 1}, value))
    with pytest.raises(PipelineError, match=words) as caught:
        world.run()
    assert "\n" not in str(caught.value)


def test_a_plain_topic_of_rows_is_merged_by_the_key_of_its_records(world):
    columns = "id INT, name STRING, price DECIMAL(10,2), made DATE, at TIMESTAMP"
    world.file = (
        world.file.replace('envelope = "debezium"\n', "")
        .replace(columns, "name STRING")
        .replace('{ schema = "id INT" }', '{ kind = "text", schema = "id BIGINT" }')
    )
    world.send((1, {"name": "a"}), (2, {"name": "b"}), (1, {"name": "A"}), (2, None), (3, {"name": "c"}))
    world.run()
    assert world.rows() == [{"id": 1, "name": "A"}, {"id": 3, "name": "c"}]

    world.send((None, {"name": "nobody"}))
    with pytest.raises(PipelineError, match=r"1 records have null in the key \(id\), .*-0 offset 5"):
        world.run()


def test_sql_hands_on_what_tells_changes_apart(world):
    world.file += (
        '\n[transform]\nsql = "SELECT value.id, upper(value.name) AS name, op, _change FROM source"\n'
    )
    world.send(({"id": 1}, change("c", after=row(1, "a"))), ({"id": 2}, change("c", after=row(2, "b"))))
    world.send(({"id": 2}, None))
    world.run()
    assert world.rows() == [{"id": 1, "name": "A", "op": "c"}]

    world.file = world.file.replace(", _change", "")
    with pytest.raises(PipelineError, match="must hand on the column _change"):
        world.run()


@pytest.mark.parametrize(
    ("whole", "scale", "found"),
    [
        (0, 2, "0.00"),
        (-1, 0, "-1"),
        (10**38 - 1, 10, f"{'9' * 28}.{'9' * 10}"),
        (-(2**63), 3, "-9223372036854775.808"),
    ],
)
def test_decimals_of_bytes(whole, scale, found):
    text = base64.b64encode(whole.to_bytes(17, "big", signed=True)).decode()
    assert decimal_of(text, scale) == Decimal(found)
    with pytest.raises(ValueError, match=r"base64|padding"):
        decimal_of("12.5", 2)

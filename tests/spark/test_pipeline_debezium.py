"""Debezium's changes of a table of a database, from the topic to the columns."""

import base64
import datetime as dt
import io
import json
from decimal import Decimal

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.rows.debezium import decimal_of
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

    def rows(self, kind="delta"):
        if kind == "delta":
            found = DeltaTable(str(self.folder / "table")).to_pyarrow_table()
        else:
            catalog = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
            found = catalog.load_table("default.table").scan().to_arrow()
        return sorted(found.to_pylist(), key=lambda row: row["id"])


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
        (
            change("u", after=row(1, "__debezium_unavailable_value")),
            "the row with id = 1 has no value of name, which was not changed, and the table has no older row",
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


@pytest.mark.parametrize("envelope", [True, False])
def test_an_empty_value_deletes_nothing(world, envelope):
    """It is no tombstone: those have null."""
    if not envelope:
        world.file = world.file.replace('envelope = "debezium"\n', "")
    world.send(({"id": 1}, change("c", after=row(1, "a")) if envelope else {"id": 1, "name": "a"}))
    world.run()
    with Producer(world.broker) as producer:
        producer.send_and_wait(world.topic, b"", key=b'{"id": 1}')
    with pytest.raises(PipelineError, match=r"\[MALFORMED_RECORD\]"):
        world.run()
    assert [one["id"] for one in world.rows()] == [1]


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


def test_a_truncate_empties_the_table_and_what_comes_behind_it_stays(world):
    world.send(({"id": 1}, change("c", after=row(1, "a"))), ({"id": 2}, change("c", after=row(2, "b"))))
    world.run()
    world.send(
        ({"id": 3}, change("c", after=row(3, "gone at once"))),
        (None, change("t")),
        ({"id": 2}, change("c", after=row(2, "new"))),
    )
    outcome = world.run()
    assert [(one["id"], one["name"]) for one in world.rows()] == [(2, "new")]
    assert outcome.rows_written == 1
    world.send((None, change("t")))
    world.run()
    assert world.rows() == []


def test_a_truncate_closes_all_rows_of_a_history(world):
    world.file = world.file.replace('mode = "merge"', 'mode = "history"')

    def at(ms, op, **rows):
        return {**change(op, **rows), "source": {"ts_ms": ms}}

    world.send(({"id": 1}, at(1, "c", after=row(1, "a"))), ({"id": 2}, at(2, "c", after=row(2, "b"))))
    world.run()
    world.send(
        ({"id": 2}, at(3, "u", after=row(2, "B"))),
        (None, at(4, "t")),
        ({"id": 2}, at(5, "c", after=row(2, "new"))),
        ({"id": 2}, at(6, "u", after=row(2, "newer"))),
        (None, at(7, "t")),
        ({"id": 3}, at(8, "c", after=row(3, "c"))),
    )
    world.run()
    world.send((None, at(9, "t")))
    world.run()

    def ms(time):
        return None if time is None else round(time.timestamp() * 1000)

    assert [(one["name"], ms(one["valid_from"]), ms(one["valid_to"])) for one in sorted(
        world.rows(), key=lambda one: one["valid_from"])] == [
        ("a", 1, 4), ("b", 2, 3), ("B", 3, 4), ("new", 5, 6), ("newer", 6, 7), ("c", 8, 9),
    ]  # fmt: skip


def test_a_truncate_in_one_of_several_partitions_is_refused(world):
    with Admin(world.broker) as admin:
        admin.topics.create_partitions({world.topic: 2})
    world.send((None, change("t")))
    with pytest.raises(PipelineError, match="a TRUNCATE in one of 2 partitions: which rows of the others"):
        world.run()


MARK = "__debezium_unavailable_value"


@pytest.mark.parametrize("kind", drawn_by_this_run(["delta", "iceberg"], "values not sent"))
def test_a_value_that_was_not_sent_is_the_one_that_the_row_has(world, kind):
    """An update of PostgreSQL leaves out large values that it does not change."""
    world.file = world.file.replace('kind = "delta"', f'kind = "{kind}"\npartitionBy = ["made"]')
    world.file = world.file.replace("at TIMESTAMP", "at TIMESTAMP, data BINARY")
    mark = base64.b64encode(MARK.encode()).decode()
    old, other = (base64.b64encode(text).decode() for text in (b"old", b"other"))
    world.send(
        ({"id": 1}, change("c", after=row(1, "in the table", data=old))),
        ({"id": 2}, change("c", after=row(2, None, data=other))),
        ({"id": 3}, change("c", after=row(3, "untouched", data=other))),
    )
    world.run()
    world.send(
        ({"id": 1}, change("u", after=row(1, MARK, "1.00", data=mark))),
        ({"id": 2}, change("u", after=row(2, MARK, "2.00", data=old))),
        ({"id": 4}, change("c", after=row(4, "of this batch", data=old))),
        ({"id": 4}, change("u", after=row(4, MARK, "3.00", data=other))),
        ({"id": 4}, change("u", after=row(4, MARK, "4.00", data=mark, made=15707))),
    )
    world.run()
    assert [(one["id"], one["name"], one["data"], str(one["price"])) for one in world.rows(kind)] == [
        (1, "in the table", b"old", "1.00"),
        (2, None, b"old", "2.00"),
        (3, "untouched", b"other", "12.50"),
        (4, "of this batch", b"other", "4.00"),
    ]


@pytest.mark.parametrize("kind", drawn_by_this_run(["delta", "iceberg"], "changes sent again"))
def test_a_change_that_is_sent_again_behind_the_delete_of_its_row_waits_for_that_delete(world, kind):
    """Connect sends again what it had sent before it was killed."""
    world.file = world.file.replace('kind = "delta"', f'kind = "{kind}"')
    update = ({"id": 1}, change("u", after=row(1, MARK, "1.00")))
    delete = (({"id": 1}, change("d", before=row(1, None, price="0"))), ({"id": 1}, None))
    world.send(({"id": 1}, change("c", after=row(1, "a"))), ({"id": 2}, change("c", after=row(2, "b"))))
    world.send(update, *delete)
    world.run()
    world.send(update, ({"id": 2}, None), ({"id": 3}, change("c", after=row(3, "c"))))
    with pytest.raises(PipelineError, match="the row with id = 1 has no value of name, which was not"):
        world.run()
    world.send(*delete)
    world.run()
    assert [(one["id"], one["name"]) for one in world.rows(kind)] == [(3, "c")]


def test_a_value_that_was_not_sent_does_not_go_through_a_transformation(world):
    world.file += '\n[transform]\nsql = "SELECT value.id, value.name, _change FROM source"\n'
    world.send(({"id": 1}, change("c", after=row(1, "a"))), ({"id": 1}, change("u", after=row(1, MARK))))
    with pytest.raises(PipelineError, match=f"offset 1 has {MARK}.* where .transform. is missing"):
        world.run()


def test_a_history_has_values_that_were_not_sent_in_each_row(world):
    world.file = world.file.replace('mode = "merge"', 'mode = "history"')
    world.send(({"id": 1}, change("c", after=row(1, "a"))), ({"id": 1}, change("u", after=row(1, MARK, "1"))))
    world.run()
    world.send(({"id": 1}, change("u", after=row(1, MARK, "2"))), ({"id": 1}, change("u", after=row(1, "b"))))
    world.run()
    assert sorted((one["name"], str(one["price"]), one["valid_to"] is None) for one in world.rows()) == [
        ("a", "1.00", False), ("a", "12.50", False), ("a", "2.00", False), ("b", "12.50", True),
    ]  # fmt: skip

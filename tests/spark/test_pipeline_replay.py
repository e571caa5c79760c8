"""Letters of a table that are sent through again, without Spark and brokers: which, and when not."""

import contextlib
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.dead_letters import replay as replaying
from barnabas.spark.pipeline.file.sink_settings import DeadLetters, Sink
from barnabas.spark.pipeline.sinks.sink import open_table

KINDS = {"topic": "string", "partition": "integer", "offset": "long", "key": "binary", "value": "binary"}
HEADERS = {"type": "array", "containsNull": True, "elementType": {"type": "struct", "fields": [
    {"name": "key", "type": "string", "nullable": True, "metadata": {}},
    {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
]}}  # fmt: skip
SCHEMA = {"type": "struct", "fields": [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in {**KINDS, "headers": HEADERS}.items()
]}  # fmt: skip
ARROW = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
])  # fmt: skip


class World:
    """A table of letters, and what is sent of it."""

    def __init__(self, folder, kind, monkeypatch):
        catalog = {"uri": f"sqlite:///{folder}/catalog.db"} if kind == "iceberg" else {}
        self.sink, self.sent = Sink(kind, folder / "letters", table="lake.letters", catalog=catalog), []
        self.pipeline = SimpleNamespace(
            name="flights", letters=DeadLetters(table=self.sink), checkpoint=folder / "checkpoint",
            sink=SimpleNamespace(changes=None), source_options=SimpleNamespace(client={}),
        )  # fmt: skip
        monkeypatch.setattr(replaying, "producer_client", lambda _: self)

    def send(self, topic, value, key, *, partition, headers):
        del key, headers
        self.sent.append(f"{topic}-{partition}" if value is None else (topic, partition, int(value)))

    def flush(self):
        pass

    def close(self):
        pass

    def letters(self, batch, topic, *offsets):
        self.append(batch, [{"topic": topic, "partition": 0, "offset": offset} for offset in offsets])

    def letters_of(self, batch, *places):
        """Letters whose values are their offsets."""
        rows = [
            {"topic": topic, "partition": partition, "offset": at, "value": b"%d" % at}
            for topic, partition, at in places
        ]
        self.append(batch, rows)

    def append(self, batch, rows):
        def stage(folder):
            folder.mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist(rows, ARROW), folder / "0.parquet")
            return ["0.parquet"]

        with open_table(self.sink) as table:
            table.append("query", batch, SCHEMA, [], stage)

    def replay(self):
        return replaying.replay(self.pipeline)

    def note(self):
        return json.loads((self.sink.path / "_barnabas" / "replayed.json").read_text())


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_each_letter_is_sent_once(tmp_path, kind, monkeypatch):
    world = World(tmp_path, kind, monkeypatch)
    assert world.replay() == 0  # before the first letter
    world.letters(0, "a", 3, 5)
    world.letters(1, "b", 0)
    assert (world.replay(), world.replay()) == (3, 0)
    world.letters(2, "a", 6)
    assert (world.replay(), world.replay()) == (1, 0)
    assert sorted(world.sent) == ["a-0", "a-0", "a-0", "b-0"]


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_letters_are_sent_in_the_order_in_which_they_came(tmp_path, kind, monkeypatch):
    """Delta gave the newest batch first, and a key's older record came behind its newer one."""
    world = World(tmp_path, kind, monkeypatch)
    monkeypatch.setattr(replaying, "_HELD_MAX", 2)
    batches = (
        [("b", 0, 3), ("a", 1, 4), ("a", 0, 9)],
        [("a", 1, 12), ("a", 1, 5)],
        [("b", 0, 4), ("a", 0, 10)],
    )
    for batch, places in enumerate(batches):
        world.letters_of(batch, *places)
    assert world.replay() == 7
    assert world.sent == sorted(place for places in batches for place in places)
    assert world.note() == {"a-0": 10, "a-1": 12, "b-0": 4}


def test_partitions_without_letters_are_forgotten(tmp_path, monkeypatch):
    world = World(tmp_path, "delta", monkeypatch)
    world.letters(0, "a", 3)
    world.letters(1, "b", 7)
    world.replay()
    assert world.note() == {"a-0": 3, "b-0": 7}
    DeltaTable(str(world.sink.path)).delete("topic = 'a'")
    assert world.replay() == 0
    assert world.note() == {"b-0": 7}


def test_letters_that_come_while_others_are_sent_are_sent_the_next_time(tmp_path, monkeypatch):
    world = World(tmp_path, "delta", monkeypatch)
    world.letters_of(0, ("a", 0, 3))
    monkeypatch.setattr(world, "flush", lambda: world.letters_of(1, ("a", 0, 5)))
    assert world.replay() == 1
    monkeypatch.undo()
    monkeypatch.setattr(replaying, "producer_client", lambda _: world)
    assert world.replay() == 1
    assert world.sent == [("a", 0, 3), ("a", 0, 5)]


@pytest.mark.parametrize(("kind", "waits"), [("parquet", True), ("delta", False)])
def test_files_that_appear_one_after_the_other_are_not_read_while_they_do(tmp_path, kind, waits, monkeypatch):
    """A letter whose file came last was passed over, as one behind it had been sent."""
    world = World(tmp_path, kind, monkeypatch)
    world.letters(0, "a", 3)
    refused = pytest.raises(PipelineError, match="is being written by another process")
    with open_table(world.sink), refused if waits else contextlib.nullcontext():
        world.replay()
    assert world.sent == ([] if waits else ["a-0"])


def test_two_replays_at_once_send_nothing_twice(tmp_path, monkeypatch):
    world = World(tmp_path, "delta", monkeypatch)
    world.letters(0, "a", 3)
    second = []

    def send_again(*_, **__):
        with pytest.raises(PipelineError, match="flights: its letters are being sent by another process"):
            world.replay()
        second.append(True)

    monkeypatch.setattr(world, "send", send_again)
    assert world.replay() == 1
    assert second == [True]

"""Going back in time: tables of each kind and a checkpoint as Spark writes it, without Spark."""

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OffsetError, PipelineError
from barnabas.spark.offsets import EARLIEST, LATEST, SourceOffset
from barnabas.spark.pipeline.file.sink_settings import DeadLetters, Sink
from barnabas.spark.pipeline.many_tables.routes import TableRoute
from barnabas.spark.pipeline.running import rewind
from barnabas.spark.pipeline.sinks.sink import open_table
from barnabas.spark.pipeline.tables.rewriting import Changes
from barnabas.spark.pipeline.tables.table import Staged
from barnabas.spark.planner import FoundTopics
from deaths import Died, deaths

TP = TopicPartition("t", 0)
FROM = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = {"type": "struct", "fields": [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in (("id", "integer"), ("name", "string"))
]}  # fmt: skip
ARROW = pa.schema([("id", pa.int32()), ("name", pa.string())])
every_kind = pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])


class Catalog:
    """A topic whose record of offset n is n minutes younger than FROM."""

    def __init__(self, first=0, end=100):
        self.first, self.end = first, end

    def offsets(self, wanted):
        known = {EARLIEST: self.first, LATEST: self.end}
        return {tp: known[time] if time in known else self._behind(time) for tp, time in wanted.items()}

    def _behind(self, time_ms):
        offset = max(self.first, -(-(time_ms - int(FROM.timestamp() * 1000)) // 60_000))
        return offset if offset < self.end else -1


class World:
    """A pipeline of which each batch has two records: its table, its letters and its checkpoint."""

    def __init__(self, folder, kind, changes=None):
        self.kind, self.changes, self.folder = kind, changes, folder
        self.catalog = {"uri": f"sqlite:///{folder}/catalog.db"}
        self.sink = Sink(kind, folder / "t", table="lake.t", catalog=self.catalog, changes=changes)
        letters = DeadLetters(table=Sink("delta", folder / "letters"))
        self.pipeline = SimpleNamespace(sink=self.sink, letters=letters, checkpoint=folder / "checkpoint")
        for name in ("offsets", "commits"):
            (self.pipeline.checkpoint / name).mkdir(parents=True)
        (self.pipeline.checkpoint / "metadata").write_text('{"id": "query"}')

    def run(self, *batches, word="old"):
        """Does batches as Spark and the sink do them."""
        for batch in batches:
            start = {TP: 0} if batch == 0 else None
            offset = SourceOffset({TP: 2 * batch + 2}, start=start).encode()
            (self.pipeline.checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
            rows = {2 * batch: f"{word}{batch}", 2 * batch + 1: f"{word}{batch}"}
            if self.changes is not None:
                rows = {0: f"{word}{batch}", 10 + batch: word}
            self.write(self.sink, batch, rows, self.changes)
            self.write(self.pipeline.letters.table, batch, {batch: word}, None)
            (self.pipeline.checkpoint / "commits" / str(batch)).write_text("v1\n{}")
            (self.pipeline.checkpoint / "commits" / f".{batch}.crc").write_bytes(b"crc")

    def write(self, sink, batch, rows, changes):
        def stage(folder):
            folder.mkdir(parents=True)
            found = [{"id": key, "name": name} for key, name in rows.items()]
            pq.write_table(pa.Table.from_pylist(found, ARROW), folder / "0.parquet")
            return ["0.parquet"] if changes is None else Staged(["0.parquet"], [])

        with open_table(sink) as table:
            if table.has("query", batch):
                return
            if changes is None:
                table.append("query", batch, SCHEMA, [], stage)
            else:
                table.merge("query", batch, SCHEMA, [], changes, stage)

    def rewind(self, minutes, catalog=None):
        """Goes back to the record of that offset."""
        found = rewind.plan(
            self.pipeline.checkpoint, FROM + dt.timedelta(minutes=minutes), catalog or Catalog()
        )
        if found.first is not None:
            rewind.replace_note(self.pipeline.checkpoint / "rewind.json", {"first": found.first, "tables": 2})
            rewind.finish(self.pipeline)
        return found

    def rows(self):
        if self.kind == "delta":
            found = DeltaTable(str(self.sink.path)).to_pyarrow_table()
        elif self.kind == "iceberg":
            found = load_catalog("default", **self.catalog).load_table("lake.t").scan().to_arrow()
        else:
            found = ds.dataset(self.sink.path, format="parquet").to_table()
        return sorted((row["id"], row["name"]) for row in found.to_pylist())

    def letters(self):
        found = DeltaTable(str(self.folder / "letters")).to_pyarrow_table().to_pylist()
        return sorted((row["id"], row["name"]) for row in found)

    def begun(self):
        """Which batches Spark will take for begun, and for ended."""
        folder = self.pipeline.checkpoint
        return (
            sorted(int(path.name) for path in (folder / "offsets").iterdir()),
            sorted(path.name for path in (folder / "commits").iterdir()),
        )


def rows_of(**batches):
    return sorted((2 * int(b[1:]) + n, f"{word}{b[1:]}") for b, word in batches.items() for n in (0, 1))


@every_kind
def test_batches_since_a_time_are_taken_back_and_done_again(tmp_path, kind):
    world = World(tmp_path, kind)
    world.run(0, 1, 2, 3)
    found = world.rewind(5)  # the second record of batch 2
    assert (found.first, found.batches, found.records) == (2, 2, 4)
    assert world.rows() == rows_of(b0="old", b1="old")
    assert world.letters() == [(0, "old"), (1, "old")]
    assert world.begun() == ([0, 1, 2], [".0.crc", ".1.crc", "0", "1"])

    world.run(2, 3, word="new")
    assert world.rows() == rows_of(b0="old", b1="old", b2="new", b3="new")
    assert world.letters() == [(0, "old"), (1, "old"), (2, "new"), (3, "new")]
    world.rewind(3)  # once more, across what was taken back
    assert world.rows() == rows_of(b0="old")


@every_kind
def test_all_of_it_can_be_taken_back(tmp_path, kind):
    world = World(tmp_path, kind)
    world.run(0, 1)
    assert world.rewind(-1000).first == 0
    assert world.rows() == []
    assert world.begun() == ([0], [])
    world.run(0, 1, word="new")
    assert world.rows() == rows_of(b0="new", b1="new")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_is_changed_has_its_older_rows_again(tmp_path, kind):
    world = World(tmp_path, kind, Changes(("id",)))
    world.run(0, 1, 2)
    assert world.rows() == [(0, "old2"), (10, "old"), (11, "old"), (12, "old")]
    world.rewind(4)
    assert world.rows() == [(0, "old1"), (10, "old"), (11, "old")]
    world.run(2, word="new")
    assert world.rows() == [(0, "new2"), (10, "old"), (11, "old"), (12, "new")]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_kill_at_any_step_is_mended_by_the_next_start(tmp_path, kind, monkeypatch):
    world = World(tmp_path, kind)
    world.run(0, 1, 2)
    left = deaths(monkeypatch, (Path, "unlink"), (Path, "replace"), (DeltaTable, "restore"))
    died = 0
    for step in range(100):
        left[0] = step
        try:
            world.rewind(3)
        except Died:
            died += 1
            left[0] = None
            rewind.finish(world.pipeline)  # as a run does
            if world.rows() != rows_of(b0="old"):  # it died before the first step
                assert world.rows() == rows_of(b0="old", b1="old", b2="old")
                world.rewind(3)
        assert world.rows() == rows_of(b0="old")
        assert world.begun()[0] == [0, 1]
        assert world.letters() == [(0, "old")]
        if left[0] is not None:
            break
        world.run(1, 2)
    assert died >= 5


@pytest.mark.parametrize("kind", ["delta"])
def test_a_time_behind_all_records_takes_nothing_back(tmp_path, kind):
    world = World(tmp_path, kind)
    world.run(0, 1)
    assert world.rewind(4).first is None
    assert world.rows() == rows_of(b0="old", b1="old")


def test_records_that_the_brokers_have_no_more_are_not_taken_back(tmp_path):
    world = World(tmp_path, "delta")
    world.run(0, 1, 2)
    with pytest.raises(
        PipelineError, match=r"batch 1 begins at offset 2 of t-0, and the brokers have it from 3"
    ):
        world.rewind(3, Catalog(first=3))
    assert len(world.rows()) == 6


def test_batches_that_spark_has_forgotten_are_not_taken_back(tmp_path):
    world = World(tmp_path, "delta")
    world.run(0, 1, 2)
    for batch in (0, 1):
        (world.pipeline.checkpoint / "commits" / str(batch)).unlink()
    with pytest.raises(PipelineError, match="batch 2 is the oldest that Spark still knows"):
        world.rewind(4)


def test_rows_of_others_are_not_taken_back(tmp_path):
    world = World(tmp_path, "delta")
    world.run(0, 1)
    write_deltalake(str(world.sink.path), pa.table({"id": pa.array([9], pa.int32())}), mode="append",
                    schema_mode="merge")  # fmt: skip
    world.run(2)
    with pytest.raises(PipelineError, match="was written by others"):
        world.rewind(0)
    rewind.finish(world.pipeline)  # nothing is left to do
    assert len(world.rows()) == 7
    world.rewind(4)
    assert world.rows() == sorted([*rows_of(b0="old", b1="old"), (9, None)], key=str)


def test_a_stream_of_others_is_not_taken_back(tmp_path):
    world = World(tmp_path, "delta")
    world.run(0, 1)
    log = world.sink.path / "_delta_log" / "00000000000000000003.json"
    said = {"timestamp": 1, "operation": "STREAMING UPDATE", "operationParameters": {}}
    log.write_text(json.dumps({"commitInfo": said}))  # as Spark's streams write
    world.run(2)
    with pytest.raises(PipelineError, match=r"version 3 \(STREAMING UPDATE\) was written by others"):
        world.rewind(0)
    assert not (world.pipeline.checkpoint / "rewind.json").exists()


def test_rows_that_others_have_deleted_do_not_come_back(tmp_path):
    world = World(tmp_path, "iceberg")
    world.run(0, 1)
    load_catalog("default", **world.catalog).load_table("lake.t").delete("id < 2")
    world.run(2)
    with pytest.raises(PipelineError, match="rows deleted by others"):
        world.rewind(0)
    assert world.rows() == rows_of(b1="old", b2="old")
    assert not (world.pipeline.checkpoint / "rewind.json").exists()


def test_versions_that_are_gone_are_refused_and_the_pipeline_runs_on(tmp_path):
    world = World(tmp_path, "delta", Changes(("id",)))
    world.run(0, 1, 2)
    DeltaTable(str(world.sink.path)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(PipelineError, match="cannot be taken back"):
        world.rewind(2)
    assert not (world.pipeline.checkpoint / "rewind.json").exists()
    world.run(3)
    assert (13, "old") in world.rows()


@every_kind
def test_a_table_of_letters_that_refuses_keeps_the_rows_where_they_are(tmp_path, kind, monkeypatch):
    """It was asked behind the table, whose rows were gone by then, and each run ended with its refusal."""
    world = World(tmp_path, kind)
    world.run(0, 1)
    letters = str(world.folder / "letters")
    write_deltalake(letters, pa.table({"id": pa.array([9], pa.int32())}), mode="append",
                    schema_mode="merge")  # fmt: skip
    world.run(2)
    with pytest.raises(PipelineError, match="was written by others"):
        asked(world, monkeypatch)
    with pytest.raises(PipelineError, match="was written by others"):
        world.rewind(2)  # of which a note was written
    assert not (world.pipeline.checkpoint / "rewind.json").exists()
    assert world.rows() == rows_of(b0="old", b1="old", b2="old")


def asked(world, monkeypatch, catalog=None, *, minutes=2, backfill=(), topic_ids=None, **more):
    """Calls the command's own function, with the catalog of these tests."""
    world.pipeline.source_options = SimpleNamespace(backfill=backfill)
    found = FoundTopics({TP}, topic_ids or {})
    monkeypatch.setattr(Catalog, "topics", lambda *_: found, raising=False)
    monkeypatch.setattr(Catalog, "close", lambda _: None, raising=False)
    monkeypatch.setattr(rewind, "KafkaCatalog", lambda _: catalog or Catalog())
    return rewind.rewind(world.pipeline, FROM + dt.timedelta(minutes=minutes), **more)


def test_a_rewind_that_is_refused_as_the_pipeline_runs_is_not_done_later(tmp_path, monkeypatch):
    world = World(tmp_path, "delta")
    world.run(0, 1)
    with open_table(world.sink), pytest.raises(PipelineError, match="by another process"):
        asked(world, monkeypatch)
    rewind.finish(world.pipeline)  # as the next run does
    assert world.rows() == rows_of(b0="old", b1="old")
    assert asked(world, monkeypatch).first == 1
    assert world.rows() == rows_of(b0="old")


def test_a_run_that_has_made_no_table_yet_keeps_a_rewind_out(tmp_path, monkeypatch):
    """With columns in its path there was no lock to be held, and the checkpoint went back beside the run."""
    world = World(tmp_path, "delta")
    world.run(0, 1)
    route = TableRoute(("shop",), str(tmp_path / "lake/{shop}"))
    world.pipeline.sink = Sink("delta", world.pipeline.checkpoint / "tables", route=route)
    world.pipeline.letters = None
    with open_table(world.pipeline.sink), pytest.raises(PipelineError, match="by another process"):
        asked(world, monkeypatch)
    assert world.begun()[0] == [0, 1]
    assert asked(world, monkeypatch).first == 1


def test_a_rewind_of_letters_alone_that_refuses_lets_the_pipeline_run(tmp_path):
    """Of two tables the first may have nothing to take back: its note stayed, and no run began any more."""
    world = World(tmp_path, "delta")
    world.run(0, 1)
    letters = world.pipeline.letters.table
    world.write(letters, 2, {9: "old"}, None)
    write_deltalake(str(letters.path), pa.table({"id": pa.array([9], pa.int32())}), mode="append",
                    schema_mode="merge")  # fmt: skip
    note = world.pipeline.checkpoint / "rewind.json"
    rewind.replace_note(note, {"first": 2, "tables": 1})
    with pytest.raises(PipelineError, match="was written by others"):
        rewind.finish(world.pipeline)
    assert not note.exists()
    rewind.replace_note(note, {"first": 2, "tables": 2})  # one has been taken back
    with pytest.raises(PipelineError, match="was written by others"):
        rewind.finish(world.pipeline)
    assert note.exists()


def test_records_that_only_log_directories_have_are_done_again(tmp_path, monkeypatch):
    world = World(tmp_path, "delta")
    world.run(0, 1, 2)
    span = SimpleNamespace(spans=lambda: {TP: (0, 5)}, require_same=lambda _: None)
    monkeypatch.setattr(rewind, "Backfill", lambda _: span)
    for first in (5, 4):
        with pytest.raises(OffsetError, match="may be in the log directories"):
            asked(world, monkeypatch, Catalog(first=first, end=6), backfill=("logs",))
    assert len(world.rows()) == 6
    with pytest.raises(PipelineError, match="the brokers have it from 3 on"):
        asked(world, monkeypatch, Catalog(first=3, end=6))
    found = asked(world, monkeypatch, Catalog(first=3, end=6), minutes=4, backfill=("logs",))
    assert (found.first, world.rows()) == (2, rows_of(b0="old", b1="old"))


def test_a_topic_that_was_created_again_is_not_taken_back(tmp_path, monkeypatch):
    world = World(tmp_path, "delta")
    world.run(0, 1)
    offset = SourceOffset({TP: 4}, {"t": "old"}).encode()
    (world.pipeline.checkpoint / "offsets" / "1").write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    with pytest.raises(PipelineError, match="the topic t was deleted and created again since batch 1"):
        asked(world, monkeypatch, topic_ids={"t": "new"})
    assert world.rows() == rows_of(b0="old", b1="old")


def test_a_partition_that_came_later_and_lacks_its_first_records_is_not_taken_back(tmp_path):
    world = World(tmp_path, "delta")
    world.run(0, 1)
    offset = SourceOffset({TP: 4, TopicPartition("t", 1): 4}).encode()
    (world.pipeline.checkpoint / "offsets" / "1").write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    with pytest.raises(PipelineError, match="begins at offset 0 of t-1, and the brokers have it from 2 on"):
        world.rewind(2, Catalog(first=2))


def test_a_dry_run_finishes_no_rewind_that_was_begun(tmp_path, monkeypatch):
    world = World(tmp_path, "delta")
    world.run(0, 1)
    assert asked(world, monkeypatch, dry_run=True).first == 1
    rewind.replace_note(world.pipeline.checkpoint / "rewind.json", {"first": 1})
    with pytest.raises(PipelineError, match="the next run finishes it"):
        asked(world, monkeypatch, dry_run=True)
    assert world.rows() == rows_of(b0="old", b1="old")


def test_a_dry_run_asks_the_table_too(tmp_path, monkeypatch):
    """Also while the pipeline runs."""
    world = World(tmp_path, "delta")
    world.run(0, 1)
    rows = pa.table({"id": pa.array([9], pa.int32())})
    write_deltalake(str(world.sink.path), rows, mode="append", schema_mode="merge")
    with open_table(world.sink), pytest.raises(PipelineError, match="was written by others"):
        asked(world, monkeypatch, dry_run=True)


def test_a_merged_file_of_both_sides_is_not_taken_back(tmp_path, monkeypatch):
    world = World(tmp_path, "parquet")
    world.run(0, 1, 2)
    with open_table(world.sink) as table:
        table.compact(1 << 20, lambda *_: None)
    with pytest.raises(PipelineError, match="was merged of batches 0 to 2"):
        asked(world, monkeypatch, minutes=3, dry_run=True)
    with pytest.raises(PipelineError, match="was merged of batches 0 to 2"):
        world.rewind(3)
    world.rewind(0)
    assert world.rows() == []


@pytest.mark.parametrize("whose", ["table", "letters"])
def test_a_rewind_that_was_begun_is_not_finished_with_another_table(tmp_path, whose):
    """The checkpoint went back, and the table that the file named before had batches that it had not."""
    world = World(tmp_path, "delta")
    world.run(0, 1)
    places = [str(world.sink.path), str(world.folder / "letters")]
    rewind.replace_note(world.pipeline.checkpoint / "rewind.json", {"first": 1, "tables": 2, "where": places})
    if whose == "table":
        world.pipeline.sink = Sink("delta", tmp_path / "other")
    else:
        world.pipeline.letters = None
    with pytest.raises(PipelineError, match="and the file has that table no more: put it back"):
        rewind.finish(world.pipeline)
    assert world.begun()[0] == [0, 1]
    assert world.rows() == rows_of(b0="old", b1="old")


@pytest.mark.parametrize("note", ["{}", '{"first": -1}', '{"first": "1"}', "[1]", "no json"])
def test_a_damaged_note_is_one_line(tmp_path, note):
    world = World(tmp_path, "delta")
    world.run(0)
    (world.pipeline.checkpoint / "rewind.json").write_text(note)
    with pytest.raises(PipelineError, match=r"rewind\.json is no note of a rewind"):
        rewind.finish(world.pipeline)


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_checkpoint_without_its_id_is_refused_before_a_note_is_written(tmp_path, monkeypatch, dry_run):
    world = World(tmp_path, "delta")
    world.run(0, 1)
    (world.pipeline.checkpoint / "metadata").unlink()
    with pytest.raises(PipelineError, match="metadata is missing"):
        asked(world, monkeypatch, dry_run=dry_run)
    assert not (world.pipeline.checkpoint / "rewind.json").exists()
    assert world.rows() == rows_of(b0="old", b1="old")


def test_a_topic_cannot_be_taken_back(tmp_path):
    world = World(tmp_path, "delta")
    world.pipeline.sink = Sink("topic", tmp_path / "topic", topic="t")
    with pytest.raises(PipelineError, match="what was sent cannot be taken back"):
        rewind.rewind(world.pipeline, FROM)

"""What is on the disk when: a power cut keeps only what was synchronised, so each step waits for those that
it rests on.
"""

import os
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination
from barnabas.spark.pipeline.sinks.staging import complete
from barnabas.spark.pipeline.tables.delta import DeltaFolder
from barnabas.spark.pipeline.tables.parquet import ParquetFolder
from barnabas.spark.pipeline.tables.table import OURS

sys.path.insert(0, str(Path(__file__).parent))

import compact_killed


class Disk:
    """Watches what a process changes below a folder: which names and contents a power cut would take back."""

    def __init__(self, monkeypatch, top):
        self.top = top
        self.loose = set()
        """Files and folders that were changed and not synchronised since."""
        self.steps = []
        """Each change, with what was loose before it."""
        for owner, name, change in (
            (Path, "replace", lambda source, target: [source.parent, target.parent]),
            (Path, "unlink", lambda path: [path.parent]),
            (Path, "mkdir", lambda path: [path.parent]),
            (Path, "write_text", lambda path: [path, path.parent]),
            (shutil, "rmtree", lambda path: [path.parent]),
        ):
            monkeypatch.setattr(owner, name, self._watched(getattr(owner, name), name, change))
        fsync = os.fsync

        def synchronised(handle):
            fsync(handle)
            self.loose.discard(Path(f"/proc/self/fd/{handle}").readlink())

        monkeypatch.setattr(os, "fsync", synchronised)

    def _watched(self, original, name, change):
        def call(*args, **kwargs):
            before, paths = (
                frozenset(self.loose),
                [Path(one) for one in args[: 2 if name == "replace" else 1]],
            )
            found = original(*args, **kwargs)
            self.steps.append((name, paths, before))
            if name == "rmtree":  # nothing of it can be missed any more
                self.loose -= {path for path in self.loose if path.is_relative_to(paths[0])}
            self.loose.update(path for path in change(*paths) if path.is_relative_to(self.top))
            return found

        return call

    def loose_at(self, step, name):
        """What was loose when a file or folder whose name begins so was last changed by such a step."""
        found = [
            before for one, paths, before in self.steps if one == step and paths[-1].name.startswith(name)
        ]
        assert found, (step, name)
        return found[-1]


@pytest.fixture
def disk(monkeypatch, tmp_path):
    """The disk under the test's folder."""
    return Disk(monkeypatch, tmp_path)


def append(table, batch, *parts):
    def write(staging):
        for part in parts:
            path = staging / part / "rows.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(pa.table({"n": [batch]}), path)
            disk_of.loose.add(path)
        return [f"{part}/rows.parquet" for part in parts]

    disk_of = append.disk
    table.append("query", batch, {"fields": []}, ["day"], write)


def in_table(loose, folder):
    """What of it belongs to the table, not to the pipeline's own folder."""
    return {path for path in loose if path.is_relative_to(folder) and OURS not in path.parts}


def test_a_batch_is_on_the_disk_before_it_is_committed_and_its_commit_before_it_shows(disk, tmp_path):
    append.disk, folder = disk, tmp_path / "t"
    with ParquetFolder(folder) as table:
        append(table, 0, "day=1", "day=2")

    assert not {path for path in disk.loose_at("replace", "commit.json") if "staging-" in str(path)}
    assert folder / OURS / "commit.json.new" not in disk.loose_at("replace", "commit.json")
    moves = [
        before
        for step, paths, before in disk.steps
        if step == "replace" and paths[-1].name.startswith("batch-")
    ]
    assert moves
    assert all(folder / OURS not in before for before in moves)
    # The staging folder says that moves are left to do: it goes when they are all on the disk.
    assert in_table(disk.loose_at("rmtree", "staging-"), folder) == set()
    assert in_table(disk.loose, folder) == set()


def test_a_merged_file_is_on_the_disk_before_its_sources_go_and_their_going_before_it_is_forgotten(
    disk, tmp_path
):
    append.disk, folder = disk, tmp_path / "t"
    with ParquetFolder(folder) as table:
        for batch in range(3):
            append(table, batch, "day=1")
        disk.steps.clear()
        table.compact(1 << 20, lambda *_: None)

    assert not {path for path in disk.loose_at("replace", "compaction.json") if "staging-" in str(path)}
    removed = [
        before
        for step, paths, before in disk.steps
        if step == "unlink" and paths[-1].name.startswith("batch-")
    ]
    assert len(removed) == 3
    assert all(folder / OURS not in before for before in removed)
    assert in_table(disk.loose_at("unlink", "compaction.json"), folder) == set()
    assert folder / OURS not in disk.loose_at("rmtree", "staging-")


def test_a_batchs_offsets_are_on_the_disk_before_the_table_has_it(monkeypatch, tmp_path):
    """Lost, they would be planned again with more records, and the table would say that it has them."""
    offsets = tmp_path / "c" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "4").touch()
    (tmp_path / "c" / "metadata").write_text('{"id": "query"}')
    fsync, events = os.fsync, []
    monkeypatch.setattr(
        os,
        "fsync",
        lambda handle: events.append(str(Path(f"/proc/self/fd/{handle}").readlink())) or fsync(handle),
    )
    settings = Sink("parquet", tmp_path / "t", (), None, "day")
    with BatchSink(Destination(settings, tmp_path / "c", StructType())) as sink:
        monkeypatch.setattr(sink._table, "append", lambda *_: events.append("append"))
        events.clear()
        sink.write(None, 4)

    assert events == [str(offsets / "4"), str(offsets), "append"]


def rows(folder, **files):
    folder.mkdir()
    for name, count in files.items():
        pq.write_table(pa.table({"n": list(range(count))}), folder / f"{name}.parquet")


@pytest.mark.parametrize("written", [4, 6])
def test_a_batch_of_which_rows_are_missing_or_too_many_is_refused(tmp_path, written):
    rows(tmp_path / "f", a=2, b=3, empty=0)
    assert sorted(complete(tmp_path / "f", 5)) == [("a.parquet", 2), ("b.parquet", 3)]
    with pytest.raises(PipelineError, match=f"of {written} rows that were written to .* 5 are there"):
        list(complete(tmp_path / "f", written))


def test_a_table_of_one_query_has_no_batch_of_another(tmp_path):
    """Batch ids are unique in one query only: its batches would be passed over."""
    append.disk = type("Disk", (), {"loose": set()})
    with ParquetFolder(tmp_path / "t") as table:
        append(table, 7, "day=1")
        assert (table.has("query", 7), table.has("other", 7), table.has("other", 0)) == (True, False, False)
        assert (table.state("query").batch, table.state("other").batch, table.state(None).batch) == (
            7,
            None,
            None,
        )


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_logs_newest_version_is_on_the_disk_when_an_append_is_done(monkeypatch, tmp_path, kind):
    """Spark commits the batch next, and the version's file is all that says what the table has."""
    sink = Sink(
        kind, tmp_path / "t", ("day",), None, "day", "lake.t", {"uri": f"sqlite:///{tmp_path}/catalog.db"}
    )
    fsync, synced = os.fsync, set()

    def watched(handle):
        fsync(handle)
        synced.add(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", watched)
    for batch in range(3):
        synced.clear()
        compact_killed.append(sink, batch)
        logs = tmp_path / "t" / ("_delta_log" if kind == "delta" else "metadata")
        newest = max(logs.glob("*.json"), key=lambda path: path.name)
        assert {newest, logs, tmp_path / "t"} <= synced
    assert compact_killed.rows(sink)[1] == 6


def test_lists_of_structs_with_more_fields_are_merged_in_delta(tmp_path):
    """What the pipeline lets grow, the table's own compaction must be able to read."""

    def append(batch, *fields):
        def write(folder):
            folder.mkdir(parents=True)
            rows = {
                "n": [batch],
                "list": [[dict.fromkeys(fields, batch)]],
                "deep": [dict.fromkeys(fields, batch)],
            }
            pq.write_table(pa.table(rows), folder / "rows.parquet")
            return ["rows.parquet"]

        inner = {"type": "struct", "fields": [compact_killed.field(name, "long") for name in fields]}
        items = {"type": "array", "elementType": inner, "containsNull": True}
        columns = [("n", "long"), ("list", items), ("deep", inner)]
        schema = {"type": "struct", "fields": [compact_killed.field(*column) for column in columns]}
        with DeltaFolder(tmp_path / "t") as table:
            table.append("query", batch, schema, [], write)

    append(1, "a")
    append(2, "a", "b")
    with DeltaFolder(tmp_path / "t") as table:
        assert table.compact(1 << 20, lambda *_: None).files_after == 1
    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("n").to_pylist()
    assert [row["deep"] for row in found] == [{"a": 1, "b": None}, {"a": 2, "b": 2}]
    assert [row["list"] for row in found] == [[{"a": 1, "b": None}], [{"a": 2, "b": 2}]]

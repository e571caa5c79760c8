"""Compaction keeps each row once, wherever it is killed, and the id of the table's last batch."""

import datetime as dt
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import barnabas
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination, compact, open_table
from barnabas.spark.pipeline.tables.compaction import groups, merge
from barnabas.spark.pipeline.tables.parquet import ParquetFolder
from seeds import drawn_by_this_run

sys.path.insert(0, str(Path(__file__).parent))

import compact_killed

SOURCES = str(Path(barnabas.__file__).parent.parent)
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCES}
SIZE = 1 << 20
FILE = """
checkpoint = "c"
[source]
kafka.bootstrap.servers = "127.0.0.1:9092"
subscribe = "flights"
[sink]
kind = "parquet"
path = "t"
"""


def expected(batches):
    """The rows that compact_killed.py appends in so many batches."""
    return sorted(
        [n, day, f"of {n // 2}" if n % 2 == 0 and n > 3 else None]
        for n in range(2 * batches)
        for day in ("1", "a b/%")
    )


def append(folder, batch, layout=(), places=("a",)):
    """Appends a batch of two rows in each of some places, as paths below the staging folder."""

    def write(staging):
        for place in places:
            path = staging / f"{place}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"n": [batch * 2, batch * 2 + 1]}), path)
        return [f"{place}.parquet" for place in places]

    with ParquetFolder(folder) as table:
        table.append("query", batch, {"type": "struct", "fields": []}, list(layout), write)


def numbers(folder):
    return [n for path in sorted(folder.glob("*.parquet")) for n in pq.read_table(path)["n"].to_pylist()]


def run(folder, *, dry_run=False, target_bytes=SIZE):
    sink = Sink("parquet", folder, (), None, "day")
    return compact(sink, target_bytes, lambda *_: None, dry_run=dry_run)


NAMES = [("parquet", "a b#ü%"), ("delta", "a b#ü%"), ("iceberg", "a b ü")]


@pytest.mark.parametrize(("kind", "name"), drawn_by_this_run(NAMES, "kills while files are merged"))
def test_a_kill_before_each_step_leaves_every_row_once(tmp_path, kind, name):
    """Then the table has the batches that it had, and takes the next."""
    folder = tmp_path / name
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("compact_killed.py"), kind, folder],
        capture_output=True, text=True, check=False, timeout=100, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    deaths = [json.loads(line) for line in done.stdout.splitlines()]

    for death in deaths:
        assert death["after"] == expected(3), death
        assert (death["files"], death["left"]) == (2, []), death
        assert death["later"] == expected(4), death
        # A reader misses no row at any time, and sees one twice only while a merged file takes its place.
        assert {tuple(row) for row in death["before"]} == {tuple(row) for row in expected(3)}, death
        assert death["before"] == expected(3) or death["unfinished"], death
    assert deaths[-1]["died"] == ""
    steps = {death["died"].partition(" ")[0] for death in deaths[:-1]}
    if kind == "parquet":
        assert {"mkdir", "write_text", "replace", "unlink", "fsync", "rmtree"} <= steps
        assert any(death["before"] != expected(3) for death in deaths), "none died between move and removal"
    else:
        assert steps == {"before_commit", "after_commit"}


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_dry_run_writes_nothing_and_says_what_would_come(tmp_path, kind):
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db"}
    sink = Sink(kind, tmp_path / "t", ("day",), None, "day", "lake.t", catalog)
    for batch in range(3):
        compact_killed.append(sink, batch)

    def files():
        return {path for path in (tmp_path / "t").rglob("*") if path.name != "lock"}

    before = files()
    planned = compact(sink, SIZE, lambda *_: None, dry_run=True)
    assert (planned.files_before, planned.files_after, planned.folders) == (6, 2, 2)
    assert files() == before
    done = compact(sink, SIZE, lambda *_: None)
    assert (done.files_after, done.folders) == (2, 2)
    assert compact_killed.rows(sink) == (expected(3), 2)


@pytest.mark.parametrize(
    ("kind", "cls"), [("parquet", "ParquetFolder"), ("delta", "DeltaFolder"), ("iceberg", "IcebergFolder")]
)
def test_each_kind_of_sink_has_its_table(tmp_path, kind, cls):
    assert type(open_table(Sink(kind, tmp_path, (), None, "day", "a.b", {}))).__name__ == cls


def test_order_is_that_of_batches_and_a_second_time_does_nothing(tmp_path):
    for batch in range(12):
        append(tmp_path / "t", batch, places=("a", "b"))

    planned, done = run(tmp_path / "t", dry_run=True), run(tmp_path / "t")

    assert (planned.files_before, planned.files_after, planned.folders) == (24, 1, 1)
    assert (done.files_before, done.files_after, done.folders) == (24, 1, 1)
    assert [path.name for path in (tmp_path / "t").glob("*.parquet")] == [
        "batch-0000000000-00000-to-0000000011-00001.parquet"
    ]
    assert numbers(tmp_path / "t") == [2 * batch + n for batch in range(12) for _ in "ab" for n in (0, 1)]
    again = run(tmp_path / "t")
    assert (again.files_before, again.files_after, again.folders) == (1, 1, 0)
    append(tmp_path / "t", 12)
    assert run(tmp_path / "t").files_after == 1
    assert numbers(tmp_path / "t")[-4:] == [22, 23, 24, 25]


def test_files_of_others_are_left_alone(tmp_path):
    for batch in range(2):
        append(tmp_path / "t", batch, ["day"], ["day=1/a"])
    others = [
        "mine.parquet",
        "batch-0000000000-00000.parquet",
        "day=1/part-0.parquet",
        "x/y/batch-0000000000-00000.parquet",
    ]
    for other in others:
        path = tmp_path / "t" / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")

    assert run(tmp_path / "t").files_before == 2

    assert [(tmp_path / "t" / other).read_text() for other in others] == ["mine"] * len(others)


@pytest.mark.parametrize("back", ["batch-0000000000-00000.parquet", "batch-0000000002-00000.parquet"])
def test_a_file_that_was_put_back_beside_what_it_was_merged_to_is_named(tmp_path, back):
    for batch in range(3):
        append(tmp_path / "t", batch)
    copy = (tmp_path / "t" / back).read_bytes()
    run(tmp_path / "t")
    (tmp_path / "t" / back).write_bytes(copy)
    before = sorted(numbers(tmp_path / "t"))

    with pytest.raises(PipelineError, match=r"has rows that batch-\S+ has too"):
        run(tmp_path / "t")

    assert sorted(numbers(tmp_path / "t")) == before


@pytest.mark.parametrize(
    "sources",
    [["../other.parquet"], ["/etc/passwd"], [7], ["mine.parquet"], ["batch-0000000000-00000.parquet"]],
)
def test_what_a_file_of_ours_has_removed_is_ours(tmp_path, sources):
    append(tmp_path / "t", 0)
    change = {"staging": f"staging-{1:032x}", "file": "batch-0000000000-00000.parquet", "sources": sources}
    (tmp_path / "t" / "_barnabas" / "compaction.json").write_text(json.dumps(change))

    with pytest.raises(PipelineError, match="is no compaction of a pipeline"):
        run(tmp_path / "t")

    assert numbers(tmp_path / "t") == [0, 1]


def test_a_folder_that_is_a_file_is_said_in_one_line(tmp_path):
    append(tmp_path / "t", 0)
    (tmp_path / "t" / "_barnabas" / "lock").unlink()
    (tmp_path / "t" / "_barnabas" / "lock").mkdir()

    with pytest.raises(PipelineError, match="lock: Is a directory"):
        run(tmp_path / "t")


def test_files_of_half_the_size_stay_as_they_are():
    files = [(Path(str(n)), size) for n, size in enumerate([10, 20, 30, 60, 10, 50, 10, 40, 40, 40, 5])]
    found = [[path.name for path in group] for group in groups(files, 100)]
    assert found == [["0", "1", "2"], ["6", "7", "8"], ["9", "10"]]


def test_a_running_pipeline_and_a_wrong_size_are_said_in_one_line(tmp_path):
    append(tmp_path / "t", 0)
    (tmp_path / "flights.toml").write_text(FILE)

    def command(*options):
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", "pipeline", "compact", tmp_path / "flights.toml", *options],
            capture_output=True, text=True, check=False, timeout=60, env=ENVIRONMENT,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    with ParquetFolder(tmp_path / "t"):
        code, text = command()
    assert (code, text) == (1, f"Error: {tmp_path / 't'} is being written by another process\n")
    append(tmp_path / "t", 1)
    code, text = command("--target-size", "1m")
    assert (code, text.partition(", ")[0]) == (0, "flights: 2 files into 1")
    code, text = command("--target-size", "large")
    assert code != 0
    assert "must be a size such as 128m or 1g" in text
    code, text = command("--target-size", f"{1 << 63}")
    assert code != 0
    assert "at most 1024g" in text


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_where_there_is_no_table_none_is_made(tmp_path, kind):
    sink = Sink(kind, tmp_path / "t", (), None, "day", "lake.t", {"uri": f"sqlite:///{tmp_path}/catalog.db"})

    with pytest.raises(PipelineError, match="has no table yet: run the pipeline first"):
        compact(sink, SIZE, lambda *_: None)

    assert list(tmp_path.iterdir()) == []


def test_the_key_is_a_number_of_batches(tmp_path):
    path = tmp_path / "flights.toml"
    path.write_text(FILE)
    assert load(path).sink.compact_every == 0
    path.write_text(FILE + "compactEvery = 100\n")
    assert load(path).sink.compact_every == 100
    path.write_text(FILE + 'compactEvery = "often"\n')
    with pytest.raises(PipelineError, match="compactEvery is 'often': it must be a whole number"):
        load(path)


def test_rows_that_are_merged_are_in_large_row_groups(tmp_path):
    paths = [tmp_path / f"{n}.parquet" for n in range(50)]
    for n, path in enumerate(paths):
        pq.write_table(pa.table({"n": [n]}), path, compression="gzip")

    merge(paths, tmp_path / "merged.parquet")

    metadata = pq.read_metadata(tmp_path / "merged.parquet")
    assert (metadata.num_rows, metadata.num_row_groups) == (50, 1)
    assert metadata.row_group(0).column(0).compression == "GZIP"


def test_a_file_that_cannot_be_read_is_named_and_nothing_is_changed(tmp_path):
    for batch in range(2):
        append(tmp_path / "t", batch)
    broken = tmp_path / "t" / "batch-0000000001-00000.parquet"
    broken.write_text("broken")

    with pytest.raises(PipelineError, match=r"to batch-0000000001-00000\.parquet were not merged: "):
        run(tmp_path / "t")

    assert broken.read_text() == "broken"
    broken.unlink()
    assert numbers(tmp_path / "t") == [0, 1]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_spark_reads_what_its_batches_were_merged_to(spark, tmp_path, kind):
    """The stream's sink compacts by itself;
    types stay, and rows from before a column came have null there.
    """
    noon = dt.datetime(2013, 1, 1, 12, tzinfo=dt.UTC)
    row = (
        1,
        Decimal("3.14"),
        "a b/ü%",
        noon.date(),
        noon.replace(tzinfo=None),
        ["a", None],
        (7, [(noon.date(),)]),
    )
    columns = (
        "n INT, amount DECIMAL(10,2), text STRING, day DATE, local TIMESTAMP_NTZ, list ARRAY<STRING>, "
        "deep STRUCT<a: INT, b: ARRAY<STRUCT<c: DATE>>>"
    )
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "query"}))
    catalog = {"uri": f"sqlite:///{tmp_path}/catalog.db"}
    settings = Sink(kind, tmp_path / "t", ("text",), None, "day", "lake.t", catalog, compact_every=2)
    for batch, (rows, kinds) in enumerate([([row], columns), ([(*row, noon)], f"{columns}, at TIMESTAMP")]):
        (checkpoint / "offsets" / str(batch)).touch()
        frame = spark.createDataFrame(rows, kinds)
        with BatchSink(Destination(settings, checkpoint, frame.schema)) as sink:
            sink.write(frame, batch)

    files = files_of(settings)
    assert len(files) == 1
    found = spark.read.parquet(*files)
    names = ["n", "amount", "day", "local", "list", "deep", "at"]
    before, after = sorted(found.select(*names).collect(), key=lambda one: one["at"] is not None)
    assert (before["at"], after["at"].astimezone(dt.UTC)) == (None, noon)
    assert tuple(before[:-1]) == tuple(after[:-1]) == (*row[:2], *row[3:])
    assert {f.name: f.dataType.simpleString() for f in found.schema.fields}["amount"] == "decimal(10,2)"


def files_of(sink):
    """The files of a table, by its format's own reader."""
    if sink.kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(sink.path)).file_uris()
    if sink.kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        scan = load_catalog("default", **sink.catalog).load_table(sink.table).scan()
        return [task.file.file_path for task in scan.plan_files()]
    return [str(path) for path in sink.path.rglob("batch-*.parquet")]

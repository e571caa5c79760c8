"""Tables with a log, read by the formats' own readers:
types, partitions, columns that grow, and batches that come again.
"""

import datetime as dt
import json
import sys
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql.types import ByteType, StructField, StructType

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination, compact, open_table, table_schema
from seeds import drawn_by_this_run

pytestmark = pytest.mark.spark

NOON = dt.datetime(2013, 1, 1, 12, tzinfo=dt.UTC)
WIDE = (
    "n INT, big BIGINT, x DOUBLE, amount DECIMAL(10,2), text STRING, bytes BINARY, day DATE, at TIMESTAMP, "
    "local TIMESTAMP_NTZ, list ARRAY<STRING>, map MAP<STRING, BIGINT>, deep STRUCT<a: INT, b: "
    "ARRAY<STRUCT<c: DATE>>>"
)
ROW = (
    1, 2**40, 1.5, Decimal("3.14"), "ü", b"\x00", NOON.date(), NOON, NOON.replace(tzinfo=None),
    ["a", None], {"k": 1}, (7, [(NOON.date(),)]),
)  # fmt: skip


class Lake:
    """A table of a kind, its checkpoint, and what its own reader sees."""

    def __init__(self, spark, folder, kind):
        self.spark, self.folder, self.kind = spark, folder, kind
        self.checkpoint("checkpoint", "query")

    def checkpoint(self, name, query):
        """Writes what Spark has in a checkpoint when it hands over a batch."""
        self.at = self.folder / name
        (self.at / "offsets").mkdir(parents=True)
        (self.at / "metadata").write_text(json.dumps({"id": query}))
        for batch in range(10):
            (self.at / "offsets" / str(batch)).touch()

    def settings(self, *partition_by):
        catalog = {"uri": f"sqlite:///{self.folder}/catalog.db"}
        return Sink(self.kind, self.folder / "t", partition_by, None, "day", "lake.t", catalog)

    def write(self, batch, rows, columns, *partition_by):
        """Appends a batch as a start of its own; how many rows were written."""
        frame = self.spark.createDataFrame(rows, columns)
        with BatchSink(Destination(self.settings(*partition_by), self.at, frame.schema)) as sink:
            sink.write(frame, batch)
        return sink.rows_written

    def schema(self, columns, *partition_by):
        settings = self.settings(*partition_by)
        rows = self.spark.createDataFrame([], columns).schema
        return table_schema(open_table(settings), settings, self.at, rows)

    def compact(self):
        """Makes one file of all."""
        done = compact(self.settings(), 1 << 20, lambda *_: None)
        assert done.files_after == 1

    def iceberg(self):
        return load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db").load_table("lake.t")

    def read(self):
        """The rows, without order."""
        if self.kind == "delta":
            return DeltaTable(str(self.folder / "t")).to_pyarrow_table().to_pylist()
        return self.iceberg().scan().to_arrow().to_pylist()

    def numbers(self):
        return sorted(row["n"] for row in self.read())


def pytest_generate_tests(metafunc):
    """Each test has one of both kinds, drawn for itself: a run has tests of each kind."""
    if "lake" in metafunc.fixturenames:
        drawn = drawn_by_this_run(["delta", "iceberg"], f"lake of {metafunc.function.__name__}")
        metafunc.parametrize("lake", drawn, indirect=True)


@pytest.fixture
def lake(spark, tmp_path, request):
    return Lake(spark, tmp_path, request.param)


def test_types_come_back_as_they_were(lake):
    assert lake.write(0, [ROW, (None,) * len(ROW)], WIDE) == 2

    found, nulls = sorted(lake.read(), key=lambda row: row["n"] is None)
    assert {**found, "map": dict(found["map"])} == {
        **dict(zip(found, ROW, strict=True)),
        "deep": {"a": 7, "b": [{"c": NOON.date()}]},
    }
    assert set(nulls.values()) == {None}
    assert lake.schema(WIDE).simpleString() == lake.spark.createDataFrame([], WIDE).schema.simpleString()


def test_partitions_have_the_values_of_their_rows(lake):
    rows = [(1, "a b/ü%=", NOON.date()), (2, None, NOON.date()), (3, "__x", None)]
    lake.write(0, rows, "n INT, text STRING, day DATE", "text", "day")

    assert sorted((row["n"], row["text"], row["day"]) for row in lake.read()) == rows
    if lake.kind == "delta":
        found = DeltaTable(str(lake.folder / "t")).to_pyarrow_table(filters=[("text", "=", "a b/ü%=")])
        assert found["n"].to_pylist() == [1]
    else:
        assert lake.iceberg().scan("text = 'a b/ü%='").to_arrow()["n"].to_pylist() == [1]
        partitions = {str(file.file.partition[0]) for file in lake.iceberg().scan().plan_files()}
        assert partitions == {"a b/ü%=", "None", "__x"}
    with pytest.raises(PipelineError, match="is partitioned by text, day, not by day"):
        lake.write(1, rows, "n INT, text STRING, day DATE", "day")


def test_an_empty_text_and_null_are_two_partitions_of_iceberg(spark, tmp_path):
    """Spark's folders have one for both, and a file with both was in the partition of the empty text."""
    lake = Lake(spark, tmp_path, "iceberg")
    lake.write(0, [(1, ""), (2, None), (3, "a")], "n INT, text STRING", "text")

    for rule, numbers in (("text = ''", [1]), ("text IS NULL", [2]), ("text = 'a'", [3])):
        assert lake.iceberg().scan(rule).to_arrow()["n"].to_pylist() == numbers
    partitions = {
        (file.file.partition[0], file.file.record_count) for file in lake.iceberg().scan().plan_files()
    }
    assert partitions == {("", 1), (None, 1), ("a", 1)}


def test_rows_that_are_not_where_the_driver_looks_end_the_batch(lake, monkeypatch):
    """On a cluster whose executors have a disk of their own;
    the batch was taken as done, with what was here.
    """
    lake.write(0, [(1, "a")], "n INT, text STRING", "text")
    monkeypatch.setattr(pq, "read_metadata", lambda path: SimpleNamespace(num_rows=0))
    with pytest.raises(
        PipelineError, match=r"of 2 rows that were written to .* 0 are there: .*must share the file system"
    ):
        lake.write(1, [(2, "b"), (3, "a")], "n INT, text STRING", "text")
    monkeypatch.undo()

    assert lake.numbers() == [1]
    lake.write(1, [(2, "b"), (3, "a")], "n INT, text STRING", "text")
    assert lake.numbers() == [1, 2, 3]


def test_a_compaction_that_fails_takes_nothing_from_its_batch(lake, monkeypatch, caplog):
    def fails(*_):
        raise PipelineError("files of deletes")

    settings = replace(lake.settings(), compact_every=1)
    frame = lake.spark.createDataFrame([(1,)], "n INT")
    with BatchSink(Destination(settings, lake.at, frame.schema)) as sink:
        monkeypatch.setattr(sink._table, "compact", fails)
        sink.write(frame, 0)

    assert (sink.batches, sink.failure, lake.numbers()) == (1, None, [1])
    assert "was not compacted: files of deletes" in caplog.text


def test_columns_grow_and_do_not_change(lake):
    lake.write(0, [(1, "a")], "n INT, text STRING", "text")
    lake.write(1, [(2, "b", NOON)], "n INT, text STRING, at TIMESTAMP_NTZ", "text")
    lake.write(2, [("c", 3)], "text STRING, n INT", "text")

    assert sorted((row["n"], row["text"], row["at"]) for row in lake.read()) == [
        (1, "a", None), (2, "b", NOON.replace(tzinfo=None)), (3, "c", None),
    ]  # fmt: skip
    with pytest.raises(PipelineError, match="column n is string now and int in the table"):
        lake.write(3, [("4", "d")], "n STRING, text STRING", "text")
    with pytest.raises(PipelineError, match="column N is n in the table: only upper and lower case differ"):
        lake.write(3, [(4, "d")], "N INT, text STRING", "text")


NARROW = (
    "n INT, x FLOAT, dec DECIMAL(5,2), deep STRUCT<a: INT, list: ARRAY<STRUCT<b: INT>>>, map "
    "MAP<STRING, STRUCT<c: INT>>"
)
WIDER = (
    "n BIGINT, x DOUBLE, dec DECIMAL(9,2), deep STRUCT<a: BIGINT, list: ARRAY<STRUCT<b: BIGINT>>>, map "
    "MAP<STRING, STRUCT<c: BIGINT>>"
)


def deep(row):
    """A row without order in its structs, and with its map as one."""
    return {**row, "map": dict(row["map"])}


def test_narrower_values_are_taken_as_the_tables_type(lake):
    lake.write(0, [(2**40, 0.1, Decimal("1234567.25"), (2**41, [(2**42,)]), {"k": (2**43,)})], WIDER)
    lake.write(1, [(1, 0.5, Decimal("1.25"), (2, [(3,)]), {"k": (4,)})], NARROW)

    old, new = sorted(lake.read(), key=lambda row: -row["n"])
    assert (old["n"], old["x"], old["deep"]["list"]) == (2**40, 0.1, [{"b": 2**42}])
    assert deep(new) == {
        "n": 1, "x": 0.5, "dec": Decimal("1.25"), "deep": {"a": 2, "list": [{"b": 3}]},
        "map": {"k": {"c": 4}},
    }  # fmt: skip
    assert "bigint" in lake.schema(NARROW).simpleString()


def test_wider_values_widen_the_columns_of_iceberg(lake):
    narrow, wide = (
        (1, 0.5, Decimal("1.25"), (2, [(3,)]), {"k": (4,)}),
        (2**40, 0.1, Decimal("1234567.25"), (2**41, [(2**42,)]), {"k": (2**43,)}),
    )
    lake.write(0, [narrow], NARROW)
    if lake.kind == "delta":
        with pytest.raises(PipelineError, match="column n is bigint now and int in the table"):
            lake.write(1, [wide], WIDER)
        with pytest.raises(PipelineError, match=r"column deep\.a is bigint now and int in the table"):
            lake.schema("n INT, deep STRUCT<a: BIGINT>")
        return
    lake.write(1, [wide], WIDER)
    lake.write(2, [narrow], NARROW)

    found = sorted(map(deep, lake.read()), key=lambda row: row["n"])
    assert [row["n"] for row in found] == [1, 1, 2**40]
    assert found[2] == {
        "n": 2**40, "x": 0.1, "dec": Decimal("1234567.25"), "deep": {"a": 2**41, "list": [{"b": 2**42}]},
        "map": {"k": {"c": 2**43}},
    }  # fmt: skip
    assert found[0] == found[1]
    assert lake.iceberg().scan("n >= 1 AND n < 2").to_arrow()["n"].to_pylist() == [1, 1]
    assert lake.iceberg().scan("n > 2").to_arrow()["n"].to_pylist() == [2**40]
    lake.compact()
    assert sorted(map(deep, lake.read()), key=lambda row: row["n"]) == found
    for other in ("n INT, dec DECIMAL(9,4)", "n INT, x DECIMAL(5,2)", "n DOUBLE"):
        with pytest.raises(PipelineError, match=r"now and .* in the table"):
            lake.schema(other)


def test_structs_get_new_fields_wherever_they_are(lake):
    narrow, grown = (
        "n INT, deep STRUCT<a: INT, list: ARRAY<STRUCT<b: INT>>>",
        "n INT, deep STRUCT<z: STRING, a: INT, list: ARRAY<STRUCT<b: INT, y: STRING>>>",
    )
    lake.write(0, [(1, (2, [(3,)]))], narrow)
    lake.write(1, [(2, ("new", 2, [(3, "y")]))], grown)
    lake.write(2, [(3, (2, [(3,)]))], narrow)

    def rows():
        return [row["deep"] for row in sorted(lake.read(), key=lambda row: row["n"])]

    old = {"a": 2, "list": [{"b": 3, "y": None}], "z": None}
    assert rows() == [old, {"a": 2, "list": [{"b": 3, "y": "y"}], "z": "new"}, old]
    lake.compact()
    assert rows() == [old, {"a": 2, "list": [{"b": 3, "y": "y"}], "z": "new"}, old]
    with pytest.raises(
        PipelineError, match=r"column deep\.A is deep\.a in the table: only upper and lower case differ"
    ):
        lake.schema("deep STRUCT<A: INT>")


def test_structs_in_maps_get_new_fields_in_iceberg(lake):
    lake.write(0, [(1, {"k": (4,)})], "n INT, map MAP<STRING, STRUCT<c: INT>>")
    grown = "n INT, map MAP<STRING, STRUCT<c: INT, w: DATE>>"
    if lake.kind == "delta":
        with pytest.raises(PipelineError, match=r"column map\.w is not in the table"):
            lake.schema(grown)
        return
    lake.write(1, [(2, {"k": (4, NOON.date())})], grown)
    lake.compact()
    assert [deep(row)["map"] for row in sorted(lake.read(), key=lambda row: row["n"])] == [
        {"k": {"c": 4, "w": None}}, {"k": {"c": 4, "w": NOON.date()}},
    ]  # fmt: skip


def test_columns_that_partition_keep_their_types(lake):
    lake.write(0, [(1, 1)], "n INT, part INT", "part")
    with pytest.raises(PipelineError, match="column part is bigint now and int in the table"):
        lake.schema("n INT, part BIGINT", "part")


def test_delta_has_bounds_by_which_readers_skip_files(spark, tmp_path):
    lake = Lake(spark, tmp_path, "delta")
    for batch in range(3):
        lake.write(batch, [(batch * 10 + 1, ("a",)), (batch * 10 + 9, None)], "n INT, deep STRUCT<s: STRING>")

    table = DeltaTable(str(tmp_path / "t"))
    fragments = list(table.to_pyarrow_dataset().get_fragments(filter=pc.field("n") == 19))
    assert ["batch-0000000001" in fragment.path for fragment in fragments] == [True]
    # Each of two tasks has written one row of a batch.
    assert {action["nullCount"]["deep"]["s"] for action in stats_of(tmp_path / "t")} == {0, 1}


def stats_of(folder):
    for log in sorted((folder / "_delta_log").glob("*.json")):
        for line in log.read_text().splitlines():
            if "add" in (action := json.loads(line)):
                yield json.loads(action["add"]["stats"])


def test_a_batch_that_comes_again_is_there_once(lake):
    lake.write(0, [(1,)], "n INT")
    assert lake.write(0, [(1,)], "n INT") == 0
    assert lake.write(1, [(2,), (3,)], "n INT") == 2
    assert lake.write(1, [(2,), (3,)], "n INT") == 0
    assert lake.write(2, [], "n INT") == 0
    assert list((lake.folder / "t").rglob("batch-0000000002-*")) == []
    assert lake.write(2, [(4,)], "n INT") == 1
    assert lake.numbers() == [1, 2, 3, 4]


def test_others_may_compact_the_table_and_forget_its_history(lake):
    for batch in range(3):
        lake.write(batch, [(batch,)], "n INT")
    if lake.kind == "delta":
        table = DeltaTable(str(lake.folder / "t"))
        table.optimize.compact()
        table.create_checkpoint()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    else:
        table = lake.iceberg()
        table.overwrite(table.scan().to_arrow())
        old = [one.snapshot_id for one in table.snapshots() if one != table.current_snapshot()]
        table.maintenance.expire_snapshots().by_ids(old).commit()

    assert lake.write(2, [(2,)], "n INT") == 0
    assert lake.write(3, [(3,)], "n INT") == 1
    assert lake.numbers() == [0, 1, 2, 3]


def test_a_commit_that_fails_behind_its_commit_is_not_made_again(lake, monkeypatch):
    frame = lake.spark.createDataFrame([(1,)], "n INT")
    with BatchSink(Destination(lake.settings(), lake.at, frame.schema)) as sink:
        commit = type(sink._table)._commit

        def failing(self, *args):
            commit(self, *args)
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(type(sink._table), "_commit", failing)
            with pytest.raises(OSError, match="No space"):
                sink.write(frame, 0)
        assert "No space" in sink.failure.reason
        sink.write(frame, 0)
    assert lake.numbers() == [1]


def test_what_a_batch_left_that_was_not_committed_is_removed(lake, monkeypatch):
    lake.write(0, [(1,)], "n INT")
    frame = lake.spark.createDataFrame([(2,)], "n INT")
    with BatchSink(Destination(lake.settings(), lake.at, frame.schema)) as sink:
        with monkeypatch.context() as patch:
            patch.setattr(type(sink._table), "_commit", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                sink.write(frame, 1)
        sink.write(frame, 1)
    folders = [path.name[:16] for path in (lake.folder / "t").rglob("batch-*")]
    assert sorted(folders) == ["batch-0000000000", "batch-0000000001"]
    assert lake.numbers() == [1, 2]


def test_the_table_belongs_to_its_checkpoint_and_one_process(lake):
    lake.write(0, [(1,)], "n INT")
    with (
        BatchSink(Destination(lake.settings(), lake.at, lake.schema("n INT"))),
        pytest.raises(PipelineError, match="is being written by another process"),
    ):
        lake.write(1, [(2,)], "n INT")
    lake.checkpoint("other", "another query")
    for use in (lake.schema, lambda columns: lake.write(0, [(1,)], columns)):
        with pytest.raises(PipelineError, match="was written with another checkpoint"):
            use("n INT")


def test_a_type_that_the_format_does_not_have_is_refused(lake):
    for kind in (
        "INTERVAL DAY TO SECOND",
        "ARRAY<STRUCT<a: INTERVAL YEAR TO MONTH>>",
        "MAP<STRING, VARIANT>",
    ):
        with pytest.raises(PipelineError, match=rf"column gap is .*, which {lake.kind} does not have"):
            lake.schema(f"n INT, gap {kind}")
    if lake.kind == "iceberg":
        with pytest.raises(PipelineError, match="column b is tinyint, which iceberg does not have: CAST it"):
            lake.schema(StructType([StructField("b", ByteType())]))


def test_a_catalog_that_does_not_answer_is_named(spark, tmp_path):
    lake = Lake(spark, tmp_path, "iceberg")
    lake.folder /= "nowhere"
    with pytest.raises(PipelineError, match=r"^sink\.catalog: OperationalError: .*unable to open") as caught:
        lake.schema("n INT")
    assert "\n" not in str(caught.value)


def test_the_password_of_a_catalog_is_not_shown(tmp_path):
    from barnabas.spark.pipeline.tables.iceberg import IcebergFolder

    table = IcebergFolder(tmp_path, "lake.t", {"uri": "mysql://writer:p/4:nted@db/lake"})
    with pytest.raises(PipelineError, match=r"uri: mysql://writer:\*\*\*@db/lake$"):
        table.state(None)


def test_packages_that_are_missing_are_named(lake, monkeypatch):
    package = {"delta": "deltalake", "iceberg": "pyiceberg.expressions"}[lake.kind]
    monkeypatch.delitem(sys.modules, f"barnabas.spark.pipeline.tables.{lake.kind}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        PipelineError, match=rf"sink\.kind: {lake.kind} needs packages .*{package}.*barnabas\[lake\]"
    ):
        open_table(lake.settings())

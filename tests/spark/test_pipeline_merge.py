"""Tables that are changed by key: which row stays, what a batch that comes again does, what is refused."""

import datetime as dt
import json

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination, compact, open_table
from barnabas.spark.pipeline.tables.rewriting import Changes
from seeds import drawn_by_this_run

pytestmark = pytest.mark.spark

CHANGE = "_change STRUCT<topic: STRING, partition: INT, offset: BIGINT, time: TIMESTAMP, deleted: BOOLEAN>"
COLUMNS = f"id INT, name STRING, region STRING, {CHANGE}"
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def change(offset, *, deleted=False, partition=0):
    return ("users", partition, offset, NOON + dt.timedelta(minutes=offset), deleted)


def put(offset, key, name, region="eu", **more):
    return (key, name, region, change(offset, **more))


def delete(offset, key):
    """As a tombstone gives it: all but the key is null."""
    return (key, None, None, change(offset, deleted=True))


class Keyed:
    """A table of a kind that is changed by `id`."""

    def __init__(self, spark, folder, kind):
        self.spark, self.folder, self.kind = spark, folder, kind
        self.changes = Changes(("id",))
        self.layout = ()
        (folder / "checkpoint" / "offsets").mkdir(parents=True)
        (folder / "checkpoint" / "metadata").write_text(json.dumps({"id": "query"}))
        for batch in range(20):
            (folder / "checkpoint" / "offsets" / str(batch)).touch()

    def settings(self):
        catalog = {"uri": f"sqlite:///{self.folder}/catalog.db"}
        return Sink(
            self.kind, self.folder / "t", self.layout, None, "day", "lake.t", catalog, changes=self.changes
        )

    def write(self, batch, *rows, columns=COLUMNS):
        frame = self.spark.createDataFrame(rows, columns)
        with BatchSink(Destination(self.settings(), self.folder / "checkpoint", frame.schema)) as sink:
            sink.write(frame, batch)
        return sink.rows_written

    def read(self):
        if self.kind == "delta":
            table = DeltaTable(str(self.folder / "t")).to_pyarrow_table()
        else:
            catalog = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
            table = catalog.load_table("lake.t").scan().to_arrow()
        return table.to_pylist()

    def rows(self):
        return sorted((row["id"], row["name"], row["region"]) for row in self.read())

    def version(self):
        """What changes with each commit."""
        if self.kind == "delta":
            return DeltaTable(str(self.folder / "t")).version()
        catalog = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
        return catalog.load_table("lake.t").metadata_location

    def files(self):
        if self.kind == "delta":
            return set(DeltaTable(str(self.folder / "t")).file_uris())
        catalog = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
        return {task.file.file_path for task in catalog.load_table("lake.t").scan().plan_files()}


@pytest.fixture(params=drawn_by_this_run(["delta", "iceberg"], "table that is merged into"))
def table(spark, tmp_path, request):
    return Keyed(spark, tmp_path, request.param)


def test_the_newest_row_of_a_key_stays(table):
    assert table.write(0, put(0, 1, "a"), put(1, 2, "b"), put(2, 3, "c")) == 3
    assert table.write(1, put(3, 2, "B"), put(4, 4, "d"), delete(5, 3)) == 2

    assert table.rows() == [(1, "a", "eu"), (2, "B", "eu"), (4, "d", "eu")]


def test_a_thousand_changes_of_one_key_leave_the_last_by_offset(table):
    rows = [put(offset, 1, f"v{offset}") for offset in range(1000)]
    table.write(0, *reversed(rows[:500]))
    table.write(1, *reversed(rows[500:]), delete(400, 2))

    assert table.rows() == [(1, "v999", "eu")]


def test_a_delete_and_a_new_row_in_one_batch_count_in_their_order(table):
    table.write(0, put(0, 1, "a"), put(1, 2, "b"))
    table.write(1, delete(2, 1), put(3, 1, "again"), put(4, 2, "B"), delete(5, 2))

    assert table.rows() == [(1, "again", "eu")]


def test_a_batch_that_comes_again_changes_nothing(table):
    table.write(0, put(0, 1, "a"), put(1, 2, "b"))
    table.write(1, put(2, 1, "A"), delete(3, 2))
    before = table.version(), table.files()
    assert table.write(1, put(2, 1, "A"), delete(3, 2)) == 0
    assert table.write(0, put(0, 1, "a"), put(1, 2, "b")) == 0

    assert (table.version(), table.files()) == before
    assert table.rows() == [(1, "A", "eu")]


def test_duplicate_keys_after_a_crash_between_two_updates_of_one_key(table, monkeypatch):
    table.write(0, put(0, 1, "a"))
    commit = type(open_table(table.settings()))._commit

    def dies_before(*_):
        raise OSError(5, "killed")

    def dies_behind(self, *args):
        commit(self, *args)
        raise OSError(5, "killed")

    for batch, dies in ((1, dies_before), (2, dies_behind)):
        with monkeypatch.context() as patch:
            patch.setattr(type(open_table(table.settings())), "_commit", dies)
            with pytest.raises(OSError, match="killed"):
                table.write(batch, put(batch, 1, f"v{batch}"))
        table.write(batch, put(batch, 1, f"v{batch}"))
        assert table.rows() == [(1, f"v{batch}", "eu")]


def test_a_delete_that_comes_as_a_tombstone_only(table):
    table.layout = ("region",)
    table.write(0, put(0, 1, "a"), put(1, 2, "b", "us"))
    assert table.write(1, delete(2, 2)) == 0

    assert table.rows() == [(1, "a", "eu")]


def test_a_delete_whose_event_lacks_the_partition_column(table):
    table.layout = ("region",)
    table.write(0, put(0, 1, "a", "eu"), put(1, 2, "b", "us"), put(2, 3, "c", "us"))
    table.write(1, (2, "b", None, change(3, deleted=True)))

    assert table.rows() == [(1, "a", "eu"), (3, "c", "us")]


def test_snapshot_rows_over_existing_ones(table):
    rows = [put(0, 1, "a"), put(1, 2, "b")]
    table.write(0, *rows)
    table.write(1, *(put(offset + 10, *row[:3]) for offset, row in enumerate(rows)))

    assert table.rows() == [(1, "a", "eu"), (2, "b", "eu")]


def test_a_key_that_moves_between_partitions_is_in_the_new_one_only(table):
    table.layout = ("region",)
    table.write(0, put(0, 1, "a", "eu"), put(1, 2, "b", "eu"), put(2, 3, "ü", "a b/%="))
    table.write(1, put(3, 1, "a", "us"), put(4, 3, "ü", None))

    assert {row["id"]: row["region"] for row in table.read()} == {1: "us", 2: "eu", 3: None}
    assert len(table.read()) == 3
    table.write(2, put(5, 3, "moved", "eu"), put(6, 2, "c", "a b/%="))
    assert table.rows() == [(1, "a", "us"), (2, "c", "a b/%="), (3, "moved", "eu")]


def test_a_key_that_is_a_partition_column_is_found_in_its_partition(table):
    table.changes, table.layout = Changes(("region", "id")), ("region",)
    table.write(0, put(0, 1, "a", "eu"), put(1, 1, "b", "us"))
    table.write(1, put(2, 1, "B", "us"), (1, None, "eu", change(3, deleted=True)))

    assert table.rows() == [(1, "B", "us")]


def test_files_without_a_key_of_the_batch_stay(table):
    table.write(0, *(put(number, number, "a") for number in range(5)))
    table.write(1, *(put(number, number, "a") for number in range(5, 10)))
    table.write(2, *(put(number + 10, number, "a") for number in range(20, 30)))
    before = table.files()
    table.write(3, put(40, 7, "new"), delete(41, 19))

    assert len(before & table.files()) >= len(before) - 1
    assert (7, "new", "eu") in table.rows()
    assert len(table.rows()) == 20


def test_null_keys_end_the_batch_with_a_line(table):
    table.write(0, put(0, 1, "a"))
    with pytest.raises(
        PipelineError, match=r"^2 records have null in the key \(id\), the first is users-0 offset 7"
    ):
        table.write(1, put(6, 1, "b"), put(7, None, "c"), put(8, None, "d"))

    assert table.rows() == [(1, "a", "eu")]
    table.write(1, put(6, 1, "b"))
    assert table.rows() == [(1, "b", "eu")]


def test_deletes_by_a_column(table):
    table.changes = Changes(("id",), deleted_by="dropped")
    columns = f"id INT, name STRING, region STRING, dropped BOOLEAN, {CHANGE}"
    table.write(0, (1, "a", "eu", None, change(0)), (2, "b", "eu", False, change(1)), columns=columns)
    table.write(1, (2, "b", "eu", True, change(2)), columns=columns)

    assert table.rows() == [(1, "a", "eu")]
    assert "dropped" not in table.read()[0]


def test_columns_that_are_new_are_null_in_rows_that_are_written_again(table):
    table.write(0, put(0, 1, "a"), put(1, 2, "b"))
    columns = f"id INT, name STRING, region STRING, age INT, {CHANGE}"
    table.write(1, (2, "B", "eu", 7, change(2)), columns=columns)
    table.write(2, (3, "c", "eu", 8, change(3)), (1, "A", "eu", 9, change(4)), columns=columns)

    assert sorted((row["id"], row["name"], row["age"]) for row in table.read()) == [
        (1, "A", 9), (2, "B", 7), (3, "c", 8),
    ]  # fmt: skip


def test_a_table_that_was_compacted_is_changed_as_before(table):
    table.layout = ("region",)
    for batch in range(4):
        table.write(batch, put(batch, batch, "a"))
    compact(table.settings(), 1 << 20, lambda *_: None)
    assert len(table.files()) == 1
    table.write(4, put(9, 2, "b"), delete(10, 0))

    assert table.rows() == [(1, "a", "eu"), (2, "b", "eu"), (3, "a", "eu")]


def test_a_history_has_each_row_with_the_time_it_was_valid(table):
    table.changes = Changes(("id",), history=True)
    table.write(0, put(0, 1, "a"), put(1, 1, "b"), put(2, 2, "x"))
    table.write(1, put(3, 1, "c"), delete(4, 2), put(5, 3, "y"))
    table.write(2, put(6, 2, "again"))

    def minute(time):
        return None if time is None else (time - NOON).seconds // 60

    assert sorted(
        (row["id"], row["name"], minute(row["valid_from"]), minute(row["valid_to"])) for row in table.read()
    ) == [
        (1, "a", 0, 1), (1, "b", 1, 3), (1, "c", 3, None),
        (2, "again", 6, None), (2, "x", 2, 4), (3, "y", 5, None),
    ]  # fmt: skip


def test_a_history_that_comes_again_is_there_once(table):
    table.changes = Changes(("id",), history=True)
    table.write(0, put(0, 1, "a"))
    for _ in range(2):
        table.write(1, put(3, 1, "c"))
    assert len(table.read()) == 2
    assert sum(row["valid_to"] is None for row in table.read()) == 1


def test_a_table_that_others_have_changed_meanwhile_is_not_changed_blindly(table, monkeypatch):
    for batch in range(3):
        table.write(batch, put(batch, batch, "a"))
    commit = type(open_table(table.settings()))._commit

    def behind_a_compaction(self, *args):
        if table.kind == "delta":
            DeltaTable(str(table.folder / "t")).optimize.compact()
        else:
            catalog = load_catalog("default", uri=f"sqlite:///{table.folder}/catalog.db")
            other = catalog.load_table("lake.t")
            other.overwrite(other.scan().to_arrow())
        commit(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(type(open_table(table.settings())), "_commit", behind_a_compaction)
        with pytest.raises(PipelineError):
            table.write(3, put(10, 1, "b"))
    table.write(3, put(10, 1, "b"))
    assert table.rows() == [(0, "a", "eu"), (1, "b", "eu"), (2, "a", "eu")]


@pytest.mark.parametrize(
    ("changes", "layout", "columns", "words"),
    [
        (Changes(("id",)), (), "id INT, name STRING", "must hand on the column _change"),
        (Changes(("nr",)), (), COLUMNS, r"sink\.key: the rows have no column nr; they have id, name, region"),
        (Changes(("id",)), (), f"id DOUBLE, {CHANGE}", "sink.key: column id is double, which is no key"),
        (Changes(("id",), deleted_by="name"), (), COLUMNS, "no column name of type boolean"),
        (Changes(("id",), True), (), f"id INT, valid_to INT, {CHANGE}", "have a column valid_to already"),
        (Changes(("at",)), ("at",), f"at TIMESTAMP, {CHANGE}", "the table is partitioned by it"),
    ],
)  # fmt: skip
def test_what_cannot_change_a_table_is_refused_in_a_line(spark, tmp_path, changes, layout, columns, words):
    table = Keyed(spark, tmp_path, "delta")
    table.changes, table.layout = changes, layout
    with pytest.raises(PipelineError, match=words) as caught:
        table.write(0, columns=columns)
    assert "\n" not in str(caught.value)


def test_a_table_keeps_the_way_in_which_its_rows_are_told_apart(table):
    table.write(0, put(0, 1, "a"))
    for other, words in (
        (None, "was written with mode merge by id, not with mode append"),
        (Changes(("name",)), "with mode merge by id, not with mode merge by name"),
        (Changes(("id",), True), "not with mode history by id"),
    ):
        table.changes = other
        with pytest.raises(PipelineError, match=words):
            table.write(1, (2, "b", "eu"), columns="id INT, name STRING, region STRING") if (
                other is None
            ) else table.write(1, put(1, 1, "b"))

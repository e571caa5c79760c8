"""What a batch of changes does to a table's files, without Spark: Arrow's files go in, rows come out."""

import datetime as dt
import shutil
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables import logged
from barnabas.spark.pipeline.tables.delta import DeltaFolder
from barnabas.spark.pipeline.tables.iceberg import IcebergFolder
from barnabas.spark.pipeline.tables.rewriting import Changes, Keys
from barnabas.spark.pipeline.tables.table import Staged
from deaths import Died, deaths

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COLUMNS = {"id": pa.int32(), "name": pa.string()}
TIMES = {"valid_from": pa.timestamp("us", "UTC"), "valid_to": pa.timestamp("us", "UTC")}
MERGE = Changes(("id",))
SPARKS = {pa.int32(): "integer", pa.string(): "string", pa.timestamp("us", "UTC"): "timestamp"}


def minute(number):
    return None if number is None else START + dt.timedelta(minutes=number)


class Written:
    """A table of a kind, to which batches of rows are given as the executors would write them."""

    def __init__(self, folder, kind, columns=COLUMNS, changes=MERGE):
        self.folder, self.kind, self.columns, self.changes = folder / "t", kind, columns, changes
        self.catalog = {"uri": f"sqlite:///{folder}/catalog.db"}

    def open(self):
        if self.kind == "delta":
            return DeltaFolder(self.folder)
        return IcebergFolder(self.folder, "lake.t", self.catalog)

    def change(self, batch, added=(), deleted=(), *, unsent=(), truncated=None, table=None):
        """One file a row list of `added`; `deleted` are keys, of a history with their time."""
        schema = {"type": "struct", "fields": [
            {"name": name, "type": SPARKS[kind], "nullable": True, "metadata": {}}
            for name, kind in self.columns.items()
        ]}  # fmt: skip

        def write(folder):
            names = Staged([], [], [], truncated)
            groups = [(names.added, rows) for rows in added] + [(names.deleted, deleted)] * bool(deleted)
            groups += [(names.unsent, unsent)] * bool(unsent)
            for number, (where, rows) in enumerate(groups):
                folder.mkdir(parents=True, exist_ok=True)
                whole = [{**dict.fromkeys(self.columns), **row} for row in rows]
                path = folder / (f"apart/{number}.parquet" if where is names.unsent else f"{number}.parquet")
                path.parent.mkdir(exist_ok=True)
                pq.write_table(
                    pa.Table.from_pylist(whole, pa.schema(list(self.columns.items()))), path, row_group_size=2
                )
                where.append(path.relative_to(folder).as_posix())
            return names

        with self.using(table) as opened:
            opened.merge("query", batch, schema, [], self.changes, write)

    @contextmanager
    def using(self, table):
        if table is not None:
            yield table
        else:
            with self.open() as opened:
                yield opened

    def last(self):
        return self.open().state("query").batch

    def rows(self):
        if self.kind == "delta":
            found = DeltaTable(str(self.folder)).to_pyarrow_table()
        else:
            catalog = load_catalog("default", **self.catalog)
            found = catalog.load_table("lake.t").scan().to_arrow()
        return sorted(found.to_pylist(), key=str)

    def names(self):
        return {row["id"]: row["name"] for row in self.rows()}


@pytest.fixture(params=["delta", "iceberg"])
def table(tmp_path, request):
    return Written(tmp_path, request.param)


def rows(*pairs):
    return [{"id": key, "name": name} for key, name in pairs]


def test_rows_with_a_key_of_the_batch_go_and_the_others_stay(table):
    table.change(0, [rows((1, "a"), (2, "b"), (3, "c")), rows((7, "g"), (9, "i"))])
    table.change(1, [rows((2, "B"), (10, "j"))], rows((9, None)))

    assert table.names() == {1: "a", 2: "B", 3: "c", 7: "g", 10: "j"}
    assert len(table.rows()) == 5
    assert table.last() == 1


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_key_may_have_the_name_that_numbers_of_rows_had(tmp_path, kind):
    """Rows were taken out by their key, as if that was their number in the file."""
    table = Written(tmp_path, kind, {"_row": pa.int32(), "name": pa.string()}, Changes(("_row",)))

    def named(*pairs):
        return [{"_row": key, "name": name} for key, name in pairs]

    table.change(0, [named((1, "a"), (0, "b"), (2, "c"))])
    table.change(1, [named((1, "A"))])
    assert {row["_row"]: row["name"] for row in table.rows()} == {0: "b", 1: "A", 2: "c"}


def test_keys_at_the_bounds_of_a_file_are_found(table):
    table.change(0, [rows((1, "a"), (5, "e"))])
    table.change(1, [rows((1, "A"))])
    table.change(2, [rows((5, "E"))])
    assert sorted((row["id"], row["name"]) for row in table.rows()) == [(1, "A"), (5, "E")]


def test_a_file_without_a_row_left_goes(table):
    table.change(0, [rows((1, "a"), (2, "b")), rows((3, "c"))])
    table.change(1, [], rows((1, None), (2, None)))
    assert table.names() == {3: "c"}


def test_a_batch_that_changes_nothing_leaves_no_folder(table):
    table.change(0, [rows((1, "a"))])
    table.change(1, [], rows((5, None)))
    assert table.names() == {1: "a"}
    assert not list(table.folder.rglob("batch-0000000001-*"))


def test_the_batch_is_in_the_commit(table):
    table.change(0, [rows((1, "a"))])
    table.change(4, [rows((1, "b"))])
    table.change(5, [], rows((1, None)))
    assert table.last() == 5
    with table.open() as opened:
        assert opened.has("query", 5)
        assert not opened.has("query", 6)


def test_a_compaction_of_others_between_look_and_commit_is_no_second_copy(table, monkeypatch):
    for batch in range(3):
        table.change(batch, [rows((batch, "a"))])
    commit = type(table.open())._commit

    def behind(self, *args):
        if table.kind == "delta":
            DeltaTable(str(table.folder)).optimize.compact()
        else:
            other = load_catalog("default", **table.catalog).load_table("lake.t")
            other.overwrite(other.scan().to_arrow())
        commit(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(type(table.open()), "_commit", behind)
        with pytest.raises(PipelineError):
            table.change(3, [rows((1, "b"))])
    assert table.names() == {0: "a", 1: "a", 2: "a"}
    table.change(3, [rows((1, "b"))])
    assert sorted((row["id"], row["name"]) for row in table.rows()) == [(0, "a"), (1, "b"), (2, "a")]


def test_a_history_closes_the_open_row_of_a_key_once(tmp_path):
    for kind in ("delta", "iceberg"):
        (tmp_path / kind).mkdir()
        table = Written(tmp_path / kind, kind, {**COLUMNS, **TIMES}, Changes(("id",), history=True))

        def row(key, name, begin, end=None):
            return {"id": key, "name": name, "valid_from": minute(begin), "valid_to": minute(end)}

        table.change(0, [[row(1, "a", 0, 1), row(1, "b", 1), row(2, "x", 0)]])
        table.change(1, [[row(1, "c", 3, 5), row(1, "d", 5)]], [row(2, None, 7)])
        found = sorted((one["id"], one["name"], one["valid_from"], one["valid_to"]) for one in table.rows()
                       if one["valid_to"] is not None)  # fmt: skip
        assert found == [
            (1, "a", minute(0), minute(1)), (1, "b", minute(1), minute(3)), (1, "c", minute(3), minute(5)),
            (2, "x", minute(0), minute(7)),
        ]  # fmt: skip
        assert [one["name"] for one in table.rows() if one["valid_to"] is None] == ["d"]


def test_bounds_that_are_not_known_leave_no_file_out():
    keys = Keys(pa.table({"id": [5, 7]}), Changes(("id",)))
    assert keys.may_be_in("id", 1, 5)
    assert keys.may_be_in("id", 7, 9)
    assert keys.may_be_in("id", None, 4)
    assert keys.may_be_in("id", 1, None)
    assert keys.may_be_in("id", "a", "b")
    assert not keys.may_be_in("id", 6, 6)
    assert not keys.may_be_in("id", 8, 9)


def test_a_file_that_cannot_be_read_is_named(table):
    table.change(0, [rows((1, "a"))])
    (file,) = table.folder.rglob("0.parquet")
    file.write_bytes(b"PAR1 not")
    with pytest.raises(PipelineError, match=r"0\.parquet cannot be rewritten: ") as caught:
        table.change(1, [rows((1, "b"))])
    assert "\n" not in str(caught.value)


def test_a_truncate_takes_all_rows_and_the_batch_is_what_is_left(table):
    table.change(0, [rows((1, "a"), (2, "b")), rows((3, "c"))])
    table.change(1, [rows((2, "new"))], truncated=minute(0))
    assert table.names() == {2: "new"}
    table.change(2, truncated=minute(0))
    assert (table.rows(), table.last()) == ([], 2)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_truncate_closes_the_rows_of_a_history_that_are_valid(tmp_path, kind):
    table = Written(tmp_path, kind, {**COLUMNS, **TIMES}, Changes(("id",), history=True))
    table.change(0, [[
        {"id": 1, "name": "old", "valid_from": minute(0), "valid_to": minute(1)},
        {"id": 1, "name": "a", "valid_from": minute(1)},
        {"id": 2, "name": "b", "valid_from": minute(1)},
    ]])  # fmt: skip
    closed = {"id": 2, "name": "B", "valid_from": minute(2), "valid_to": minute(3)}
    table.change(1, [[closed]], truncated=minute(3))
    ends = {row["name"]: row["valid_to"] for row in table.rows()}
    assert ends == {"old": minute(1), "a": minute(3), "b": minute(2), "B": minute(3)}
    table.change(2, [[{"id": 5, "name": "c", "valid_from": minute(4)}]])
    table.change(3, truncated=minute(9))
    ends = {row["name"]: row["valid_to"] for row in table.rows()}
    assert (ends["a"], ends["c"]) == (minute(3), minute(9))


MARK = "__debezium_unavailable_value"


def test_marks_become_the_values_of_the_rows_that_go(table):
    table.change(0, [rows((1, "a"), (2, "b"), (3, None)), rows((9, "i"))])
    table.change(1, [rows((9, "I"))], unsent=rows((2, MARK), (3, MARK), (1, "sent")))
    assert table.names() == {1: "sent", 2: "b", 3: None, 9: "I"}
    assert len(table.rows()) == 4


def test_a_mark_without_an_older_row_ends_the_batch_with_a_line(table):
    table.change(0, [rows((1, "a"), (2, "b"))])
    for more in ({"unsent": rows((7, MARK))}, {"unsent": rows((2, MARK)), "truncated": minute(0)}):
        with pytest.raises(
            PipelineError, match=r"^the row with id = [27] has no value of name, which was not"
        ):
            table.change(1, **more)
    assert table.names() == {1: "a", 2: "b"}
    table.change(1, unsent=rows((2, MARK)))
    assert (table.names(), table.last()) == ({1: "a", 2: "b"}, 1)


@pytest.mark.parametrize("batch", [
    {"added": [rows((2, "B"), (10, "j"))], "deleted": rows((9, None)), "unsent": rows((1, MARK))},
    {"added": [rows((2, "B"))], "truncated": minute(0)},
], ids=["changes", "truncate"])  # fmt: skip
def test_a_kill_at_any_step_leaves_the_rows_before_or_behind_the_batch(tmp_path, monkeypatch, batch):
    left = deaths(
        monkeypatch, (Path, "unlink"), (shutil, "rmtree"), (logged, "synchronise_files"), (logged, "keys_of"),
        (pq, "ParquetWriter"), (DeltaTable, "create_write_transaction"), (DeltaFolder, "_action"),
    )  # fmt: skip
    died, ends = 0, []
    for step in range(30):
        (tmp_path / str(step)).mkdir()
        table = Written(tmp_path / str(step), "delta")
        left[0] = None
        table.change(0, [rows((1, "a"), (2, "b"), (3, "c")), rows((9, "i"))])
        before, left[0] = table.names(), step
        try:
            table.change(1, **batch)
        except Died:
            died += 1
            left[0] = None
            done = table.last() == 1
            assert table.names() == before or done
            if not done:
                table.change(1, **batch)
        lived = left[0] is not None
        left[0] = None
        ends.append(table.names())
        assert len(table.rows()) == len(table.names())
        folder = [path.name for path in table.folder.glob("batch-*1-*")]
        assert len(folder) == 1
        if lived:
            break
    assert died >= 4
    assert all(one == ends[-1] for one in ends)  # the last one had no death

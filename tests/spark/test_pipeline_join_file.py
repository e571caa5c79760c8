"""The sections `[[join]]` of a pipeline's file, and what is known of joined tables without Spark."""

import datetime as dt
import json
import os
import re
import shutil
import socket
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.joined import joins
from barnabas.spark.pipeline.joined.joined_tables import Copies, TableAwayError, forget_batch, settled

FILE = """
checkpoint = "checkpoint"
[source]
kafka.bootstrap.servers = "127.0.0.1:9092"
subscribe = "flights"
[format]
kind = "json"
schema = "carrier STRING, delay INT, to STRUCT<airport: STRING>, sum DECIMAL(9,2), at TIMESTAMP"
[sink]
kind = "delta"
path = "table"
[[join]]
table = "airlines"
kind = "delta"
on = ["carrier"]
"""
AIRLINES = pa.table({
    "carrier": ["AA", "UA", None],
    "name": ["American", "United", "Nobody"],
    "rank": pa.array([1, 2, 3], pa.int64()),
})  # fmt: skip


@pytest.fixture
def read(tmp_path):
    """Reads a file of this text."""

    def read(text=FILE):
        path = tmp_path / "flights.toml"
        path.write_text(text)
        return load(path)

    return read


def test_a_short_join_has_defaults(read, tmp_path):
    (one,) = read().joins
    assert (one.table, one.kind, one.how, one.many) == (str(tmp_path / "airlines"), "delta", "left", False)
    assert (one.on, one.columns, one.name) == ({"carrier": "value.carrier"}, (), "airline" + "s")


def test_the_page_has_a_join_that_fits(read, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
    found = read(page.partition("## Joins with tables")[2].partition("```toml")[2].partition("```")[0])
    write_deltalake(tmp_path / "airlines", AIRLINES)
    joins.check(found)
    assert [(one.name, one.columns) for one in found.joins] == [("airline", ("name",))]


def test_a_long_join_is_read_whole(read):
    more = 'columns = ["name"]\nas = "line"\nhow = "inner"\nmany = true\n[[join]]\n'
    rest = 'table = "s3://lake/airports.parquet"\nkind = "parquet"\non = { code = "upper(value.to.airport)" }'
    one, two = read(FILE + more + rest).joins
    assert (one.columns, one.name, one.how, one.many) == (("name",), "line", "inner", True)
    assert (two.table, two.name, two.number) == ("s3://lake/airports.parquet", "airports", 1)
    assert two.on == {"code": "upper(value.to.airport)"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('table = "airlines"', "", "join[0].table is missing"),
        ('table = "airlines"', 'tabel = "airlines"', "join[0].tabel is unknown; did you mean table?"),
        ('"airlines"', '"ftp://u:s3cret@h/x"', "join[0].table must be a folder, or an address such as"),
        ('"airlines"', '"s3://u:s3cret@h/x"', "join[0].table must be a folder, or an address such as"),
        ('"airlines"', '"air-lines"', "join[0].as is 'air-lines': it must have letters of ASCII, digits"),
        ('"airlines"', '"lake/value"', "join[0].as is 'value', which the view source has already"),
        ('kind = "delta"\non', 'kind = "iceberg"\non', "join[0].table is 'airlines': it must be namespace."),
        ('kind = "delta"\non', 'kind = "orc"\non', "join[0].kind is 'orc': it must be one of delta, ice"),
        ('"carrier"]', '"carrier"]\ncatalog = "sqlite:///c.db"', "join[0].catalog is unknown"),
        ('kind = "delta"\non', "on", "join[0].kind is missing"),
        ('"airlines"', '"a%20b"', "/a%20b', and delta-rs takes '%20' for something else"),
        ('on = ["carrier"]', "", "join[0].on is missing: the columns that tell"),
        ('on = ["carrier"]', "on = []", "join[0].on is missing"),
        ('on = ["carrier"]', "on = {}", "join[0].on is missing"),
        ('on = ["carrier"]', 'on = "carrier"', "join[0].on is 'carrier': it must be a list of texts"),
        ('on = ["carrier"]', 'on = ["carrier", "carrier"]', "join[0].on names a column twice"),
        ('on = ["carrier"]', 'on = { carrier = " " }', "join[0].on has nothing that carrier is equal to"),
        ('["carrier"]', '["carrier"]\ncolumns = ["a", "a"]', "join[0].columns names a column twice"),
        ('["carrier"]', '["carrier"]\nhow = "outer"', "join[0].how is 'outer': it must be one of"),
        ('["carrier"]', '["carrier"]\nmany = "yes"', "join[0].many is 'yes': it must be true or false"),
        ('["carrier"]', '["carrier"]\nzzz = 1', "join[0].zzz is unknown; there are kind, table, columns, on"),
        ('["carrier"]', '["carrier"]\nas = "_record"', "join[0].as is '_record': it must have letters"),
        ('["carrier"]', '["carrier"]\n[[join]]\ntable = "Airlines"\nkind = "delta"\non = ["a"]',
            "join[1].as is 'Airlines', which the view source has already"),
        ("[[join]]", "[join]", "join must be tables, each below [[join]]"),
        ('"checkpoint"', '"airlines/c"', "must not be in the folder of join[0].table"),
        ('"checkpoint"', '"c"\nlog = "airlines/x.log"', "must not be in the folder of join[0].table"),
        ('path = "table"', ('path = "table"\nmode = "merge"\nkey = ["a"]\n[[join]]\nhow = "inner"\n'
            'table = "t"\nkind = "delta"\non = ["a"]'), 'join[0].how must be "left" with sink.mode'),
        ('path = "table"', ('path = "table"\nmode = "merge"\nkey = ["a"]\n[[join]]\nmany = true\n'
            'table = "t"\nkind = "delta"\non = ["a"]'), "join[0].many has no use with sink.mode"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(read, old, new, words):
    assert old in FILE
    with pytest.raises(PipelineError, match=re.escape(words)) as caught:
        read(FILE.replace(old, new, 1))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
_KEYS = st.sampled_from(["table", "kind", "on", "columns", "as", "how", "many", "other"])


@given(st.dictionaries(_KEYS, _VALUES, max_size=8))
def test_no_section_of_any_form_raises_anything_else(tmp_path_factory, section):
    from barnabas.spark.pipeline.file.join_settings import joins_of
    from barnabas.spark.pipeline.file.section import Section

    good = {"table": "t", "kind": "delta", "on": ["a"]}
    failure = None
    try:
        (one,) = joins_of([Section({**good, **section}, "join[0]")], tmp_path_factory.getbasetemp(), None)
    except PipelineError as error:
        failure = str(error)
    if failure is not None:
        assert failure.startswith("join[0].")
    else:
        assert one.on
        assert one.how in {"left", "inner"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('["carrier"]', '["carier"]', "column carier of {}/airlines is unknown; did you mean carrier?"),
        ('["carrier"]', '["carrier"]\ncolumns = ["nmae"]', "join[0].columns: column nmae of"),
        ('["carrier"]', '["rank"]', "join[0].on: rank of value is unknown; there are carrier, delay"),
        ('["carrier"]', '{ rank = "value.carrier" }',
            ("value.carrier is string, and column rank of {}/airlines is bigint: CAST it, as in "
            '{{ rank = "CAST(value.carrier AS BIGINT)" }}')),
        ('["carrier"]', '{ carrier = "value.at" }', "value.at is timestamp, and column carrier"),
        ('["carrier"]', '{ carrier = "value.to" }', "value.to is struct<airport:string>, which no rows"),
        ('["carrier"]', '{ carrier = "value.delay.x" }', "and delay is int: it has no fields"),
        ('["carrier"]', '{ carrier = "valeu.x" }', "valeu of the view source is unknown; did you mean"),
        ('["carrier"]', ('["carrier"]\n[[join]]\ntable = "airlines"\nas = "b"\nkind = "delta"\n'
            'on = { name = "airlines.rank" }'), "join[1].on: airlines.rank is bigint, and column name"),
        ('schema = "carrier', 'malformed = "keep"\nschema = "nobody', "there are nobody, delay, to, sum, at"),
        ('kind = "json"\nschema =', 'kind = "binary"\n#', "is value.carrier, and value is binary"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_known_before_spark_starts(read, tmp_path, old, new, words):
    write_deltalake(tmp_path / "airlines", AIRLINES)
    with pytest.raises(PipelineError, match=re.escape(words.format(tmp_path))):
        joins.check(read(FILE.replace(old, new, 1)))


@pytest.mark.parametrize(
    "on",
    ['{ rank = "value.delay" }', '{ rank = "value.sum" }', '{ carrier = "VALUE.to.Airport" }',
     '{ carrier = "topic" }', '{ rank = "offset" }', '{ carrier = "upper(value.nothing)" }',
     '{ carrier = "value.carrier", rank = "partition" }'],
)  # fmt: skip
def test_columns_that_fit_are_taken(read, tmp_path, on):
    """Expressions are Spark's business, and so are their types."""
    write_deltalake(tmp_path / "airlines", AIRLINES)
    joins.check(read(FILE.replace('["carrier"]', on)))


def test_a_table_that_never_was_there_is_refused_where_nobody_waits(read, tmp_path):
    """Such as one whose path is mistyped; one that a batch was joined with is away."""
    write_deltalake(tmp_path / "airlines", AIRLINES)
    wrong = read(FILE.replace('table = "airlines"', 'table = "airlnes"\nas = "airline"'))
    said = f"join[0]: the table {tmp_path}/airlnes cannot be read: there is no Delta table; did you mean "
    with pytest.raises(PipelineError, match=f"^{re.escape(said + str(tmp_path))}/airlines\\?$") as caught:
        joins.check(wrong, waits=False)
    assert not isinstance(caught.value, TableAwayError)
    joins.check(wrong)
    joins.check(read(FILE.replace('"airlines"', '"s3://lake/airlines"')), waits=True)

    found = read()
    Copies(found.checkpoint, settled(found.joins)).of(0)
    (tmp_path / "airlines").rename(tmp_path / "moved")
    joins.check(found, waits=False)


def test_a_name_that_the_catalog_does_not_have_is_refused_where_nobody_waits(read, tmp_path):
    airlines = Airlines(tmp_path, "iceberg", read)
    catalog = tmp_path / "catalog.db"
    with pytest.raises(PipelineError, match=r"its catalog has no such table$"):
        joins.check(airlines.load(), waits=False)
    assert not catalog.exists()  # to look into it would have made it
    airlines.write(AIRLINES)
    airlines.text = airlines.text.replace("lake.airlines", "lake.airlnes")
    with pytest.raises(PipelineError, match=r"such table; did you mean lake\.airlines\?$") as caught:
        joins.check(airlines.load(), waits=False)
    assert not isinstance(caught.value, TableAwayError)
    joins.check(airlines.load())


def test_a_catalog_that_is_away_is_waited_for_and_one_that_is_none_is_not(read, tmp_path):
    airlines = Airlines(tmp_path, "iceberg", read)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    airlines.text += f'catalog = {{ type = "rest", uri = "http://u:s3cret@127.0.0.1:{port}" }}\n'
    joins.check(airlines.load(), waits=False)
    with pytest.raises(
        TableAwayError, match=r"join\[0\]: the table lake\.airlines cannot be read: Conn"
    ) as away:
        settled(airlines.load().joins)
    airlines.text = airlines.text.replace('"rest"', '"none"')
    with pytest.raises(PipelineError, match=r"^join\[0\]\.catalog: ValueError: ") as wrong:
        settled(airlines.load().joins)
    assert "s3cret" not in str(away.value) + str(wrong.value)


def test_what_iceberg_alone_does_is_read_too(read, tmp_path):
    """A column that has another name in older files, and one that Spark does not have."""
    airlines = Airlines(tmp_path, "iceberg", read, 'columns = ["title"]\n')
    airlines.write(AIRLINES.append_column("t", pa.array([None] * 3, pa.time64("us"))))
    with airlines.catalog().load_table("lake.airlines").update_schema() as update:
        update.rename_column("name", "title")
    assert rows(airlines.begin().of(0)) == [
        {"carrier": "AA", "title": "American"}, {"carrier": "UA", "title": "United"},
    ]  # fmt: skip
    airlines.text = airlines.text.replace('["title"]', '["title", "t"]')
    with pytest.raises(PipelineError, match=r"join\[0\]: column t of lake\.airlines is time64\[us\], which"):
        airlines.begin()


def test_a_kind_that_is_another_one_is_said(read, tmp_path):
    """The files of a Delta table's folder have rows that were deleted."""
    write_deltalake(tmp_path / "airlines", AIRLINES)
    write_deltalake(tmp_path / "airlines", AIRLINES.slice(0, 1), mode="overwrite")
    with pytest.raises(PipelineError, match=r'join\[0\]\.kind: .*/airlines is a Delta table: it must be "d'):
        settled(read(FILE.replace('kind = "delta"\non', 'kind = "parquet"\non')).joins)
    shutil.rmtree(tmp_path / "airlines" / "_delta_log")
    with pytest.raises(TableAwayError, match=r'are Parquet files: is its kind "parquet"\?$'):
        settled(read().joins)


def test_a_table_whose_columns_have_other_names_in_its_files_is_refused(read, tmp_path):
    """By its protocol without a list of features, which delta-rs reads nulls of: no row was found."""
    write_deltalake(tmp_path / "airlines", AIRLINES)
    (log,) = (tmp_path / "airlines" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for one in actions:
        if "protocol" in one:
            one["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in one:
            schema = json.loads(one["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"]):
                name = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
                field["metadata"] = name
            one["metaData"]["schemaString"] = json.dumps(schema)
            one["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    log.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(PipelineError, match="airlines has column mapping, which delta-rs does not read"):
        settled(read().joins)


def test_columns_that_differ_in_their_case_alone_are_refused_unless_left_out(read, tmp_path):
    text = FILE.replace('kind = "delta"\non', 'kind = "parquet"\non')
    pq.write_table(AIRLINES.append_column("NAME", AIRLINES["name"]), tmp_path / "airlines")
    with pytest.raises(PipelineError, match="has the columns name and NAME, which Spark takes for one"):
        settled(read(text).joins)
    settled(read(text + 'columns = ["NAME"]\n').joins)


def test_a_table_that_is_away_says_nothing_of_the_file(read):
    joins.check(read())
    with pytest.raises(
        TableAwayError, match=r"^\[JOINED_TABLE_AWAY\] join\[0\]: the table .*there is no Delta"
    ):
        settled(read().joins)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pa.array([1, 2, 3], pa.uint64()), "is uint64, which Spark does not have: leave it out"),
        (pa.array([None, None, None], pa.null()), "is null, which Spark does not have"),
        (pa.array([[], [], []], pa.list_(pa.null())), "is list<element: null>, which Spark does not have"),
        (pa.array([1, 2, 3], pa.time64("us")), "is time64[us], which Spark does not have"),
        (pa.array([1, 2, 3], pa.decimal256(50, 0)), "is decimal256(50, 0), which Spark does not have"),
    ],
)
def test_columns_that_spark_does_not_have_are_refused_unless_left_out(read, tmp_path, column, words):
    text = FILE.replace('kind = "delta"\non', 'kind = "parquet"\non')
    pq.write_table(AIRLINES.append_column("odd", column), tmp_path / "airlines")
    with pytest.raises(PipelineError, match=re.escape(words)):
        settled(read(text).joins)
    settled(read(text + 'columns = ["name"]\n').joins)


class Airlines:
    """A table of either kind, and the copies that batches have of it."""

    def __init__(self, folder, kind, read, more=""):
        self.folder, self.kind = folder, kind
        name = "lake.airlines" if kind == "iceberg" else "airlines"
        self.text = FILE.replace('"airlines"\nkind = "delta"', f'"{name}"\nkind = "{kind}"') + more
        self.load = lambda: read(self.text)

    def catalog(self):
        found = load_catalog("default", uri=f"sqlite:///{self.folder}/catalog.db")
        found.create_namespace_if_not_exists("lake")
        return found

    def write(self, table, mode="overwrite"):
        at = self.folder / "airlines"
        if self.kind == "delta":
            write_deltalake(at, table, mode=mode, schema_mode="merge")
            return
        if self.kind == "iceberg":
            there = self.catalog().create_table_if_not_exists("lake.airlines", table.schema, f"file://{at}")
            with there.update_schema() as update:
                update.union_by_name(table.schema)
            is_empty = there.current_snapshot() is None
            (there.append if mode == "append" or is_empty else there.overwrite)(table)
            return
        at.mkdir(exist_ok=True)
        if mode == "overwrite":
            for path in at.iterdir():
                path.unlink()
        pq.write_table(table, at / f"{len(list(at.iterdir()))}.parquet")

    def move(self, name, to):
        """From one name to another one."""
        if self.kind == "iceberg":
            self.catalog().rename_table(f"lake.{name}", f"lake.{to}")
        else:
            (self.folder / name).rename(self.folder / to)

    def remove(self):
        if self.kind == "iceberg":
            self.catalog().drop_table("lake.airlines")
        shutil.rmtree(self.folder / "airlines")

    def begin(self):
        pipeline = self.load()
        return Copies(pipeline.checkpoint, settled(pipeline.joins))


def rows(paths):
    (path,) = paths
    return sorted(pq.read_table(path).to_pylist(), key=str)


@pytest.fixture(params=["delta", "iceberg", "parquet"])
def airlines(request, tmp_path, read):
    return Airlines(tmp_path, request.param, read)


AA, UA = {"carrier": "AA", "name": "American", "rank": 1}, {"carrier": "UA", "name": "United", "rank": 2}
B6 = {"carrier": "B6", "name": "JetBlue", "rank": 3}


def test_each_batch_sees_the_table_as_it_is_when_it_begins(airlines):
    airlines.write(AIRLINES)
    copies = airlines.begin()
    first = copies.of(0)
    assert rows(first) == [AA, UA]  # without the row that has no key
    assert copies.of(1) == first
    airlines.write(pa.Table.from_pylist([B6]), mode="append")
    assert rows(copies.of(2)) == [AA, B6, UA]
    assert not first[0].exists()


def test_a_batch_that_is_done_again_sees_what_it_saw_first(airlines):
    airlines.write(AIRLINES)
    airlines.begin().of(7)
    airlines.write(pa.Table.from_pylist([B6]))
    assert rows(airlines.begin().of(7)) == [AA, UA]
    airlines.remove()
    airlines.write(pa.Table.from_pylist([B6]))
    copies = airlines.begin()
    assert rows(copies.of(7)) == [AA, UA]
    forget_batch(airlines.load().checkpoint)
    assert rows(copies.of(7)) == [B6]


def test_a_batch_that_is_done_again_by_another_file_sees_what_that_asks_for(airlines):
    airlines.write(AIRLINES)
    airlines.begin().of(7)
    airlines.text += 'columns = ["rank"]\n'
    assert rows(airlines.begin().of(7)) == [{"carrier": "AA", "rank": 1}, {"carrier": "UA", "rank": 2}]


def test_two_rows_of_a_key_are_refused_unless_the_file_wants_them(airlines):
    airlines.write(AIRLINES)
    copies = airlines.begin()
    copies.of(0)
    airlines.write(pa.Table.from_pylist([{**AA, "name": "Other"}, B6]), mode="append")
    with pytest.raises(
        PipelineError, match=r"join\[0\]: .*airlines has 2 rows with carrier = 'AA': a record"
    ):
        copies.of(1)
    # A restart each minute would fill the disk.
    assert not list((airlines.folder / "checkpoint" / "joins").glob("*.new"))
    airlines.text += "many = true\n"
    assert len(rows(airlines.begin().of(1))) == 4
    airlines.text = airlines.text.replace('["carrier"]', '{ carrier = "value.carrier", name = "\'x\'" }')
    airlines.text = airlines.text.replace("many = true\n", "")
    assert len(rows(airlines.begin().of(1))) == 4


def test_new_columns_come_with_the_next_run_and_others_end_it(airlines):
    airlines.write(AIRLINES)
    copies = airlines.begin()
    copies.of(0)
    airlines.write(pa.Table.from_pylist([{**B6, "hub": "JFK"}]), mode="append")
    assert rows(copies.of(1)) == [AA, B6, UA]
    assert rows(airlines.begin().of(2))[1] == {**B6, "hub": "JFK"}
    airlines.remove()
    airlines.write(AIRLINES.set_column(2, "rank", pa.array(["1", "2", "3"])))
    with pytest.raises(
        PipelineError, match=r"other types than when the run began \(.*rank:string.*rank:bigint"
    ):
        copies.of(2 + 1)
    airlines.remove()
    airlines.write(AIRLINES.drop_columns("name"))
    with pytest.raises(PipelineError, match=r"column name of .* is unknown"):
        copies.of(3)


def test_a_table_that_is_away_is_waited_for(airlines):
    with pytest.raises(TableAwayError):
        airlines.begin()
    airlines.write(AIRLINES)
    copies = airlines.begin()
    copies.of(0)
    airlines.move("airlines", "moved")
    with pytest.raises(TableAwayError, match=r"there is no Delta table|it has no files|has no such table"):
        copies.of(1)
    airlines.move("moved", "airlines")
    assert rows(copies.of(1)) == [AA, UA]


def test_files_that_go_while_they_are_read_are_waited_for(airlines, monkeypatch):
    """A vacuum, or a compaction of plain Parquet; what the table is then is read at the next look."""
    from barnabas.spark.pipeline.joined import joined_tables

    airlines.write(AIRLINES)
    copies, write, calls = airlines.begin(), joined_tables._write, []

    def vanishing(join, dataset, path):
        calls.append(path)
        if len(calls) == 1:
            for file in (airlines.folder / "airlines").rglob("*.parquet"):
                file.unlink()
            if airlines.kind == "parquet":
                airlines.write(pa.Table.from_pylist([B6]))
        write(join, dataset, path)

    monkeypatch.setattr(joined_tables, "_write", vanishing)
    if airlines.kind == "parquet":
        assert rows(copies.of(0)) == [B6]
    else:
        with pytest.raises(TableAwayError, match="cannot be read"):
            copies.of(0)


def test_a_table_that_never_stands_still_is_away(airlines, monkeypatch):
    from barnabas.spark.pipeline.joined import joined_tables

    airlines.write(AIRLINES)
    copies, write = airlines.begin(), joined_tables._write

    def growing(join, dataset, path):
        airlines.write(pa.Table.from_pylist([B6]), mode="append")
        write(join, dataset, path)

    monkeypatch.setattr(joined_tables, "_write", growing)
    with pytest.raises(TableAwayError, match="it has changed each of 5 times while it was read"):
        copies.of(0)
    assert not list((airlines.folder / "checkpoint" / "joins").iterdir())


def test_what_a_kill_has_left_is_removed_and_a_damaged_note_is_said(airlines):
    airlines.write(AIRLINES)
    copies = airlines.begin()
    (kept,) = copies.of(0)
    (kept.parent / "0123.new").write_bytes(b"half")
    copies.of(1)
    assert sorted(path.name for path in kept.parent.iterdir()) == sorted([kept.name, "batch.json"])
    for note in ({"batch": 1}, {"batch": "1", "copies": []}):
        (kept.parent / "batch.json").write_text(json.dumps(note))
        with pytest.raises(PipelineError, match=r"batch\.json is no note of the copies"):
            copies.of(1)


def test_a_folder_with_partitions_or_one_file_is_a_table(read, tmp_path):
    text = FILE.replace('kind = "delta"\non', 'kind = "parquet"\non')
    path = tmp_path / "airlines" / "rank=1"
    path.mkdir(parents=True)
    pq.write_table(AIRLINES.slice(0, 1).drop_columns("rank"), path / "a.parquet")
    (tmp_path / "airlines" / "_SUCCESS").touch()
    (tmp_path / "airlines" / "_barnabas").mkdir()
    (tmp_path / "airlines" / "_barnabas" / "commit.json").touch()
    assert rows(Copies(tmp_path / "c", settled(read(text).joins)).of(0)) == [AA]
    pq.write_table(AIRLINES, tmp_path / "one.parquet")
    found = settled(read(text.replace('"airlines"', '"one.parquet"')).joins)
    assert rows(Copies(tmp_path / "d", found).of(0)) == [AA, UA]


def test_a_link_that_is_turned_is_another_table(read, tmp_path):
    """Also where sizes and times of the files are the same."""
    text = FILE.replace('kind = "delta"\non', 'kind = "parquet"\non')
    for name, table in (("one", AIRLINES.slice(0, 1)), ("two", AIRLINES.slice(0, 1))):
        (tmp_path / name).mkdir()
        named = table.set_column(1, "name", pa.array([name]))
        pq.write_table(named, tmp_path / name / "0.parquet")
        os.utime(tmp_path / name / "0.parquet", ns=(0, 0))
    (tmp_path / "airlines").symlink_to("one")
    copies = Copies(tmp_path / "c", settled(read(text).joins))
    assert rows(copies.of(0)) == [{**AA, "name": "one"}]
    (tmp_path / "airlines").unlink()
    (tmp_path / "airlines").symlink_to("two")
    assert rows(copies.of(1)) == [{**AA, "name": "two"}]


def test_a_long_key_and_a_name_that_is_no_text_are_one_short_line(read, tmp_path):
    text = FILE.replace('kind = "delta"\non', 'kind = "parquet"\non')
    at = tmp_path / "airlines"
    at.mkdir()
    pq.write_table(pa.table({"carrier": ["x" * 100_000] * 2}), at / "a.parquet")
    with pytest.raises(PipelineError, match="has 2 rows with carrier = 'xxx") as caught:
        Copies(tmp_path / "c", settled(read(text).joins)).of(0)
    assert len(str(caught.value)) < 1000
    Path(os.fsdecode(os.fsencode(at) + b"/\xff.parquet")).touch()
    with pytest.raises(PipelineError, match=r"join\[0\]: .*airlines: "):
        settled(read(text).joins)


def test_values_are_what_spark_reads(read, tmp_path):
    """Nanoseconds become microseconds, categories texts, and other zones UTC."""
    text = FILE.replace('kind = "delta"\non', 'kind = "parquet"\non')
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    pq.write_table(pa.table({
        "carrier": pa.array(["AA"]).dictionary_encode(),
        "ns": pa.array([1], pa.timestamp("ns")),
        "zone": pa.array([at], pa.timestamp("ms", "Europe/Berlin")),
        "sum": pa.array([Decimal("1.50")], pa.decimal128(38, 2)),
        "tags": pa.array([["a"]], pa.large_list(pa.large_string())),
    }), tmp_path / "airlines")  # fmt: skip
    (found,) = settled(read(text).joins)
    assert found.types.simpleString() == (
        "struct<carrier:string,ns:timestamp_ntz,zone:timestamp,sum:decimal(38,2),tags:array<string>>"
    )
    (row,) = rows(Copies(tmp_path / "c", [found]).of(0))
    assert row == {
        "carrier": "AA",
        "ns": dt.datetime(1970, 1, 1),  # noqa: DTZ001 - a time without a zone
        "zone": at,
        "sum": Decimal("1.50"),
        "tags": ["a"],
    }


def test_a_delta_table_made_anew_in_its_place_is_another_one(read, tmp_path):
    """One that was kept open said that no version had come."""
    write_deltalake(tmp_path / "airlines", AIRLINES)
    write_deltalake(tmp_path / "airlines", AIRLINES.slice(0, 1), mode="overwrite")
    copies = Copies(tmp_path / "c", settled(read().joins))
    assert rows(copies.of(0)) == [AA]
    shutil.rmtree(tmp_path / "airlines")
    write_deltalake(tmp_path / "airlines", AIRLINES.slice(1, 1))
    assert DeltaTable(tmp_path / "airlines").version() == 0
    assert rows(copies.of(1)) == [UA]


def test_a_log_that_is_damaged_is_said(read, tmp_path):
    write_deltalake(tmp_path / "airlines", AIRLINES)
    (log,) = (tmp_path / "airlines" / "_delta_log").glob("*.json")
    log.write_text("{")
    with pytest.raises(PipelineError, match=r"join\[0\]: .*airlines: ") as caught:
        settled(read().joins)
    assert not isinstance(caught.value, TableAwayError)
    pq.write_table(AIRLINES, tmp_path / "one.parquet")
    (tmp_path / "one.parquet").write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match=r"one\.parquet: "):
        settled(read(FILE.replace('"airlines"\nkind = "delta"', '"one.parquet"\nkind = "parquet"')).joins)

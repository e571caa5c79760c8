"""What Delta's log says of a file: the same as delta-rs writes, and never a bound that hides a row."""

import datetime as dt
import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.spark.pipeline.tables.delta import DeltaFolder
from barnabas.spark.pipeline.tables.stats import statistics

NOON = dt.datetime(2013, 1, 1, 12, 0, 0, 123_456, dt.UTC)
SPARK = {
    pa.int32(): "integer", pa.int64(): "long", pa.float64(): "double", pa.string(): "string",
    pa.date32(): "date",
    pa.bool_(): "boolean", pa.timestamp("us", "UTC"): "timestamp", pa.decimal128(38, 2): "decimal(38,2)",
    pa.binary(): "binary",
}  # fmt: skip


def written(folder, *tables):
    """A Delta table with one file for each Arrow table, as the pipeline's sink appends them."""
    fields = [
        {"name": field.name, "type": SPARK[field.type], "nullable": True, "metadata": {}}
        for field in tables[0].schema
    ]

    def write(staging):
        staging.mkdir()
        for number, rows in enumerate(tables):
            pq.write_table(rows, staging / f"{number}.parquet", row_group_size=2)
        return [f"{number}.parquet" for number in range(len(tables))]

    with DeltaFolder(folder) as table:
        table.append("query", 0, {"type": "struct", "fields": fields}, [], write)
    return DeltaTable(str(folder))


def of(**columns):
    """The statistics of a file with these columns, of several row groups."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, row_group_size=2)
    return json.loads(statistics(pq.read_metadata(pa.BufferReader(sink.getvalue()))), parse_float=Decimal)


def test_they_are_those_of_delta_rs(tmp_path):
    rows = pa.table({
        "i": pa.array([2, 1, None], pa.int32()), "b": [True, False, None], "x": [1.5, -2.0, None],
        "s": ["b", "ü", None], "bin": [b"a", b"z", None], "d": [NOON.date(), dt.date(1969, 1, 1), None],
        "dec": pa.array([Decimal("3.14"), Decimal(-5), None], pa.decimal128(10, 2)), "l": [[1], [None], None],
        "m": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "st": [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": None}, None],
        "none": pa.array([None] * 3, pa.int32()),
    })  # fmt: skip
    write_deltalake(tmp_path / "t", rows)
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    (theirs,) = [json.loads(line)["add"]["stats"] for line in log.read_text().splitlines() if '"add"' in line]

    ours = statistics(pq.read_metadata(next((tmp_path / "t").glob("*.parquet"))))
    assert json.loads(ours) == json.loads(theirs)


def test_bounds_are_of_all_row_groups_and_nulls_are_counted():
    found = of(n=[5, None, 9, 1, None], s=["b", "a", None, None, "c"])

    assert found == {
        "numRecords": 5,
        "minValues": {"n": 1, "s": "a"},
        "maxValues": {"n": 9, "s": "c"},
        "nullCount": {"n": 2, "s": 2},
    }


def test_times_are_exact():
    found = of(
        at=pa.array([NOON], pa.timestamp("us", "UTC")),
        local=pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")),
        early=pa.array([dt.datetime(7, 1, 2, tzinfo=dt.UTC).replace(tzinfo=None)], pa.timestamp("us")),
    )

    assert found["maxValues"] == {
        "at": "2013-01-01T12:00:00.123456Z", "local": "2013-01-01T12:00:00.123456",
        "early": "0007-01-02T00:00:00.000000",
    }  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, math.inf, 0.0]),
        pa.array([2**62] * 3, pa.timestamp("us")),
        pa.array([b"\xff", b"a", b"b"], pa.binary()).view(pa.string()),
    ],
)
def test_a_file_with_a_value_that_has_no_bound_has_none_at_all(values):
    """Of one column alone it would be taken for a column without values, and the file be skipped."""
    assert of(n=[1, 2, 3], odd=values) == {"numRecords": 3}


def test_decimals_have_all_their_digits():
    many = Decimal("12345678901234567890.12")
    found = of(many=pa.array([many, Decimal("-0.01")], pa.decimal128(38, 2)))

    assert (found["minValues"], found["maxValues"]) == ({"many": Decimal("-0.01")}, {"many": many})


def test_long_texts_are_cut_to_bounds():
    low, high = "a" * 31 + "ü" + "b", "z" * 40
    found = of(s=[low, high, None])

    assert found["minValues"]["s"] == "a" * 31 + "ü" <= low
    assert found["maxValues"]["s"] == "z" * 32 + "\U0010ffff" > high


def test_a_name_with_a_dot_is_no_struct_and_columns_are_counted():
    columns = {f"a.{number}": [number] for number in range(40)}
    assert of(**columns)["maxValues"] == {f"a.{number}": number for number in range(32)}
    assert "z" in of(s=[{"a": 1, "b": 2}] * 2, z=[1, 2])["maxValues"]


VALUES = {
    "n": st.integers(-5, 5),
    "x": st.sampled_from([-1.5, -0.0, 0.0, 2.0, math.inf, -math.inf]),
    "s": st.sampled_from(
        [
            "",
            "a",
            "a" * 32,
            "a" * 33,
            "a" * 32 + "\U0010ffff",
            "a" * 32 + "\U0010ffffz",
            "\uffff",
            "\U0001f600",
            "b",
        ]
    ),
    "d": st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 2)),
    "at": st.integers(0, 3).map(lambda us: NOON.replace(microsecond=us)),
    "dec": st.sampled_from([Decimal("0.10"), Decimal(-7), Decimal("12345678901234567890.12")]),
    "bin": st.sampled_from([b"", b"a"]),
}
TYPES = {
    "n": pa.int32(),
    "x": pa.float64(),
    "s": pa.string(),
    "d": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "dec": pa.decimal128(38, 2),
    "bin": pa.binary(),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    min_size=1,
    max_size=4,
)
SCHEMA = pa.schema(TYPES)


@settings(max_examples=40, deadline=None)
@given(files=st.lists(ROWS, min_size=1, max_size=3), data=st.data())
def test_readers_that_skip_files_miss_no_row(tmp_path_factory, files, data):
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in files]
    table = written(tmp_path_factory.mktemp("delta") / "t", *tables)
    everything = pa.concat_tables(tables)
    for name, values in VALUES.items():
        value = pa.scalar(data.draw(values), TYPES[name])
        for rule in (
            pc.field(name) == value,
            pc.field(name) < value,
            pc.field(name) >= value,
            pc.field(name).is_null(),
        ):
            found = table.to_pyarrow_dataset().to_table(filter=rule)
            assert found.num_rows == everything.filter(rule).num_rows, (name, value, str(rule))


def test_files_without_a_value_are_skipped(tmp_path):
    tables = [pa.table({"n": pa.array([low, low + 9], pa.int32())}) for low in (0, 10, 20)]
    table = written(tmp_path / "t", *tables)

    fragments = list(table.to_pyarrow_dataset().get_fragments(filter=pc.field("n") == 15))
    assert [fragment.path.rpartition("/")[2] for fragment in fragments] == ["1.parquet"]
    actions = pa.table(table.get_add_actions(flatten=True)).to_pydict()
    assert (sorted(actions["min.n"]), sorted(actions["null_count.n"])) == ([0, 10, 20], [0, 0, 0])


@pytest.mark.parametrize("name", ["at", "dec", "s", "d", "x"])
def test_other_readers_take_each_kind_of_bound(tmp_path, name):
    value = {"at": NOON, "dec": Decimal("3.14"), "s": "ü", "d": NOON.date(), "x": 0.5}[name]
    table = written(tmp_path / "t", pa.table({name: pa.array([value], TYPES[name])}))

    actions = pa.table(table.get_add_actions(flatten=True)).to_pydict()
    assert actions[f"min.{name}"] == actions[f"max.{name}"] == [value]


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("long", True),
        ("decimal(10,2)", True),
        ("interval day", False),
        ({"type": "array", "elementType": "decimal(5,0)", "containsNull": True}, True),
        ({"type": "array", "elementType": "void", "containsNull": True}, False),
    ],
)
def test_a_table_takes_the_types_that_its_format_has_wherever_they_stand(tmp_path, kind, taken):
    field = {"name": "x", "type": kind, "nullable": True, "metadata": {}}
    assert DeltaFolder(tmp_path).takes(field) is taken

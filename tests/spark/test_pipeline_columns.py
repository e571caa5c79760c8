"""How the columns of a table and those of a query fit:
what is added, what is cast, what becomes wider, what is refused.
"""

import pytest
from pyspark.sql.types import StructField, StructType

from barnabas.spark import ddl
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables.delta import DeltaFolder
from barnabas.spark.pipeline.tables.evolution import Growth, merged
from barnabas.spark.pipeline.tables.iceberg import IcebergFolder
from barnabas.spark.pipeline.tables.parquet import ParquetFolder

PLAIN, DELTA = Growth(), Growth(fields_in_structs=True)
ICEBERG = Growth(fields_in_structs=True, fields_in_maps=True, wider_types=True)


def types(table, rows, growth=PLAIN, fixed=()):
    """The columns that a table has when it takes these rows."""
    known = ddl.columns(table) if table else None
    return (
        merged(known, ddl.columns(rows), growth, fixed)
        .simpleString()
        .removeprefix("struct<")
        .removesuffix(">")
    )


def test_each_kind_of_table_grows_as_it_can():
    assert (ParquetFolder.growth, DeltaFolder.growth, IcebergFolder.growth) == (PLAIN, DELTA, ICEBERG)


WIDTHS = [
    ("tinyint", "smallint"),
    ("smallint", "int"),
    ("int", "bigint"),
    ("tinyint", "bigint"),
    ("float", "double"),
    ("decimal(5,2)", "decimal(9,2)"),
]


@pytest.mark.parametrize(("narrow", "wide"), [*WIDTHS, ("decimal(5,2)", "decimal(9,4)")])
@pytest.mark.parametrize("place", ["a {}", "a struct<b:{}>", "a array<{}>", "a map<string,struct<b:{}>>"])
def test_narrower_rows_are_the_tables_type_in_every_table(narrow, wide, place):
    table = place.format(wide)
    assert types(table, place.format(narrow)) == table.replace("a ", "a:", 1)


@pytest.mark.parametrize(("narrow", "wide"), WIDTHS)
@pytest.mark.parametrize("place", ["a {}", "a struct<b:{}>", "a array<{}>", "a map<string,struct<b:{}>>"])
def test_wider_rows_widen_iceberg_and_nothing_else(narrow, wide, place):
    table, rows = place.format(narrow), place.format(wide)
    assert types(table, rows, ICEBERG) == rows.replace("a ", "a:", 1)
    for growth, fixed in ((PLAIN, ()), (DELTA, ()), (ICEBERG, ("a",))):
        with pytest.raises(PipelineError, match=r"column a.* is .* now and .* in the table: CAST it"):
            types(table, rows, growth, fixed)


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("decimal(9,2)", "decimal(9,4)"), ("decimal(5,2)", "decimal(9,4)"), ("decimal(9,4)", "decimal(9,2)"),
        ("int", "double"), ("bigint", "float"), ("float", "int"), ("decimal(9,0)", "int"),
        ("int", "decimal(9,0)"), ("string", "binary"), ("date", "timestamp"), ("int", "string"),
        ("struct<a:int>", "int"), ("array<int>", "map<int,int>"), ("map<int,string>", "map<bigint,string>"),
    ],
)  # fmt: skip
def test_all_else_is_refused(table, rows):
    with pytest.raises(PipelineError, match="column a is"):
        types(f"a {table}", f"a {rows}", ICEBERG)


@pytest.mark.parametrize("place", ["a {}", "a array<{}>", "a map<string,{}>", "a struct<in:{}>"])
def test_structs_get_new_fields_behind_the_old_ones_where_the_table_has_that(place):
    table, rows = place.format("struct<b:int>"), place.format("struct<c:string,b:int>")
    grown = place.format("struct<b:int,c:string>").replace("a ", "a:", 1)
    for growth, takes in ((ICEBERG, True), (DELTA, "map" not in place), (PLAIN, False)):
        if takes:
            assert types(table, rows, growth) == grown
            continue
        with pytest.raises(
            PipelineError, match=r"column a(\.in)?\.c is not in the table, whose structs get no new"
        ):
            types(table, rows, growth)
    # Rows that lack a field that the table has are taken by every table.
    assert types(rows, table) == rows.replace("a ", "a:", 1)


def test_names_that_differ_by_their_case_are_refused_at_every_depth():
    with pytest.raises(PipelineError, match="column A is a in the table: only upper and lower case differ"):
        types("a int", "A int", ICEBERG)
    with pytest.raises(
        PipelineError, match=r"column a\.B is a\.b in the table: only upper and lower case differ"
    ):
        types("a struct<b:int>", "a struct<B:int>", ICEBERG)


def test_everything_may_be_null_and_metadata_stays():
    rows = StructType([
        StructField("a", ddl.whole_type("struct<b:array<map<string,int>>>"), False, {"note": "x"}),
        StructField("k", ddl.whole_type("int"), False),
    ])  # fmt: skip
    found = merged(None, rows)
    assert [field.nullable for field in found.fields] == [True, True]
    assert found["a"].metadata == {"note": "x"}
    assert '"nullable":false' not in found.json()
    assert "false" not in merged(found, rows).json().lower()

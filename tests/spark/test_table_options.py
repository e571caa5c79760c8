"""Options of tables in Spark's catalog, as the source sees them: without Spark."""

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from barnabas.spark.groups.source import LagSource, OffsetsSource
from barnabas.spark.logs.source import LogSource
from barnabas.spark.source import TopicSource

MADE = {"provider": "barnabas", "owner": "me"}
BROKER = {"kafka.bootstrap.servers": "h:1"}


def made(source, **options):
    """The columns that Spark keeps of a table, through its JSON as the catalog has them."""
    given = {**options, **{f"option.{name}": value for name, value in options.items()}}
    return StructType.fromJson(source({**MADE, **given}).schema().jsonValue())


def asked(source, columns, **statement):
    """The options that a statement on the table has."""
    found = source(CaseInsensitiveDict(statement))  # as PySpark makes it
    found.take_options(columns)
    return dict(found.options)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        (TopicSource, {**BROKER, "subscribe": "t", "includeheaders": "true"}),
        (LogSource, {"path": "/logs", "view": "segments"}),
        (OffsetsSource, BROKER),
        (LagSource, {"path": "/logs"}),
    ],
)
def test_what_a_table_was_made_with_comes_back_with_its_columns(source, options):
    columns = made(source, **options)

    assert asked(source, columns) == options
    assert columns.simpleString() == source(options).schema().simpleString()
    assert [field.metadata for field in source(options).schema().fields] == [{}] * len(columns.fields)
    assert [bool(field.metadata) for field in columns.fields] == [True] + [False] * (len(columns.fields) - 1)


def test_options_of_the_statement_win_in_any_case():
    columns = made(TopicSource, **BROKER, subscribe="t", startingoffsets="earliest")

    assert asked(TopicSource, columns, startingOffsets="latest") == {
        **BROKER, "subscribe": "t", "startingoffsets": "latest",
    }  # fmt: skip


def test_a_location_is_the_path_and_a_column_keeps_what_it_is_made_of():
    columns = StructType.fromJson(
        LogSource({**MADE, "path": "file:/a b", "location": "file:/a b"}).schema().jsonValue()
    )

    assert asked(LogSource, columns) == {"path": "/a b"}
    assert asked(TopicSource, StructType().add("value", "binary"), **BROKER) == BROKER

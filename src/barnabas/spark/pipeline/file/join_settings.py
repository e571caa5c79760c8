"""The sections ``[[join]]`` of a pipeline's file: tables whose columns are looked up for each record.

`joined_tables` has what a join does.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import types as spark

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.section import Section
from barnabas.spark.pipeline.file.sink_settings import catalog_table, local_path, require_readable
from barnabas.spark.pipeline.tables.places import is_address
from barnabas.spark.pipeline.tables.rewriting import Changes

JOINS_MAX: Final = 20
KINDS: Final = ("delta", "iceberg", "parquet")
_NAME: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
_VIEW: Final = frozenset(
    {"key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestamptype", "op"}
)
"""Columns of the view ``source``, in small letters."""


@dataclass(frozen=True, slots=True)
class Join:
    """One table, and which of its rows is a record's."""

    number: int
    """Its place in the file, from 0: people are told it, and the copies of a batch are in that order."""
    table: str
    """A folder or file of this machine, whole, or an address in an object store; of Iceberg the name in the
    catalog.
    """
    kind: str
    on: Mapping[str, str]
    """Columns of the table, each with the expression over the view ``source`` that it must be equal to."""
    columns: tuple[str, ...]
    """Those that records get; empty for all."""
    name: str
    """Of the struct that has them in the view."""
    how: str = "left"
    many: bool = False
    """Whether a record has a row for each match; else the table must not have two rows of one key."""
    catalog: Mapping[str, str] = field(default_factory=dict)
    """Of Iceberg: PyIceberg's properties, and the catalog's own `name`."""
    types: spark.StructType | None = None
    """The columns of the table that are used, with their types; None until the table was looked at."""

    @property
    def key(self) -> str:
        """How the file names it."""
        return f"join[{self.number}]"

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the struct, once the table was looked at."""
        assert self.types is not None
        return self.columns or tuple(self.types.names)


def joins_of(sections: Sequence[Section], folder: Path, changes: Changes | None) -> tuple[Join, ...]:
    """What ``[[join]]`` says, of a sink that changes its rows so. Raises PipelineError."""
    found: list[Join] = []
    for number, section in enumerate(sections):
        one = _join(section, number, folder)
        if one.name.lower() in _VIEW | {other.name.lower() for other in found}:
            raise section.wrong(
                "as", f"is {one.name!r}, which the view source has already: give another name"
            )
        if changes is not None and one.how == "inner":
            raise section.wrong(
                "how",
                'must be "left" with sink.mode: a delete may have nothing to join by, and would be lost',
            )
        if changes is not None and one.many:
            raise section.wrong(
                "many", "has no use with sink.mode: which of the rows is the newest is not known"
            )
        found.append(one)
    return tuple(found)


def _join(section: Section, number: int, folder: Path) -> Join:
    kind = section.choice("kind", KINDS)
    if kind == "iceberg":
        table, catalog = catalog_table(section, folder)
    else:
        table, catalog = _place(section, folder, kind), {}
    columns = section.texts("columns")
    if len(set(columns)) < len(columns):
        raise section.wrong("columns", f"names a column twice: {', '.join(columns)}")
    join = Join(
        number,
        table,
        kind,
        _on(section),
        columns,
        _name(section, table.rpartition("." if kind == "iceberg" else "/")[2]),
        section.choice("how", ("left", "inner"), "left"),
        many=section.flag("many"),
        catalog=catalog,
    )
    section.close()
    return join


def _place(section: Section, folder: Path, kind: str) -> str:
    """Where the table's files are."""
    text = section.text("table")
    if "://" in text and not is_address(text):
        raise section.wrong(
            "table", "must be a folder, or an address such as s3://bucket/airlines"
        )  # not shown: it may have a password
    place = text.rstrip("/") if "://" in text else str(local_path(section, "table", folder))
    require_readable(section, "table", place, kind)
    return place


def _on(section: Section) -> dict[str, str]:
    """A list of names is short for columns that `value` has by the same names."""
    if isinstance(section.peek("on"), dict):
        found = section.section("on").settings()
    else:
        names = section.texts("on")
        if len(set(names)) < len(names):
            raise section.wrong("on", f"names a column twice: {', '.join(names)}")
        found = {
            name: "value." + (name if _NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`")
            for name in names
        }
    if not found:
        raise section.missing(
            "on", 'is missing: the columns that tell the row of a record, such as ["carrier"] or '
            '{ code = "value.carrier" }'
        )  # fmt: skip
    for column, expression in found.items():
        if not expression.strip():
            raise section.wrong("on", f"has nothing that {column} is equal to")
    return found


def _name(section: Section, of_table: str) -> str:
    name = section.text("as", of_table.removesuffix(".parquet"))
    if not _NAME.fullmatch(name):
        raise section.wrong(
            "as", f"is {name!r}: it must have letters of ASCII, digits and '_', and begin with a letter"
        )
    return name


_WHOLE: Final = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.DecimalType)
_KEYS: Final = (
    *_WHOLE, spark.StringType, spark.BinaryType, spark.BooleanType, spark.DateType, spark.TimestampType,
    spark.TimestampNTZType,
)  # fmt: skip
"""Types whose values are equal or not: floating numbers are seldom meant to be, and structs are many values.
"""


def require_alike(join: Join, column: str, record: spark.DataType) -> None:
    """Raises PipelineError where a column of the table never equals what the record has, or only by a cast
    that may fail.
    """
    assert join.types is not None
    there, expression = join.types[column].dataType, join.on[column]
    for kind, what in ((there, f"column {column} of {join.table}"), (record, expression)):
        if not isinstance(kind, _KEYS):
            raise PipelineError(f"{join.key}.on: {what} is {kind.simpleString()}, which no rows are found by")
    if not (
        isinstance(there, type(record))
        or isinstance(record, type(there))
        or (isinstance(there, _WHOLE) and isinstance(record, _WHOLE))
    ):
        raise PipelineError(
            f"{join.key}.on: {expression} is {record.simpleString()}, and column {column} of {join.table} is "
            f'{there.simpleString()}: CAST it, as in {{ {column} = "CAST({expression} AS '
            f'{there.simpleString().upper()})" }}'
        )

"""Joins of a pipeline's records with tables, as DataFrames; `joined_tables` has the theory."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from barnabas.spark import ddl
from barnabas.spark.errors import PipelineError, first_line
from barnabas.spark.pipeline.file.format_settings import Format
from barnabas.spark.pipeline.file.join_settings import Join, require_alike
from barnabas.spark.pipeline.file.section import unknown
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.formats import CORRUPT
from barnabas.spark.pipeline.joined.joined_tables import TableAwayError, is_new, settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.([A-Za-z_]\w*|`[^`]+`))*", re.ASCII)
"""An expression that is a column or a field alone."""
_GENERATE: Final = re.compile(r"^[\s:+~-]*Generate\b", re.MULTILINE)
"""How Spark's plan names what makes several rows of one."""
_PATTERN: Final = re.compile(r"[\\*?\[\]{}]")
_LEFT, _RIGHT = "_join_record_{}", "_join_table_{}"


def check(pipeline: Pipeline, *, waits: bool = True) -> None:
    """Raises PipelineError for a join that cannot be, as far as that is known without Spark: its columns and
    their types. A table that is away says nothing, unless it never was there and nobody `waits` for it.
    """
    known = _view(pipeline)
    for join in pipeline.joins:
        try:
            (found,) = settled([join])
        except TableAwayError as away:
            if not waits and is_new(away, join, pipeline.checkpoint):
                raise PipelineError(away.reason) from None
            known[join.name.lower()] = None
            continue
        assert found.types is not None
        for column, expression in found.on.items():
            kind = _type_of(expression, known, found)
            if kind is not None:
                require_alike(found, column, kind)
        known[join.name.lower()] = spark.StructType([found.types[name] for name in found.fields])


def with_types(pipeline: Pipeline) -> Pipeline:
    """The pipeline with the columns that its joined tables have now. Raises as `settled` does."""
    return replace(pipeline, joins=settled(pipeline.joins)) if pipeline.joins else pipeline


def joined(frame: "DataFrame", pipeline: Pipeline, copies: Sequence[Path] = ()) -> "DataFrame":
    """The frame with a struct of each table's columns. Without `copies` the tables are empty, which is
    enough to know the columns. Raises PipelineError that names the join at fault.
    """
    for join in pipeline.joins:
        assert join.types is not None
        try:
            if copies:
                # Spark takes some signs of a path for those of a pattern.
                path = _PATTERN.sub(r"\\\g<0>", str(copies[join.number]))
                table = frame.sparkSession.read.schema(join.types).parquet(f"file://{path}")
            else:
                table = frame.sparkSession.createDataFrame([], join.types)
            # Spark broadcasts small tables by itself. To a topic all must be, as another join would bring the
            # records of a key out of their order.
            frame = _with(frame, join, table, broadcast=pipeline.sink.kind == "topic")
        except PySparkException as error:
            raise PipelineError(f"{join.key}: {first_line(error)}") from error
    return frame


def _with(frame: "DataFrame", join: Join, table: "DataFrame", *, broadcast: bool) -> "DataFrame":
    from pyspark.sql import functions as sql

    lefts = [_LEFT.format(number) for number in range(len(join.on))]
    rights = [_RIGHT.format(number) for number in range(len(join.on))]
    try:
        keys = [sql.expr(text).alias(name) for text, name in zip(join.on.values(), lefts, strict=True)]
        found = frame.select("*", *keys)
    except PySparkException as error:
        raise PipelineError(f"{join.key}.on: {first_line(error)}") from error
    if _multiplies(found) and not _multiplies(frame):
        raise PipelineError(f"{join.key}.on has a function that makes several rows of one, such as explode")
    for column, name in zip(join.on, lefts, strict=True):
        require_alike(join, column, found.schema[name].dataType)
    struct = sql.struct(*(sql.col(_quoted(name)) for name in join.fields)).alias(join.name)
    ours = [sql.col(_quoted(name)).alias(right) for name, right in zip(join.on, rights, strict=True)]
    table = table.select(*ours, struct)
    same = reduce(and_, (sql.col(one) == sql.col(other) for one, other in zip(lefts, rights, strict=True)))
    return found.join(sql.broadcast(table) if broadcast else table, same, join.how).drop(*lefts, *rights)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _multiplies(frame: "DataFrame") -> bool:
    plan = frame._jdf.queryExecution().analyzed().toString()  # noqa: SLF001
    return _GENERATE.search(plan) is not None


def _type_of(expression: str, known: "dict[str, spark.DataType | None]", join: Join) -> spark.DataType | None:
    """The type of a column or field of the view ``source``, None where only Spark knows it.
    Raises PipelineError for one that there is not.
    """
    if not _PATH.fullmatch(expression.strip()):
        return None
    names = [name.strip("`") for name in re.findall(r"`[^`]+`|\w+", expression)]
    there: dict[str, spark.DataType | None] = known
    path, kind = "the view source", None
    for name in names:
        if name.lower() not in there:
            raise PipelineError(f"{join.key}.on: {name} of {path} {unknown(name, list(there))}")
        kind, path = there[name.lower()], name
        if kind is None:
            return None
        if name != names[-1] and not isinstance(kind, spark.StructType):
            raise PipelineError(
                f"{join.key}.on is {expression}, and {name} is {kind.simpleString()}: it has no fields"
            )
        there = {one.name.lower(): one.dataType for one in kind} if isinstance(kind, spark.StructType) else {}
    return kind


def _view(pipeline: Pipeline) -> "dict[str, spark.DataType | None]":
    """The columns of the view ``source``, in small letters, with their types where the file says them."""
    form, by_topic = pipeline.format, pipeline.format.by_topic
    known: dict[str, spark.DataType | None] = {
        "key": None if by_topic else _struct(form.key) if form.key is not None else spark.BinaryType(),
        "value": None if by_topic else _struct(form) if form.kind != "binary" else spark.BinaryType(),
        "topic": spark.StringType(),
        "partition": spark.IntegerType(),
        "offset": spark.LongType(),
        "timestamp": spark.TimestampType(),
        "timestamptype": spark.IntegerType(),
    }
    if pipeline.source_options.include_headers:
        known["headers"] = None
    if by_topic or form.envelope is not None:
        known["op"] = None
    return known


def _struct(form: Format) -> spark.DataType | None:
    """The struct that values become, None where the file does not say it, or only Spark can read what it
    says.
    """
    if form.decoder is not None:
        return None if form.envelope is not None or form.keep_malformed else form.decoder.type
    if form.latest is not None:
        return None
    try:
        found = ddl.columns(form.schema)
    except ddl.DdlError:  # the type of a whole value, or Spark's JSON
        return None
    if form.keep_malformed:
        found = spark.StructType([*found.fields, spark.StructField(CORRUPT, spark.StringType())])
    return found

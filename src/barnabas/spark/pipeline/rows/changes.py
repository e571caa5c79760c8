"""Rows that change a table: which of a batch's rows of a key is the newest, and which are deletes.

The view ``source`` has one column more then, ``_change``: where the record stood, when it was written and
whether it deletes; of Debezium's envelope also whether it empties the table (``truncated``), and whether it
lacks values that were not sent (``unsent``). A transformation hands it on as it is, and it is not in the
table.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import types as spark

from barnabas.spark.ddl import quoted
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.dead_letters.letters import RECORD
from barnabas.spark.pipeline.rows.debezium import is_unavailable
from barnabas.spark.pipeline.tables.rewriting import FROM, TO, Changes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

    from barnabas.spark.pipeline.rows.tombstones import Place
    from barnabas.spark.pipeline.sinks.staging import Apart

CHANGE: Final = "_change"
GONE: Final = "_barnabas_deleted"
"""The column of folders that keeps the rows of a batch (0), its deletes (1) and `UNSENT` apart until its
commit.
"""
UNSENT: Final = 2
"""Rows with values that were not sent, and that the batch does not have either."""
_TRUNCATES_MAX: Final = 100
_KEYS: Final = (
    spark.BooleanType, spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.DecimalType,
    spark.StringType, spark.BinaryType, spark.DateType, spark.TimestampType, spark.TimestampNTZType,
)  # fmt: skip
"""Types whose values are equal or not; of floating numbers none equals NaN, and structs have no bounds."""
_IN_FOLDERS: Final = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType, spark.StringType,
                      spark.DateType)  # fmt: skip
"""Those of which each value has one name as a folder."""


class Truncate(NamedTuple):
    """A change that empties the table."""

    offset: int
    time: dt.datetime


def with_change(frame: "DataFrame", *more: "Column", deleted: "Column", time: "Column") -> "DataFrame":
    """The frame of the source with what tells its changes apart."""
    from pyspark.sql import functions as sql

    return frame.withColumn(
        CHANGE,
        sql.struct(
            sql.col("topic"), sql.col("partition"), sql.col("offset"),
            time.alias("time"), deleted.alias("deleted"), *more,
        ),
    )  # fmt: skip


def whole_rows(frame: "DataFrame", changes: Changes, joined: Sequence[str] = ()) -> "DataFrame":
    """The fields of the values as columns, for a pipeline without a transformation; the columns of the key
    come from the record's key where the value has no such field. `joined` are structs of joined tables.
    """
    from pyspark.sql import functions as sql

    value, key = frame.schema["value"].dataType, frame.schema["key"].dataType
    if not isinstance(value, spark.StructType):
        raise PipelineError("transform is missing: values are bytes, and the table needs columns")
    more = [
        sql.col(f"key.{quoted(name)}")
        for name in changes.key
        if isinstance(key, spark.StructType) and name in key.names and name not in value.names
    ]
    return frame.select(*more, "value.*", *joined, CHANGE, *([RECORD] if RECORD in frame.columns else ()))


def with_key(frame: "DataFrame") -> "DataFrame":
    """The frame with the fields of the record's key in its value: a tombstone has no others."""
    from pyspark.sql import functions as sql

    value, key = frame.schema["value"].dataType, frame.schema["key"].dataType
    if not isinstance(value, spark.StructType) or not isinstance(key, spark.StructType):
        return frame
    fields = [
        sql.coalesce(
            sql.col(f"value.{quoted(name)}"), *([sql.col(f"key.{quoted(name)}")] if name in key.names else ())
        ).alias(name)
        for name in value.names
    ]
    return frame.withColumn("value", sql.struct(*fields))


def kept(
    rows: spark.StructType, changes: Changes | None, layout: Sequence[str], *, in_files: bool
) -> spark.StructType:
    """The columns of the rows that are the table's. Raises PipelineError where they cannot change one."""
    rows = spark.StructType([field for field in rows.fields if field.name != RECORD])
    for number, name in enumerate(rows.names):
        if name.lower().startswith("_barnabas"):
            raise PipelineError(f"column {name}: names that begin with _barnabas are the pipeline's own")
        if name in rows.names[:number]:
            raise PipelineError(f"the rows have two columns {name}: give one of them another name")
    if changes is None:
        return rows
    if CHANGE not in rows.names:
        raise PipelineError(f"sink.mode: the transformation must hand on the column {CHANGE} as it is")
    gone = {CHANGE, *((changes.deleted_by,) if changes.deleted_by else ())}
    for name in changes.key:
        if name not in rows.names or name in gone:
            others = ", ".join(one for one in rows.names if one not in gone)
            raise PipelineError(f"sink.key: the rows have no column {name}; they have {others}")
        kind = rows[name].dataType
        if not isinstance(kind, _KEYS):
            raise PipelineError(f"sink.key: column {name} is {kind.simpleString()}, which is no key: CAST it")
        if name in layout and not in_files and not isinstance(kind, _IN_FOLDERS):
            raise PipelineError(
                f"sink.key: column {name} is {kind.simpleString()}, and the table is partitioned by it: "
                "CAST it to a whole number, a text or a date"
            )
    if changes.deleted_by is not None and (
        changes.deleted_by not in rows.names
        or not isinstance(rows[changes.deleted_by].dataType, spark.BooleanType)
    ):
        raise PipelineError(f"sink.deletedBy: the rows have no column {changes.deleted_by} of type boolean")
    fields = [field for field in rows.fields if field.name not in gone]
    if not changes.history:
        return spark.StructType(fields)
    taken = {field.name.lower() for field in fields} & {FROM, TO}
    if taken:
        raise PipelineError(
            f"sink.mode: the rows have a column {taken.pop()} already, which the history fills"
        )
    times = [spark.StructField(name, spark.TimestampType()) for name in (FROM, TO)]
    return spark.StructType([*fields, *times])


def ordered(frame: "DataFrame", changes: Changes, truncates: "Sequence[Truncate]" = ()) -> "DataFrame":
    """The rows that a batch leaves of each key, with `GONE`: the newest one by partition and offset,
    or of a history all, each valid until the next one, or the next truncate.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    if has(frame, "truncated"):
        frame = frame.filter(~sql.col(f"{CHANGE}.truncated"))
    if truncates and not changes.history:
        frame = frame.filter(sql.col(f"{CHANGE}.offset") > truncates[-1].offset)
    gone = sql.col(f"{CHANGE}.deleted")
    if changes.deleted_by is not None:
        gone = gone | sql.coalesce(sql.col(quoted(changes.deleted_by)), sql.lit(False))
    frame = frame.withColumn(GONE, gone.cast("int"))
    place = [sql.col(f"{CHANGE}.{name}") for name in ("topic", "partition", "offset")]
    by_key = Window.partitionBy(*(sql.col(quoted(name)) for name in changes.key))
    if has(frame, "unsent"):
        frame = _sent_before(frame, by_key.orderBy(*place), changes)
    if changes.history:
        in_order = by_key.orderBy(*place)
        until = sql.lead(sql.col(f"{CHANGE}.time")).over(in_order)
        for one in reversed(truncates):
            emptied = (sql.col(f"{CHANGE}.offset") < one.offset) & (
                sql.coalesce(sql.lead(sql.col(f"{CHANGE}.offset")).over(in_order), sql.lit(one.offset + 1))
                > one.offset
            )
            until = sql.when(emptied, sql.lit(one.time)).otherwise(until)
        return frame.withColumn(FROM, sql.col(f"{CHANGE}.time")).withColumn(TO, until)
    number = sql.row_number().over(by_key.orderBy(*(each.desc() for each in place)))
    return frame.withColumn("_barnabas_row", number).filter("_barnabas_row = 1").drop("_barnabas_row")


def _sent_before(frame: "DataFrame", in_order: "WindowSpec", changes: Changes) -> "DataFrame":
    """The frame with values that were not sent as earlier rows of the batch have them; `GONE` is `UNSENT` in
    a row for which the table must be asked.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    left = sql.lit(False)
    for field in frame.schema.fields:
        column = sql.col(quoted(field.name))
        marked = is_unavailable(column, field.dataType)
        if marked is None or field.name in changes.key:
            continue
        marked = sql.coalesce(marked, sql.lit(False)) & sql.col(f"{CHANGE}.unsent")
        sent = sql.last(sql.when(~marked, sql.struct(column.alias("sent"))), ignorenulls=True).over(until_now)
        frame = frame.withColumn(
            field.name, sql.when(marked & sent.isNotNull(), sent["sent"]).otherwise(column)
        )
        left = left | sql.coalesce(is_unavailable(column, field.dataType), sql.lit(False))
    left = left & sql.col(f"{CHANGE}.unsent")
    return frame.withColumn(GONE, sql.when(left, sql.lit(UNSENT)).otherwise(sql.col(GONE)))


def has(frame: "DataFrame", name: str) -> bool:
    """Whether `CHANGE` says this of each row; Debezium's envelope says more than a plain topic."""
    kind = frame.schema[CHANGE].dataType
    return isinstance(kind, spark.StructType) and name in kind.names


def without(frame: "DataFrame", places: "Collection[Place]") -> "DataFrame":
    """The rows but those whose records stand in these places."""
    from pyspark.sql import functions as sql

    for topic, partition in {place[:2] for place in places}:
        offsets = [place[2] for place in places if place[:2] == (topic, partition)]
        frame = frame.filter(
            (sql.col(f"{CHANGE}.topic") != topic)
            | (sql.col(f"{CHANGE}.partition") != partition)
            | ~sql.col(f"{CHANGE}.offset").isin(*offsets)
        )
    return frame


def gone_apart() -> "Apart":
    """What keeps the rows that `ordered` leaves in folders by `GONE`."""
    from pyspark.sql import functions as sql

    return spark.StructField(GONE, spark.IntegerType()), sql.col(GONE)


def truncates_of(frame: "DataFrame") -> list[Truncate]:
    """The truncates of a batch, by their offsets. Raises PipelineError for too many."""
    from pyspark.sql import functions as sql

    found = frame.filter(f"{CHANGE}.truncated").select(f"{CHANGE}.offset", f"{CHANGE}.time")
    rows = found.orderBy(sql.col("offset")).limit(_TRUNCATES_MAX + 1).collect()
    if len(rows) > _TRUNCATES_MAX:
        raise PipelineError(
            f"the batch has more than {_TRUNCATES_MAX} truncates: lower source.maxOffsetsPerTrigger"
        )
    return [Truncate(row["offset"], row["time"].astimezone(dt.UTC)) for row in rows]


def lacks_key(rows: "DataFrame", changes: Changes) -> "Column":
    """Whether a row has null in a column of the key; a truncate has none, and needs none."""
    from pyspark.sql import functions as sql

    missing = sql.lit(False)
    for name in changes.key:
        missing = missing | sql.col(quoted(name)).isNull()
    return missing & ~sql.col(f"{CHANGE}.truncated") if has(rows, "truncated") else missing


def without_key(rows: "DataFrame", changes: Changes) -> "list[Column]":
    """Aggregates of the rows whose key is not whole: how many, and one of their places; and how many
    truncates there are.
    """
    from pyspark.sql import functions as sql

    missing = lacks_key(rows, changes)
    truncated = sql.col(f"{CHANGE}.truncated") if has(rows, "truncated") else sql.lit(False)
    place = sql.concat_ws(
        " ", sql.col(f"{CHANGE}.topic"), sql.col(f"{CHANGE}.partition"), sql.col(f"{CHANGE}.offset")
    )
    return [
        sql.count(sql.when(missing, sql.lit(1))).alias("without_key"),
        sql.min(sql.when(missing, place)).alias("where"),
        sql.count(sql.when(truncated, sql.lit(1))).alias("truncates"),
    ]


def require_keys(seen: dict[str, Any], changes: Changes) -> None:
    """Raises PipelineError for a batch in which `without_key` has counted some."""
    if seen["without_key"]:
        topic, partition, offset = seen["where"].split(" ")
        raise PipelineError(
            f"{seen['without_key']:,} records have null in the key ({', '.join(changes.key)}), the first is "
            f"{topic}-{partition} offset {offset}: read the record's key with [format.key], leave them out "
            "by transform.sql, or have them put aside by [deadLetter]"
        )

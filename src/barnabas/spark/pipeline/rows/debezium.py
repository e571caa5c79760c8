"""Debezium's envelope of a change: the row before and after, and the operation.

A value is ``{"before": ..., "after": ..., "op": "u", "source": {"ts_ms": ...}}``, as it stands or below
``payload`` (``schemas.enable``). Behind a delete (``d``) follows a tombstone, and compaction may leave only
that. What JSON has no type for comes as Debezium's converters write it: dates as days, times as numbers,
decimals as the bytes of a whole number.
"""

import base64
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as spark

from barnabas.spark import ddl
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.dead_letters.letters import REASON
from barnabas.spark.pipeline.formats import CORRUPT
from barnabas.spark.pipeline.tables.unsent import UNAVAILABLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETED: Final = "_deleted"
"""A column of `unwrapped`: whether the record deletes its key."""
TIMES: Final = ("micros", "millis", "nanos")
DECIMALS: Final = ("precise", "string", "double")
"""Debezium's ``decimal.handling.mode``."""
TRUNCATED: Final = "_truncated"
"""Another one: whether it empties the table."""
UNSENT: Final = "_unsent"
"""Another one: whether a value stands as `UNAVAILABLE`."""
_NOT_SENT: Final = (
    f"has {UNAVAILABLE}, the mark of a large value that was not changed, which is only filled in where "
    "[transform] is missing and the column is a text or bytes: ALTER TABLE ... REPLICA IDENTITY FULL has "
    "PostgreSQL send it"
)
_DIGITS: Final = Context(prec=38)


@dataclass(frozen=True, slots=True)
class Envelope:
    """How the values of rows are written in JSON."""

    times: str = "micros"
    """The unit of times that come as numbers."""
    decimals: str = "precise"


def parsed(frame: "DataFrame", schema: str, envelope: Envelope, *, letters: bool = False) -> "DataFrame":
    """The frame with its JSON values as envelopes, whose rows have the columns of the schema. With `letters`
    one that is no JSON of this form is in a field `CORRUPT`, and does not end the query.
    """
    from pyspark.sql import functions as sql

    columns = ddl.columns(schema)
    row = spark.StructType(
        [spark.StructField(field.name, _written(field.dataType)) for field in columns.fields]
    )
    fields = [
        spark.StructField("before", row),
        spark.StructField("after", row),
        spark.StructField("op", spark.StringType()),
        spark.StructField("source", spark.StructType([spark.StructField("ts_ms", spark.LongType())])),
    ]
    corrupt = [spark.StructField(CORRUPT, spark.StringType())] if letters else []
    whole = spark.StructType([*fields, spark.StructField("payload", spark.StructType(fields)), *corrupt])
    mode = {"mode": "PERMISSIVE" if letters else "FAILFAST"}
    frame = frame.withColumn("value", sql.from_json(sql.col("value").cast("string"), whole, mode))
    plain = sql.struct(*(sql.col(f"value.{field.name}") for field in fields))
    found = sql.coalesce(sql.col("value.payload"), plain)
    if letters:
        found = found.withField(CORRUPT, sql.col(f"value.{CORRUPT}"))
    frame = frame.withColumn("value", sql.when(sql.col("value").isNotNull(), found))
    for name in ("before", "after"):
        typed = sql.struct(
            *(
                _read(sql.col(f"value.{name}.{ddl.quoted(field.name)}"), field.dataType, envelope).alias(
                    field.name
                )
                for field in columns.fields
            )
        )
        frame = frame.withColumn(
            "value",
            sql.when(
                sql.col("value").isNotNull(),
                sql.col("value").withField(name, sql.when(sql.col(f"value.{name}").isNotNull(), typed)),
            ),
        )
    return frame


def unwrapped(frame: "DataFrame", *, fills: bool, letters: bool = False) -> "DataFrame":
    """The frame with the row as its value, ``op``, the time of the change, `DELETED`, `TRUNCATED` and
    `UNSENT`. What is no change ends the query with its place, or with `letters` is in `REASON`; so does a
    value that was not sent, unless `fills` says that it is looked up in the table.
    """
    from pyspark.sql import functions as sql

    kind = frame.schema["value"].dataType
    if not isinstance(kind, spark.StructType) or not {"before", "after", "op"} <= set(kind.names):
        raise PipelineError(
            "format.envelope: values have no fields before, after and op, as Debezium writes them"
        )
    after, op = kind["after"].dataType, sql.col("value.op")
    unsent = refused = sql.lit(False)
    for field in after.fields if isinstance(after, spark.StructType) else ():
        column = sql.col(f"value.after.{ddl.quoted(field.name)}")
        if (marked := is_unavailable(column, field.dataType)) is not None:
            unsent = unsent | sql.coalesce(marked, sql.lit(False))
        elif isinstance(field.dataType, spark.ArrayType) and isinstance(
            field.dataType.elementType, spark.StringType
        ):
            refused = refused | sql.coalesce(sql.array_contains(column, UNAVAILABLE), sql.lit(False))
    place = sql.concat_ws(" ", sql.concat_ws("-", "topic", "partition"), sql.lit("offset"), "offset")
    gone = sql.col("value").isNull() | (op == "d")
    change = op.isin("c", "u", "r") & sql.col("value.after").isNotNull()
    reason = (
        sql.when(gone, sql.lit(None))
        .when(refused if fills else refused | unsent, sql.lit(_NOT_SENT))
        .when(change | (op == "t"), sql.lit(None))
        .otherwise(sql.lit("is no change as Debezium writes them"))
    )
    deleted = sql.when(gone, sql.lit(True))
    if letters:
        frame = frame.withColumn(REASON, sql.coalesce(REASON, reason))
    else:
        deleted = deleted.when(reason.isNotNull(), _refused(place, reason))
    deleted = deleted.otherwise(sql.lit(False))
    has_time = "source" in kind.names and "ts_ms" in getattr(kind["source"].dataType, "names", ())
    time = (
        sql.timestamp_millis(sql.col("value.source.ts_ms")) if has_time else sql.lit(None).cast("timestamp")
    )
    frame = frame.withColumn(DELETED, deleted).withColumn("source_time", time).withColumn("op", op)
    frame = frame.withColumn(UNSENT, unsent).withColumn(
        TRUNCATED, sql.coalesce(sql.col("op") == "t", sql.lit(False))
    )
    row = sql.when(op == "d", sql.col("value.before")).otherwise(sql.col("value.after"))
    return frame.withColumn("value", row)


def is_unavailable(column: "Column", kind: spark.DataType) -> "Column | None":
    """Whether a column has the mark; None for a type that cannot have it."""
    from pyspark.sql import functions as sql

    if isinstance(kind, spark.StringType):
        return column == UNAVAILABLE
    return column == sql.lit(UNAVAILABLE.encode()) if isinstance(kind, spark.BinaryType) else None


def _refused(place: "Column", words: "Column") -> "Column":
    from pyspark.sql import functions as sql

    return sql.raise_error(sql.concat(place, sql.lit(" "), words)).cast("boolean")


def _written(kind: spark.DataType) -> spark.DataType:
    """What JSON has for a column; times and decimals are read as the texts that stand there."""
    texts = (spark.DateType, spark.TimestampType, spark.TimestampNTZType, spark.DecimalType)
    return spark.StringType() if isinstance(kind, texts) else kind


def _read(column: "Column", kind: spark.DataType, envelope: Envelope) -> "Column":
    from pyspark.sql import functions as sql

    number = column.rlike(r"^-?\d+$")
    if isinstance(kind, spark.DateType):
        days = sql.date_from_unix_date(column.cast("int"))
        return sql.when(number, days).otherwise(column.cast("date"))
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        whole = column.cast("bigint")
        time = {
            "micros": sql.timestamp_micros(whole),
            "millis": sql.timestamp_millis(whole),
            "nanos": sql.timestamp_micros(sql.floor(whole / sql.lit(1000))),
        }[envelope.times]
        return sql.when(number, time.cast(kind)).otherwise(column.cast(kind))
    if isinstance(kind, spark.DecimalType):
        return _unscaled(column, kind) if envelope.decimals == "precise" else column.cast(kind)
    return column


def _unscaled(column: "Column", kind: spark.DecimalType) -> "Column":
    """Connect's Decimal: the base64 of a whole number's bytes; the point is the schema's."""
    from pyspark.sql import functions as sql

    precision, scale = kind.precision, kind.scale

    # The annotations are how Spark knows that the function takes and gives Arrow's arrays.
    def unscaled(texts: pa.Array) -> pa.Array:
        return pa.array(
            [None if text is None else decimal_of(text, scale) for text in texts.to_pylist()],
            pa.decimal128(precision, scale),
        )

    return sql.arrow_udf(unscaled, kind)(column)


def decimal_of(text: str, scale: int) -> Decimal:
    """The number. Raises ValueError for a text that is no base64."""
    whole = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    return Decimal(whole).scaleb(-scale, _DIGITS)

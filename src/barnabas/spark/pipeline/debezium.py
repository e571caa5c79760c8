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
from barnabas.spark.pipeline.formats import CORRUPT
from barnabas.spark.pipeline.letters import REASON

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DELETED: Final = "_deleted"
"""A column of `unwrapped`: whether the record deletes its key."""
TIMES: Final = ("micros", "millis", "nanos")
DECIMALS: Final = ("precise", "string", "double")
"""Debezium's ``decimal.handling.mode``."""
UNAVAILABLE: Final = "__debezium_unavailable_value"
"""What stands for a large value of PostgreSQL that an update has not changed."""
_NOT_SENT: Final = (
    f"has {UNAVAILABLE}, the mark of a large value that was not changed: ALTER TABLE ... REPLICA IDENTITY "
    "FULL has PostgreSQL send it"
)
_TRUNCATED: Final = (
    "is a TRUNCATE, which is not applied: skipped.operations = t of the connector leaves it out"
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
                _read(sql.col(f"value.{name}.`{field.name}`"), field.dataType, envelope).alias(field.name)
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


def unwrapped(frame: "DataFrame", *, letters: bool = False) -> "DataFrame":
    """The frame with the row as its value, ``op``, the time of the change and `DELETED`. What is no change
    ends the query with its place, or with `letters` is in `REASON`; a TRUNCATE ends it in any case.
    """
    from pyspark.sql import functions as sql

    kind = frame.schema["value"].dataType
    if not isinstance(kind, spark.StructType) or not {"before", "after", "op"} <= set(kind.names):
        raise PipelineError(
            "format.envelope: values have no fields before, after and op, as Debezium writes them"
        )
    after, op = kind["after"].dataType, sql.col("value.op")
    texts = (
        [field.name for field in after.fields if isinstance(field.dataType, spark.StringType)]
        if isinstance(after, spark.StructType)
        else []
    )
    unavailable = sql.lit(False)
    for name in texts:
        unavailable = unavailable | (sql.col(f"value.after.`{name}`") == UNAVAILABLE)
    place = sql.concat_ws(" ", sql.concat_ws("-", "topic", "partition"), sql.lit("offset"), "offset")
    gone = sql.col("value").isNull() | (op == "d")
    change = op.isin("c", "u", "r") & sql.col("value.after").isNotNull()
    reason = (
        sql.when(gone, sql.lit(None))
        .when(sql.coalesce(unavailable, sql.lit(False)), sql.lit(_NOT_SENT))
        .when(change | (op == "t"), sql.lit(None))
        .otherwise(sql.lit("is no change as Debezium writes them"))
    )
    deleted = sql.when(gone, sql.lit(True)).when(op == "t", _refused(place, sql.lit(_TRUNCATED)))
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
    row = sql.when(op == "d", sql.col("value.before")).otherwise(sql.col("value.after"))
    return frame.withColumn("value", row)


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

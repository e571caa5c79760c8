"""Rows as the records of a topic (``[sink] kind = "topic"``)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark

from barnabas.spark.ddl import quoted
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.dead_letters.letters import RECORD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS: Final = ("key", "value", "headers", "partition", "topic")
"""What rows have that are records already."""
_CLIENT: Final = ("kafka.bootstrap.servers", "kafka.security.", "kafka.sasl.", "kafka.ssl.")
"""Of the source's options those that hold for a producer too."""
_RECORD_BYTES_MAX: Final = 32 << 20
"""What a producer has memory for. How large a record may be is the topic's to say (``max.message.bytes``): a
letter is as large as the record was that brokers have taken.
"""
_BYTES: Final = (spark.StringType, spark.BinaryType)


def check(rows: spark.StructType, key: Sequence[str]) -> None:
    """Raises PipelineError for rows that no records can be made of."""
    names = [name for name in rows.names if name != RECORD]
    for name in key:
        if name not in names:
            raise PipelineError(f"sink.key: the rows have no column {name}; they have {', '.join(names)}")
    if _are_records(rows):
        if key:
            raise PipelineError(
                "sink.key has no use where the rows have a column value: give them a column key"
            )
        for name in ("key", "value"):
            if name in names and not isinstance(rows[name].dataType, _BYTES):
                kind = rows[name].dataType.simpleString()
                raise PipelineError(
                    f"column {name} is {kind}: a record's is bytes or a text, such as to_json makes"
                )


def records(rows: "DataFrame", key: Sequence[str]) -> "DataFrame":
    """Rows that have a column ``value`` as they are. Of others the value is an object of JSON with all
    columns; the key is the text of one column, or an object of several.
    """
    from pyspark.sql import functions as sql

    names = [name for name in rows.columns if name != RECORD]
    if _are_records(rows.schema):
        return rows.select(*map(quoted, names))

    def objects(columns: Sequence[str]) -> "Column":
        return sql.to_json(sql.struct(*(sql.col(quoted(name)) for name in columns)))

    value = objects(names).alias("value")
    if not key:
        return rows.select(value)
    text = sql.col(quoted(key[0])).cast("string") if len(key) == 1 else objects(key)
    return rows.select(text.alias("key"), value)


def _are_records(rows: spark.StructType) -> bool:
    names = {name for name in rows.names if name != RECORD}
    return "value" in names and names <= set(COLUMNS)


def send(records: "DataFrame", source: Mapping[str, str], topic: str) -> None:
    """Sends them to the brokers that the pipeline reads from, and waits until they are stored."""
    options = {name: value for name, value in source.items() if name.lower().startswith(_CLIENT)}
    options["kafka.max.request.size"] = str(_RECORD_BYTES_MAX)
    target = {} if "topic" in records.columns else {"topic": topic}
    records.write.format("barnabas").options(**options, **target).mode("append").save()

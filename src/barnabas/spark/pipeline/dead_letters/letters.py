"""Records that do not fit (``[deadLetter]``): they go to a topic or a table, as they came, with the reason.

Letters are written before the batch is committed, so none is lost. A table takes those of a batch once; a
topic at least once, as a batch that is done again sends them again. On a topic they have the headers of Kafka
Connect's dead letters (KIP-298, ``DeadLetterQueueReporter``); its ``exception.stacktrace`` is left out.
"""

from typing import TYPE_CHECKING, Any, Final

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.sink_settings import DeadLetters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD: Final = "_record"
"""The column of the view ``source`` that has the record as it came."""
REASON: Final = "_barnabas_reason"
STAGES: Final = ("VALUE_CONVERTER", "TRANSFORMATION")
"""Of Connect's ``Stage``: a value that cannot be read, and a row that violates a rule."""
PREFIX: Final = "__connect.errors."
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def with_record(frame: "DataFrame") -> "DataFrame":
    """The frame of the source with what a letter needs of each record."""
    from pyspark.sql import functions as sql

    return frame.withColumn(RECORD, sql.struct(*_COLUMNS))


def letters(frame: "DataFrame", stage: str, reason: "Column") -> "DataFrame":
    """The letters of rows with `RECORD`."""
    from pyspark.sql import functions as sql

    return frame.select(
        *(sql.col(f"{RECORD}.{name}").alias(name) for name in _COLUMNS),
        sql.lit(stage).alias("stage"),
        reason.alias("reason"),
    )


def judge(found: int, records: int, limits: DeadLetters, first: str) -> None:
    """Raises PipelineError for a batch with too many letters."""
    if limits.records_max is not None and found > limits.records_max:
        rule = f"deadLetter.maxRecords = {limits.records_max:,}"
    elif limits.share_max is not None and found > limits.share_max * records:
        rule = f"deadLetter.maxShare = {limits.share_max:g}"
    else:
        return
    raise PipelineError(
        f"{found:,} of {records:,} records of the batch do not fit, more than {rule} allows; one is {first}"
    )


def as_records(found: "DataFrame", name: str) -> "DataFrame":
    """The letters as records of a topic: as they came, with Connect's headers behind their own."""
    from pyspark.sql import functions as sql

    said: dict[str, Any] = {
        "topic": sql.col("topic"),
        "partition": sql.col("partition"),
        "offset": sql.col("offset"),
        "connector.name": sql.lit(name),
        "task.id": sql.lit("0"),
        "stage": sql.col("stage"),
        "class.name": sql.lit("barnabas.spark.pipeline"),
        "exception.class.name": sql.lit("org.apache.kafka.connect.errors.DataException"),
        "exception.message": sql.col("reason"),
    }
    headers = sql.array(
        *(
            sql.struct(
                sql.lit(f"{PREFIX}{key}").alias("key"), value.cast("string").cast("binary").alias("value")
            )
            for key, value in said.items()
        )
    )
    own = sql.coalesce(sql.col("headers"), sql.slice(headers, 1, 0))
    return found.select("key", "value", sql.concat(own, headers).alias("headers"))

"""From the file's words to a DataFrame: the topics, their values decoded, the transformation, the event time.

The view ``source`` has the columns of ``format("barnabas")``; where a format is given, ``value`` is a struct.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from barnabas.spark import ddl
from barnabas.spark.errors import PipelineError, first_line
from barnabas.spark.pipeline.changes import whole_rows, with_change, with_key
from barnabas.spark.pipeline.debezium import DELETED, parsed, unwrapped
from barnabas.spark.pipeline.formats import CORRUPT
from barnabas.spark.pipeline.settings import Format, Pipeline, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VIEW: Final = "source"
# As Iceberg names and writes partitions by time.
_PATTERNS: Final = {"month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}


def build(spark: "SparkSession", pipeline: Pipeline) -> "DataFrame":
    """The rows for the sink. Nothing is read yet. Raises PipelineError that names the key at fault."""
    with _blames("source"):
        frame = spark.readStream.format("barnabas").options(**pipeline.source).load()
    with _blames("format.schema"):
        frame = decoded(frame, pipeline.format)
    changes = pipeline.sink.changes
    if changes is not None:
        frame = changing(frame, pipeline.format)
    if pipeline.sql is not None:
        frame = _by_sql(spark, frame, pipeline.sql)
    elif pipeline.python is not None:
        frame = _by_python(frame, pipeline.python, str(pipeline.folder))
    elif changes is not None:
        frame = whole_rows(frame, changes)
    return with_event_time(frame, pipeline.sink)


def changing(frame: "DataFrame", form: Format) -> "DataFrame":
    """The view of a pipeline that changes its table: the fields of the record's key, and ``_change``."""
    from pyspark.sql import functions as sql

    if form.envelope is not None:
        frame = unwrapped(frame)
        frame = with_change(
            with_key(frame), deleted=sql.col(DELETED), time=sql.coalesce("source_time", "timestamp")
        )
        return frame.drop("source_time", DELETED)
    frame = frame.withColumn("_tombstone", sql.col("value").isNull())
    frame = with_change(with_key(frame), deleted=sql.col("_tombstone"), time=sql.col("timestamp"))
    return frame.drop("_tombstone")


@contextmanager
def _blames(key: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise PipelineError(f"{key}: {first_line(error)}") from error


def decoded(frame: "DataFrame", form: Format) -> "DataFrame":
    """The frame with its values, and its keys, as the format says:
    by Spark's own functions, or by a decoder in the executors.
    """
    if form.key is not None:
        with _blames("format.key.schema"):
            frame = _keys(frame, form.key)
    if form.kind == "binary":
        return frame
    if form.decoder is not None:
        from barnabas.spark.pipeline.formats import decoding

        return decoding.decoded(frame, form.decoder, form.ids, keep_malformed=form.keep_malformed)
    from pyspark.sql import functions as sql

    if form.envelope is not None:
        return parsed(frame, form.schema, form.envelope)
    schema = f"{form.schema}, {CORRUPT} STRING" if form.keep_malformed else form.schema
    options = {"mode": "PERMISSIVE" if form.keep_malformed else "FAILFAST"}
    text = sql.col("value").cast("string")
    if form.kind == "json":
        return frame.withColumn("value", sql.from_json(text, schema, options))
    return frame.withColumn("value", sql.from_csv(text, schema, {**options, "sep": form.delimiter}))


def _keys(frame: "DataFrame", form: Format) -> "DataFrame":
    """The keys as structs of their columns."""
    from pyspark.sql import functions as sql

    text = sql.col("key").cast("string")
    if form.kind == "text":
        (field,) = ddl.columns(form.schema).fields
        kind, name = field.dataType.simpleString(), field.name
        # A text that is no such value is no key: the batch says which record has none.
        return frame.withColumn(
            "key", sql.struct(sql.expr(f"try_cast(CAST(key AS STRING) AS {kind})").alias(name))
        )
    whole = f"STRUCT<{form.schema}, payload: STRUCT<{form.schema}>>"
    read = sql.from_json(text, whole, {"mode": "PERMISSIVE"})
    names = ddl.columns(form.schema).names
    frame = frame.withColumn("key", read)
    fields = [
        sql.coalesce(sql.col(f"key.`{name}`"), sql.col(f"key.payload.`{name}`")).alias(name) for name in names
    ]
    return frame.withColumn("key", sql.struct(*fields))


def _by_sql(spark: "SparkSession", frame: "DataFrame", text: str) -> "DataFrame":
    frame.createOrReplaceTempView(_VIEW)
    with _blames("transform.sql"):
        found = spark.sql(text)
    return _streaming(found, "transform.sql")


def _by_python(frame: "DataFrame", name: str, folder: str) -> "DataFrame":
    """Calls the function of a module, which is looked for beside the pipeline's file first."""
    from pyspark import cloudpickle

    module_name, _, function_name = name.partition(":")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
        # Executors need not have the module: its functions travel to them whole.
        cloudpickle.register_pickle_by_value(module)
        found: Any = getattr(module, function_name)(frame)
    except Exception as error:  # it is the user's code: any error in it is theirs to mend
        raise PipelineError(f"transform.python: {type(error).__name__}: {first_line(error)}") from error
    return _streaming(found, "transform.python")


def _streaming(frame: Any, key: str) -> "DataFrame":
    """The frame. Raises PipelineError for anything else, and for one that does not come from the topics."""
    if not getattr(frame, "isStreaming", False):
        raise PipelineError(f"{key} must give a DataFrame of what `{_VIEW}` has")
    return frame


def with_event_time(frame: "DataFrame", sink: Sink) -> "DataFrame":
    """The frame with a partition column more, where the sink partitions by an event time."""
    from pyspark.sql import functions as sql

    types = dict(frame.dtypes)
    if sink.event_time is not None:
        if types.get(sink.event_time) not in {"timestamp", "date", "timestamp_ntz"}:
            kind = types.get(sink.event_time, "not there")
            raise PipelineError(
                f"sink.eventTime.column: {sink.event_time} is {kind}: it must be a timestamp or a date"
            )
        name = sink.layout[0]
        if name in types:
            raise PipelineError(f"sink.eventTime: the rows have a column {name} already")
        time = sql.col(f"`{sink.event_time}`")
        frame = frame.withColumn(name, sql.date_format(time, _PATTERNS[sink.event_unit]))
    missing = [name for name in sink.partition_by if name not in types]
    if missing:
        raise PipelineError(
            f"sink.partitionBy: the rows have no column {missing[0]}; they have {', '.join(types)}"
        )
    return frame

"""From the file's words to a DataFrame: the topics, their values decoded, the transformation, the event time.

The view ``source`` has the columns of ``format("barnabas")``; where a format is given, ``value`` is a struct.
"""

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from barnabas.spark import ddl
from barnabas.spark.errors import PipelineError, TransientError, first_line
from barnabas.spark.pipeline.dead_letters.letters import REASON, with_record
from barnabas.spark.pipeline.file.format_settings import Format
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.formats import CORRUPT
from barnabas.spark.pipeline.joined.joins import joined
from barnabas.spark.pipeline.rows.changes import whole_rows, with_change, with_key
from barnabas.spark.pipeline.rows.debezium import DELETED, TRUNCATED, UNSENT, parsed, unwrapped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_STATEFUL: Final = re.compile(
    r"^[\s:+~-]*(Aggregate|Distinct|Deduplicate\w*|EventTimeWatermark|\w*GroupsWithState|Window|"
    r"TransformWithState\w*)\b",
    re.MULTILINE,
)
"""How Spark's plan names what a stream has a state for."""
_VIEW: Final = "source"
_FRAME_BYTES: Final = 5
# As Iceberg names and writes partitions by time.
_PATTERNS: Final = {"month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}


@dataclass(frozen=True, slots=True)
class Built:
    """The frames of a pipeline. Nothing is read yet."""

    batches: "DataFrame"
    """What the query hands over: the rows. With joins or dead letters each batch is transformed by itself,
    and these are the records, with dead letters with `REASON`.
    """
    rows: "DataFrame"
    """The rows for the sink."""


def build(spark: "SparkSession", pipeline: Pipeline) -> Built:
    """The frames of a file, whose joined tables were looked at. Raises PipelineError that names the key at
    fault.
    """
    came = raw(spark.readStream, pipeline)
    if pipeline.format.by_topic:
        return Built(came, came)
    frame = read(came, pipeline)
    rows = rows_of(spark, frame, pipeline)
    if pipeline.letters is None and not pipeline.joins:
        return Built(rows, rows)
    require_each_by_itself(rows, pipeline)
    return Built(frame, rows)


def rows_of(spark: "SparkSession", frame: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    """The rows for the sink of what `read` gives, with joined tables that are empty: their columns count."""
    if pipeline.letters is not None:
        frame = frame.filter(f"{REASON} IS NULL").drop(REASON)
    return transformed(spark, joined(frame, pipeline), pipeline)


def records(reader: Any, pipeline: Pipeline) -> "DataFrame":
    """What the view ``source`` has; with dead letters also `RECORD`, and `REASON` where one does not fit."""
    return read(raw(reader, pipeline), pipeline)


def raw(reader: Any, pipeline: Pipeline) -> "DataFrame":
    """The records as they came; with dead letters with `RECORD`."""
    options, letters = dict(pipeline.source), pipeline.letters is not None
    if letters:
        options = {name: value for name, value in options.items() if name.lower() != "includeheaders"}
        options["includeHeaders"] = "true"
    with _blames("source"):
        frame = reader.format("barnabas").options(**options).load()
    if letters:
        frame = with_record(frame)
        if not pipeline.source_options.include_headers:
            frame = frame.drop("headers")
    return frame


def read(frame: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    """Such records with their values as the format says, and what tells changes apart."""
    letters = pipeline.letters is not None
    with _blames("format.schema"):
        frame = decoded(frame, pipeline.format, letters=letters)
    if pipeline.sink.changes is not None:
        # What stands in the table says nothing of the row that a value would have been joined with.
        fills = pipeline.sql is None and pipeline.python is None and not pipeline.joins
        frame = changing(frame, pipeline.format, letters=letters, fills=fills)
    return frame


def transformed(spark: "SparkSession", frame: "DataFrame", pipeline: Pipeline) -> "DataFrame":
    """The rows of such records, of a stream or of a batch."""
    if pipeline.sql is not None:
        frame = _by_sql(spark, frame, pipeline.sql)
    elif pipeline.python is not None:
        frame = _by_python(frame, pipeline.python, str(pipeline.folder))
    elif pipeline.sink.changes is not None:
        frame = whole_rows(frame, pipeline.sink.changes, [one.name for one in pipeline.joins])
    return with_event_time(frame, pipeline.sink)


def at_one_time(frame: "DataFrame") -> "DataFrame":
    """The rows of a batch, in which now() is one time. Each job of Spark has its own else, and a rule could
    say another thing of a row when it is a letter than when it is written.
    """
    from pyspark.sql import DataFrame

    session = frame.sparkSession
    sparks = session._jvm.org.apache.spark.sql  # noqa: SLF001
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    plan = sparks.catalyst.optimizer.ComputeCurrentTime.apply(plan)
    return DataFrame(sparks.classic.Dataset.ofRows(session._jsparkSession, plan), session)  # noqa: SLF001


def require_each_by_itself(rows: "DataFrame", pipeline: Pipeline) -> None:
    """Raises PipelineError for a query that remembers rows of earlier batches: with dead letters,
    joins and topics with schemas of their own the transformation sees one batch at a time.
    """
    why = "[[join]]" if pipeline.joins else "a schema for each topic"
    why = "[deadLetter]" if pipeline.letters is not None else why
    plan = rows._jdf.queryExecution().analyzed().toString()  # noqa: SLF001
    found = _STATEFUL.search(plan)
    if found is not None:
        raise PipelineError(
            f"transform has a {found[1]} over batches, which {why} does not go with: each batch is "
            "transformed by itself then"
        )


def changing(frame: "DataFrame", form: Format, *, letters: bool = False, fills: bool = False) -> "DataFrame":
    """The view of a pipeline that changes its table: the fields of the record's key, and ``_change``."""
    from pyspark.sql import functions as sql

    if form.envelope is not None:
        frame = unwrapped(frame, letters=letters, fills=fills)
        time = sql.coalesce("source_time", "timestamp")
        more = (sql.col(TRUNCATED).alias("truncated"), sql.col(UNSENT).alias("unsent"))
        frame = with_change(with_key(frame), *more, deleted=sql.col(DELETED), time=time)
        return frame.drop("source_time", DELETED, TRUNCATED, UNSENT)
    frame = frame.withColumn("_tombstone", sql.col("value").isNull())
    frame = with_change(with_key(frame), deleted=sql.col("_tombstone"), time=sql.col("timestamp"))
    return frame.drop("_tombstone")


@contextmanager
def _blames(key: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise PipelineError(f"{key}: {first_line(error)}") from error


def decoded(frame: "DataFrame", form: Format, *, letters: bool = False) -> "DataFrame":
    """The frame with its values, and its keys, as the format says: by Spark's own functions, or by a decoder
    in the executors. With `letters` a value that does not fit is null, and why is in `REASON`.
    """
    if letters:
        return _with_reasons(frame, form)
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
        return parsed(frame.withColumn("value", _json(form)), form.schema, form.envelope)
    schema = f"{form.schema}, {CORRUPT} STRING" if form.keep_malformed else form.schema
    options = {"mode": "PERMISSIVE" if form.keep_malformed else "FAILFAST"}
    if form.kind == "json":
        return frame.withColumn("value", sql.from_json(_json(form), schema, options))
    text = sql.col("value").cast("string")
    return frame.withColumn("value", sql.from_csv(text, schema, {**options, "sep": form.delimiter}))


def _with_reasons(frame: "DataFrame", form: Format) -> "DataFrame":
    from pyspark.sql import functions as sql

    if form.key is not None:
        with _blames("format.key.schema"):
            frame = _keys(frame, form.key)
    if form.kind == "binary":
        return frame.withColumn(REASON, sql.lit(None).cast("string"))
    if form.decoder is not None:
        from barnabas.spark.pipeline.formats import decoding

        frame = decoding.decoded(frame, form.decoder, form.ids, keep_malformed=False, keep_reasons=True)
        reason = sql.col(f"value.{CORRUPT}")
    else:
        if form.envelope is not None:
            frame = frame.withColumn("value", _json(form))
            frame = parsed(frame, form.schema, form.envelope, letters=True)
        else:
            frame = decoded(frame, replace(form, key=None, keep_malformed=True))
        bad = sql.col(f"value.{CORRUPT}").isNotNull()
        reason = sql.when(bad, sql.lit(f"it is no {form.kind.upper()} that fits format.schema"))
    frame = frame.withColumn(REASON, reason)
    return frame.withColumn("value", sql.col("value").dropFields(CORRUPT))


def _json(form: Format) -> "Column":
    """The texts of values, without a registry's frame. An empty one becomes what is no JSON: Spark reads it
    as null, and a null value deletes a row.
    """
    from pyspark.sql import functions as sql

    text = (_unframed(sql.col("value")) if form.framed else sql.col("value")).cast("string")
    return sql.when(sql.btrim(text, sql.lit(" \t\r\n")) == "", sql.lit("no JSON")).otherwise(text)


def _unframed(value: "Column") -> "Column":
    """What is behind a 0 and the 4 bytes of an id; of a value without them what no JSON begins with."""
    from pyspark.sql import functions as sql

    framed = (sql.length(value) > _FRAME_BYTES) & (sql.substring(value, 1, 1) == sql.lit(b"\0"))
    body = sql.substring(value, _FRAME_BYTES + 1, 2**31 - 1)
    return sql.when(framed, body).when(value.isNotNull(), sql.lit(b"no frame"))


def _keys(frame: "DataFrame", form: Format) -> "DataFrame":
    """The keys as structs of their columns."""
    from pyspark.sql import functions as sql

    if form.decoder is not None:
        from barnabas.spark.pipeline.formats import decoding

        # A key that is malformed is none: the batch says which record has none.
        frame = decoding.decoded(
            frame, form.decoder, form.ids, keep_malformed=False, keep_reasons=True, column="key"
        )
        return frame.withColumn("key", sql.col("key").dropFields(CORRUPT))
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
        sql.coalesce(sql.col(f"key.{ddl.quoted(name)}"), sql.col(f"key.payload.{ddl.quoted(name)}")).alias(
            name
        )
        for name in names
    ]
    return frame.withColumn("key", sql.struct(*fields))


def _by_sql(spark: "SparkSession", frame: "DataFrame", text: str) -> "DataFrame":
    frame.createOrReplaceTempView(_VIEW)
    with _blames("transform.sql"):
        found = spark.sql(text)
    return _streaming(found, "transform.sql") if frame.isStreaming else found


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
        raise TransientError(f"transform.python: {type(error).__name__}: {first_line(error)}") from error
    return _streaming(found, "transform.python") if frame.isStreaming else found


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
        time = sql.col(ddl.quoted(sink.event_time))
        frame = frame.withColumn(name, sql.date_format(time, _PATTERNS[sink.event_unit]))
    missing = [name for name in sink.partition_by if name not in types]
    if missing:
        raise PipelineError(
            f"sink.partitionBy: the rows have no column {missing[0]}; they have {', '.join(types)}"
        )
    return frame

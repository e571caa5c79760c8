"""Tries a pipeline's file on the newest records of its topics; nothing is written."""

import dataclasses
import json
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.core.ids import TopicPartition
from barnabas.spark.ddl import quoted
from barnabas.spark.errors import PipelineError
from barnabas.spark.kafka import KafkaCatalog
from barnabas.spark.offsets import EARLIEST, LATEST, to_nested
from barnabas.spark.pipeline.dead_letters.letters import REASON, RECORD
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.file.sink_settings import DeadLetters
from barnabas.spark.pipeline.formats.reader_schema import settled
from barnabas.spark.pipeline.joined import joins
from barnabas.spark.pipeline.joined.joined_tables import Copies
from barnabas.spark.pipeline.many_tables.routed_sink import require_columns, unnamed
from barnabas.spark.pipeline.many_tables.topic_tables import require_rules
from barnabas.spark.pipeline.rows import changes, expectations, frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_STREAMS: Final = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp", "failondataloss",
    "startingoffsetsbytimestampstrategy", "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay",
    "subscribe", "subscribepattern", "assign", "backfilllogs")  # fmt: skip
"""Options that say what is read, or that only a stream has."""


class NoRecordsError(PipelineError):
    """The topics have nothing that could be tried."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a few records become."""

    records: int
    columns: "StructType"
    rows: list[str]
    """As JSON, those for the table; ``deletes`` stands before one that takes its key out of it."""
    rejects: list[str]
    """Each record or row that does not fit, with the reason."""


def attempt(spark: "SparkSession", pipeline: Pipeline, records: int) -> Trial:
    """Reads that many of the newest records, about as many of each partition. Raises PipelineError."""
    from pyspark.sql import functions as sql

    begin, end = _newest(pipeline, records)
    source = {name: value for name, value in pipeline.source.items() if name.lower() not in _STREAMS}
    assigned: dict[str, list[int]] = {}
    for tp in sorted(end):
        assigned.setdefault(tp.topic, []).append(tp.partition)
    source |= {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(to_nested(begin)),
        "endingOffsets": json.dumps(to_nested(end)),
    }
    with tempfile.TemporaryDirectory() as folder:
        form = settled(pipeline.format, pipeline.checkpoint)
        if form.ids is not None:  # ids of schemas are pinned for this trial alone
            form = dataclasses.replace(form, ids=dataclasses.replace(form.ids, checkpoint=Path(folder)))
            assert form.ids is not None
            form.ids.prepare()
        if form.key is not None and form.key.ids is not None:
            ids = dataclasses.replace(form.key.ids, checkpoint=Path(folder))
            form = dataclasses.replace(form, key=dataclasses.replace(form.key, ids=ids))
        tried = dataclasses.replace(
            pipeline, source=source, format=form, letters=pipeline.letters or DeadLetters()
        )
        tried = joins.with_types(tried)
        copies = Copies(Path(folder), tried.joins).of(0)
        frame = frames.records(spark.read, tried).persist()
        try:
            fitting = joins.joined(frame.filter(f"{REASON} IS NULL").drop(REASON), tried, copies)
            rows = frames.transformed(spark, fitting, tried)
            require_rules(rows, pipeline)
            how = pipeline.sink.changes
            changes.kept(rows.schema, how, pipeline.sink.layout, in_files=True)  # what a run would refuse
            require_columns(pipeline.sink, rows.schema)
            bad = frame.filter(f"{REASON} IS NOT NULL").select(f"{RECORD}.*", REASON).collect()
            rejects = [f"{one.topic}-{one.partition} offset {one.offset}: {one[REASON]}" for one in bad]
            reason = sql.lit(None).cast("string")
            for violation in expectations.VIOLATIONS:
                rule = expectations.violated(pipeline.expectations, violation)
                reason = sql.coalesce(reason, sql.concat(sql.lit("a row violates the rule "), rule))
            if pipeline.sink.route is not None:
                words = sql.lit(f"a row names no table by {', '.join(pipeline.sink.route.columns)}")
                reason = sql.coalesce(reason, sql.when(unnamed(pipeline.sink.route), words))
            if how is not None:
                words = sql.lit(f"a row has null in the key ({', '.join(how.key)})")
                reason = sql.coalesce(reason, sql.when(changes.lacks_key(rows, how), words))
            names = [name for name in rows.columns if name not in {RECORD, changes.CHANGE}]
            whole = sql.to_json(sql.struct(*(sql.col(quoted(name)) for name in names)))
            gone = sql.col(f"{changes.CHANGE}.deleted") if changes.CHANGE in rows.columns else sql.lit(False)
            fit = []
            for text, why, deletes in rows.select(whole, reason, gone).collect():
                if why is None:
                    fit.append(f"deletes {text}" if deletes else text)
                else:
                    rejects.append(f"{why}: {text}")
            return Trial(frame.count(), rows.select(*map(quoted, names)).schema, fit, rejects)
        finally:
            frame.unpersist()


def _newest(pipeline: Pipeline, records: int) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where to begin and to end in each partition that has records."""
    options = pipeline.source_options
    with closing(KafkaCatalog(options)) as catalog:
        found = catalog.topics(options)
        if found.missing:
            raise PipelineError(f"the topic {min(found.missing)} does not exist")
        ends = catalog.offsets(dict.fromkeys(found.partitions, LATEST))
        begins = catalog.offsets(dict.fromkeys(found.partitions, EARLIEST))
    filled = sorted(tp for tp in ends if ends[tp] > begins[tp])
    if not filled:
        raise NoRecordsError("the topics have no records yet")
    each = -(-records // len(filled))
    return {tp: max(begins[tp], ends[tp] - each) for tp in filled}, {tp: ends[tp] for tp in filled}

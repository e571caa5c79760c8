"""The file of a pipeline, checked as far as that is possible without Spark and brokers.

Paths are relative to the file's folder. docs/pipeline.md has every key.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import OptionError, PipelineError
from barnabas.spark.options import (
    BOOTSTRAP_SERVERS,
    SOURCE_OPTIONS,
    SourceOptions,
    parse_duration_ms,
    source_options,
)
from barnabas.spark.pipeline.file.environment import expanded
from barnabas.spark.pipeline.file.format_settings import Format, format_of
from barnabas.spark.pipeline.file.join_settings import JOINS_MAX, Join, joins_of
from barnabas.spark.pipeline.file.section import Section, unknown
from barnabas.spark.pipeline.file.sink_settings import DeadLetters, Sink, letters_of, local_path, sink_of
from barnabas.spark.pipeline.many_tables.routes import may_be
from barnabas.spark.pipeline.rows.expectations import RULES_MAX, VIOLATIONS, Expectation, forbidden

_STORES: Final = ("kafka.ssl.keystore.location", "kafka.ssl.truststore.location")
_BACKFILL: Final = "backfillLogs"
_IN_SOURCE: Final = (BOOTSTRAP_SERVERS, *(name for name in SOURCE_OPTIONS if name != _BACKFILL))
"""The keys of ``[source]`` beside those of the client: log directories have a section of their own."""
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything that a file says."""

    name: str
    folder: Path
    """Where the file is; modules of Python transformations are looked for there first."""
    checkpoint: Path
    log: Path
    trigger: dict[str, str | bool]
    """The arguments of Spark's ``trigger``."""
    source: dict[str, str]
    source_options: SourceOptions
    format: Format
    sql: str | None
    python: str | None
    sink: Sink
    restarts: int
    """How many times in a row a stream that gets nothing done is started again."""
    backoff_ms: int
    """The pause before the first of them; each further one doubles it, up to a minute."""
    group: str | None
    """The consumer group that the progress is committed to."""
    metrics_port: int | None
    spark: dict[str, str]
    letters: DeadLetters | None = None
    """Where records go that do not fit; without it one ends the query."""
    expectations: tuple[Expectation, ...] = ()
    events: Path | None = None
    """A file that gets a line of JSON for each event."""
    webhook: str | None = None
    """What is told when the pipeline fails."""
    joins: tuple[Join, ...] = ()
    """Tables that each record is joined with before the transformation."""
    lineage: str | None = None
    """The namespace of its job in OpenLineage, where it is told of."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """That of all topics, and those of single ones."""
        return (self.format, *self.format.topics.values())


def load(path: Path) -> Pipeline:
    """The pipeline of a file. Raises PipelineError with one line that begins with the file's name."""
    try:
        with path.open("rb") as file:
            values = expanded(tomllib.load(file), os.environ)
        return _pipeline(Section(values), path.absolute())
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:  # what tomllib and Python's numbers refuse
        raise PipelineError(f"{path} is no TOML: {error}") from None


def _pipeline(top: Section, path: Path) -> Pipeline:
    name = top.text("name", path.stem)
    if "/" in name:
        raise top.wrong("name", f"is {name!r}: it must be a name, not a path, as the log is named after it")
    for required in ("source", "sink"):
        if required not in top:
            raise top.missing(required, f"is missing: a file has a section [{required}]")
    source, options = _source(top.section("source"), path.parent, _logs(top))
    sql, python = _transform(top.section("transform"))
    checkpoint = local_path(top, "checkpoint", path.parent)
    sink = sink_of(top.section("sink"), path.parent, checkpoint)
    restart, follow, notify = top.section("restart"), top.section("follow"), top.section("notify")
    pipeline = Pipeline(
        name=name,
        folder=path.parent,
        checkpoint=checkpoint,
        log=local_path(top, "log", path.parent, f"{name}.log"),
        trigger=_trigger(top),
        source=source,
        source_options=options,
        format=format_of(
            top.section("format"),
            path.parent,
            checkpoint,
            options.topics,
            by_topic=sink.route is not None and sink.route.columns == ("topic",),
        ),
        sql=sql,
        python=python,
        sink=sink,
        joins=joins_of(top.sections("join", most=JOINS_MAX), path.parent, sink.changes),
        restarts=5 if (attempts := restart.whole("attempts", most=1000)) is None else attempts,
        backoff_ms=restart.duration_ms("backoff", "2s"),
        group=follow.optional_text("group"),
        metrics_port=follow.whole("metricsPort", most=65535),
        events=local_path(top, "events", path.parent) if "events" in top else None,
        webhook=_webhook(notify),
        lineage=notify.optional_text("openLineage"),
        letters=letters_of(top.section("deadLetter"), path.parent, checkpoint)
        if "deadLetter" in top
        else None,
        expectations=tuple(map(_expectation, top.sections("expect", most=RULES_MAX))),
        spark={f"spark.{key}": value for key, value in top.section("spark").settings().items()},
    )
    zone = pipeline.spark.get("spark.sql.session.timeZone", "UTC")
    if pipeline.sink.event_time is not None and zone != "UTC":
        raise PipelineError(
            f"spark.sql.session.timeZone is {zone}: with sink.eventTime it must be UTC, in which its folders "
            "are named"
        )
    for section in (restart, follow, notify, top):
        section.close()
    if "spark.remote" in pipeline.spark or pipeline.spark.get("spark.master", "").startswith("sc://"):
        raise PipelineError(
            "spark.remote: a pipeline's process is Spark's driver, as it commits each batch, and with Spark "
            "Connect the driver is the server: give spark.master, or none and spark-submit"
        )
    _keep_apart(pipeline, path)
    _require_letters(pipeline)
    if any(one.envelope is not None for one in pipeline.formats) and pipeline.sink.changes is None:
        raise PipelineError(
            'sink.mode must be "merge" or "history" with format.envelope: its rows are changes'
        )
    _require_key_of_tables(pipeline)
    _require_read(pipeline)
    return pipeline


def _require_read(pipeline: Pipeline) -> None:
    """Raises PipelineError for a schema of a topic that is not read: its name is mistyped, and the topic that
    was meant would be read by what all others have.
    """
    options = pipeline.source_options
    names = options.topics or tuple({tp.topic for tp in options.assigned})
    for topic in pipeline.format.topics:
        key = f'format.topics."{topic}"'
        if options.pattern is None and topic not in names:
            raise PipelineError(f"{key}: the topic {unknown(topic, names)}")
        if options.pattern is not None and re.fullmatch(options.pattern, topic) is None:
            raise PipelineError(f"{key}: source.subscribePattern does not have the topic")


def _webhook(section: Section) -> str | None:
    address = section.optional_text("webhook")
    if address is not None and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", address):
        # It is not shown: addresses of hooks have their password in them.
        raise section.wrong("webhook", "must be an address that begins with http:// or https://")
    return address


def _expectation(section: Section) -> Expectation:
    rule, violation = section.text("rule"), section.choice("violation", VIOLATIONS, "fail")
    section.close()
    word = forbidden(rule)
    if word is not None:
        raise section.wrong("rule", f"has {word}: it may only compare the columns of a row")
    return Expectation(rule, violation)


def _require_letters(pipeline: Pipeline) -> None:
    """Refuses what letters and rules cannot be together with."""
    letters = pipeline.letters
    if letters is None:
        for number, one in enumerate(pipeline.expectations):
            if one.violation == "deadLetter":
                raise PipelineError(
                    f"expect[{number}].violation is 'deadLetter', and [deadLetter] is missing"
                )
        return
    if any(one.keep_malformed for one in pipeline.formats):
        raise PipelineError("format.malformed must be fail with [deadLetter], where malformed values go")
    for place, whose in ((pipeline.sink.where, "sink.path"), (str(pipeline.checkpoint), "checkpoint")):
        if letters.table is not None and _overlap(letters.table.where, place):
            raise PipelineError(f"deadLetter.path {letters.table.where} must be a folder apart from {whose}")
    _require_not_read(pipeline, "deadLetter.topic", letters.topic)


def _require_not_read(pipeline: Pipeline, key: str, topic: str) -> None:
    """Raises PipelineError for a topic that the pipeline would read what it has written from, without end."""
    options = pipeline.source_options
    if topic and (
        options.asks_for(TopicPartition(topic, 0)) or topic in {tp.topic for tp in options.assigned}
    ):
        by = f" by source.subscribePattern {options.pattern}" if options.pattern is not None else ""
        raise PipelineError(f"{key} {topic} is read by the pipeline itself{by}")


def _require_key_of_tables(pipeline: Pipeline) -> None:
    """A delete may have nothing but its key, and a key must not be in two tables. Of topics with schemas of
    their own each is known by its records.
    """
    route, changes = pipeline.sink.route, pipeline.sink.changes
    if route is None or changes is None or pipeline.format.by_topic:
        return
    if not set(route.columns) <= set(changes.key):
        names = ", ".join(route.columns)
        raise PipelineError(f"sink.path has columns that are not in sink.key: {names}")


def _overlap(one: str, other: str) -> bool:
    """Whether one of two places lies in the other, or a table of the other by some value of its columns."""
    return all(may_be(its, own) for own, its in zip(one.split("/"), other.split("/"), strict=False))


def _keep_apart(pipeline: Pipeline, file: Path) -> None:
    """Refuses places that lie within each other:
    what is written to one would be taken for a part of the other.
    """
    table, checkpoint, log = pipeline.sink.path, pipeline.checkpoint, pipeline.log
    if table in (checkpoint, *checkpoint.parents):
        raise PipelineError(f"checkpoint {checkpoint} must not be in the table's folder")
    if log == Path(os.path.normpath(file)):
        raise PipelineError(f"log {log} is the pipeline's own file, which Spark would write to")
    if pipeline.events == Path(os.path.normpath(file)):
        raise PipelineError(
            f"events {pipeline.events} is the pipeline's own file, which lines would be added to"
        )
    _require_not_read(pipeline, "sink.topic", pipeline.sink.topic)
    if pipeline.sink.route is not None:
        for name, own in (("checkpoint", checkpoint), ("log", log), ("events", pipeline.events)):
            if own is not None and _overlap(str(own), pipeline.sink.where):
                raise PipelineError(
                    f"{name} {own} could be in a table that a row names by sink.path {pipeline.sink.where}: "
                    "give one of them a folder of its own"
                )
    for join in pipeline.joins:
        for name, own in (("checkpoint", checkpoint), ("log", log), ("events", pipeline.events)):
            if own is not None and Path(join.table) in (own, *own.parents):
                raise PipelineError(f"{name} {own} must not be in the folder of {join.key}.table")
    for name, place in (("log", log), ("events", pipeline.events)):
        for folder, whose in ((table, "table"), (checkpoint, "checkpoint")):
            if place is not None and folder in (place, *place.parents):
                raise PipelineError(f"{name} {place} must not be in the {whose}'s folder")


def _logs(top: Section) -> str | None:
    """The log directories that are read first, None where there is no ``[backfill]``."""
    if "backfill" not in top:
        return None
    section = top.section("backfill")
    if isinstance(section.peek("logs"), list):
        raise section.wrong("logs", 'is a list: several directories are one text with commas, such as "a, b"')
    logs = section.text("logs")
    section.close()
    return logs


def _source(section: Section, folder: Path, logs: str | None) -> tuple[dict[str, str], SourceOptions]:
    """The options of ``format("barnabas")``, in Spark's words and checked by the same code. A stream that
    reads log directories first begins at the first record.
    """
    options = {
        name: str(folder / value) if name.lower() in _STORES else value
        for name, value in section.settings().items()
    }
    known = {name.lower() for name in _IN_SOURCE}
    for name, value in options.items():
        if name.lower() == _BACKFILL.lower():
            raise section.wrong(name, "has a section of its own in the file: [backfill] with logs")
        if name.lower() not in known and not name.lower().startswith("kafka."):
            raise section.wrong(name, unknown(name, _IN_SOURCE))
        if name.lower() == "maxtriggerdelay":
            section.require_unit(name, value)
    if logs is not None:
        options[_BACKFILL] = ",".join(str(folder / one.strip()) for one in logs.split(","))
        if not any(name.lower().startswith("starting") for name in options):
            options["startingOffsets"] = "earliest"
    try:
        return options, source_options(options, streaming=True, quiet=True)
    except OptionError as error:
        words = str(error).replace(_BACKFILL, "backfill.logs")  # as the file has it
        raise PipelineError(f"{_at_fault(options, words)}: {words}") from None


def _at_fault(options: Mapping[str, str], words: str) -> str:
    """The key of a wrong option, by its value in words that do not name it, as some of Spark's do not."""
    named = [name for name, value in options.items() if value in words]
    if len(named) == 1 and named[0].removeprefix("kafka.").lower() not in words.lower():
        return f"source.{named[0]}"
    return "source"


def _transform(section: Section) -> tuple[str | None, str | None]:
    sql, python = section.optional_text("sql"), section.optional_text("python")
    if sql is not None and python is not None:
        raise PipelineError("transform has both sql and python: it must be one of them")
    if python is not None and not _FUNCTION.fullmatch(python):
        raise section.wrong("python", f"is {python!r}: it must be module:function")
    section.close()
    return sql, python


def _trigger(top: Section) -> dict[str, str | bool]:
    text = top.time("trigger", "availableNow")
    if text in {"availableNow", "once"}:
        return {text: True}
    try:
        return {"processingTime": f"{parse_duration_ms(text)} milliseconds"}
    except OptionError:
        raise top.wrong(
            "trigger", f'is {text!r}: it must be "availableNow", "once" or a time such as "10s"'
        ) from None

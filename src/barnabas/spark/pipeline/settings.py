"""The file of a pipeline, checked as far as that is possible without Spark and brokers.

Paths are relative to the file's folder. docs/pipeline.md has every key.
"""

import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.core.ids import is_topic_name
from barnabas.spark.errors import OptionError, PipelineError
from barnabas.spark.options import (
    SOURCE_OPTIONS,
    SourceOptions,
    parse_duration_ms,
    source_options,
)
from barnabas.spark.pipeline.environment import expanded
from barnabas.spark.pipeline.expectations import RULES_MAX, VIOLATIONS, Expectation, forbidden
from barnabas.spark.pipeline.format_settings import Format, format_of
from barnabas.spark.pipeline.letters import DeadLetters
from barnabas.spark.pipeline.section import Section, unknown
from barnabas.spark.pipeline.tables.rewriting import Changes

_STORES: Final = ("kafka.ssl.keystore.location", "kafka.ssl.truststore.location")
SINKS: Final = ("parquet", "delta", "iceberg", "topic")
UNITS: Final = ("month", "day", "hour")
"""What a table can be partitioned by, of an event time; Iceberg's transforms have these names."""
_WHOLE_TYPE: Final = re.compile(r"\s*(array|map|struct)\s*<", re.IGNORECASE)
_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Sink:
    """Where the rows go."""

    kind: str
    path: Path
    partition_by: tuple[str, ...]
    """Columns of the rows, one folder a value."""
    event_time: str | None
    """A column whose time gives one partition column more."""
    event_unit: str
    table: str = ""
    """The name of an Iceberg table in its catalog, with its namespace."""
    catalog: dict[str, str] = field(default_factory=dict)
    """PyIceberg's properties of that catalog, and the `name` that SQL catalogs keep their tables by."""
    changes: Changes | None = None
    """How rows change those of their key; without it they are appended."""
    compact_every: int = 0
    """After how many batches small files are merged; 0: never."""
    topic: str = ""
    topic_key: tuple[str, ...] = ()
    """Columns that the keys of a topic's records are made of."""

    @property
    def layout(self) -> tuple[str, ...]:
        """All partition columns, in the order of the folders."""
        return (*((f"{self.event_time}_{self.event_unit}",) if self.event_time else ()), *self.partition_by)


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
    source, options = _source(top.section("source"), path.parent)
    sql, python = _transform(top.section("transform"))
    checkpoint = _local(top, "checkpoint", path.parent)
    restart, follow, notify = top.section("restart"), top.section("follow"), top.section("notify")
    pipeline = Pipeline(
        name=name,
        folder=path.parent,
        checkpoint=checkpoint,
        log=_local(top, "log", path.parent, f"{name}.log"),
        trigger=_trigger(top),
        source=source,
        source_options=options,
        format=format_of(top.section("format"), path.parent, checkpoint, options.topics),
        sql=sql,
        python=python,
        sink=_sink(top.section("sink"), path.parent, checkpoint),
        restarts=5 if (attempts := restart.whole("attempts", most=1000)) is None else attempts,
        backoff_ms=restart.duration_ms("backoff", "2s"),
        group=follow.optional_text("group"),
        metrics_port=follow.whole("metricsPort", most=65535),
        events=_local(top, "events", path.parent) if "events" in top else None,
        webhook=_webhook(notify),
        letters=_letters(top.section("deadLetter"), path.parent) if "deadLetter" in top else None,
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
    _keep_apart(pipeline, path)
    _require_letters(pipeline)
    if pipeline.format.envelope is not None and pipeline.sink.changes is None:
        raise PipelineError(
            'sink.mode must be "merge" or "history" with format.envelope: its rows are changes'
        )
    return pipeline


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


def _letters(section: Section, folder: Path) -> DeadLetters:
    kind = section.choice("kind", SINKS)
    path = _local(section, "path", folder) if kind != "topic" else Path()
    table, catalog = _iceberg(section, path, folder) if kind == "iceberg" else ("", {})
    found = DeadLetters(
        kind,
        topic=section.text("topic") if kind == "topic" else "",
        path=path,
        table=table,
        catalog=catalog,
        records_max=section.whole("maxRecords", most=2**31 - 1),
        share_max=section.share("maxShare"),
    )
    section.close()
    if found.topic and not is_topic_name(found.topic):
        raise section.wrong("topic", f"is {found.topic!r}, which is no name of a topic")
    return found


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
    if pipeline.format.keep_malformed:
        raise PipelineError("format.malformed must be fail with [deadLetter], where malformed values go")
    for place, whose in ((pipeline.sink.path, "sink.path"), (pipeline.checkpoint, "checkpoint")):
        inside = letters.path in (place, *place.parents) or place in letters.path.parents
        if letters.kind != "topic" and inside:
            raise PipelineError(f"deadLetter.path {letters.path} must be a folder apart from {whose}")
    if letters.topic and letters.topic in pipeline.source.get("subscribe", "").split(","):
        raise PipelineError(f"deadLetter.topic {letters.topic} is read by the pipeline itself")


def _keep_apart(pipeline: Pipeline, file: Path) -> None:
    """Refuses places that lie within each other:
    what is written to one would be taken for a part of the other.
    """
    table, checkpoint, log = pipeline.sink.path, pipeline.checkpoint, pipeline.log
    if table in (checkpoint, *checkpoint.parents):
        raise PipelineError(f"checkpoint {checkpoint} must not be in the table's folder")
    if log == Path(os.path.normpath(file)):
        raise PipelineError(f"log {log} is the pipeline's own file, which Spark would write to")
    if pipeline.sink.topic and pipeline.sink.topic in pipeline.source_options.topics:
        raise PipelineError(f"sink.topic {pipeline.sink.topic} is read by the pipeline itself")
    for name, place in (("log", log), ("events", pipeline.events)):
        for folder, whose in ((table, "table"), (checkpoint, "checkpoint")):
            if place is not None and folder in (place, *place.parents):
                raise PipelineError(f"{name} {place} must not be in the {whose}'s folder")


def _source(section: Section, folder: Path) -> tuple[dict[str, str], SourceOptions]:
    """The options of ``format("barnabas")``, in Spark's words and checked by the same code."""
    options = {
        name: str(folder / value) if name.lower() in _STORES else value
        for name, value in section.settings().items()
    }
    known = {name.lower() for name in SOURCE_OPTIONS}
    for name, value in options.items():
        if name.lower() not in known and not name.lower().startswith("kafka."):
            raise section.wrong(name, unknown(name, SOURCE_OPTIONS))
        if name.lower() == "maxtriggerdelay":
            section.require_unit(name, value)
    try:
        return options, source_options(options, streaming=True, quiet=True)
    except OptionError as error:
        raise PipelineError(f"source: {error}") from None


def _transform(section: Section) -> tuple[str | None, str | None]:
    sql, python = section.optional_text("sql"), section.optional_text("python")
    if sql is not None and python is not None:
        raise PipelineError("transform has both sql and python: it must be one of them")
    if python is not None and not _FUNCTION.fullmatch(python):
        raise section.wrong("python", f"is {python!r}: it must be module:function")
    section.close()
    return sql, python


def _sink(section: Section, folder: Path, checkpoint: Path) -> Sink:
    if section.peek("kind") == "topic":
        section.choice("kind", SINKS)
        found = Sink(
            "topic",
            checkpoint / "topic",
            (),
            None,
            "day",
            topic=section.text("topic"),
            topic_key=section.texts("key"),
        )
        section.close()
        if not is_topic_name(found.topic):
            raise section.wrong("topic", f"is {found.topic!r}, which is no name of a topic")
        return found
    event = section.section("eventTime")
    given = "eventTime" in section
    kind, path = section.choice("kind", SINKS), _local(section, "path", folder)
    table, catalog = _iceberg(section, path, folder) if kind == "iceberg" else ("", {})
    sink = Sink(
        kind=kind,
        path=path,
        partition_by=section.texts("partitionBy"),
        event_time=event.text("column") if given else None,
        event_unit=event.choice("by", UNITS, "day") if given else "day",
        table=table,
        changes=_changes(section, kind),
        compact_every=section.whole("compactEvery", most=1_000_000) or 0,
        catalog=catalog,
    )
    event.close()
    section.close()
    if len(set(sink.layout)) < len(sink.layout):
        raise section.wrong("partitionBy", f"names a column twice: {', '.join(sink.layout)}")
    return sink


def _changes(section: Section, kind: str) -> Changes | None:
    """The keys by which rows are changed, None for a table that only grows."""
    mode = section.choice("mode", ("append", "merge", "history"), "append")
    key, deleted_by = section.texts("key"), section.optional_text("deletedBy")
    if mode == "append":
        for name, given in (("key", key), ("deletedBy", deleted_by)):
            if given:
                raise section.wrong(name, 'has no use without mode = "merge" or "history"')
        return None
    if kind == "parquet":
        raise section.wrong(
            "mode", f"is {mode!r}, and plain Parquet files only grow: kind must be delta or iceberg"
        )
    if not key:
        raise section.wrong("key", "is missing: a list of the columns that tell the rows apart")
    if len(set(key)) < len(key):
        raise section.wrong("key", f"names a column twice: {', '.join(key)}")
    return Changes(key, mode == "history", deleted_by)


def _iceberg(section: Section, path: Path, folder: Path) -> tuple[str, dict[str, str]]:
    """The table's name and its catalog, which is a URI or a table of properties."""
    table = section.text("table", f"default.{path.name}")
    if not re.fullmatch(r"[^.\s]+(\.[^.\s]+)+", table):
        raise section.wrong("table", f"is {table!r}: it must be namespace.name")
    if isinstance(section.peek("catalog"), dict):
        catalog = section.section("catalog").settings()
    else:
        catalog = {"uri": section.text("catalog", "sqlite:///catalog.db")}
    sqlite, _, file = catalog.get("uri", "").partition("sqlite:///")
    if file and not sqlite:
        catalog["uri"] = f"sqlite:///{folder / file}"
    return table, catalog


def _trigger(top: Section) -> dict[str, str | bool]:
    text = top.text("trigger", "availableNow")
    if text in {"availableNow", "once"}:
        return {text: True}
    top.require_unit("trigger", text)
    try:
        return {"processingTime": f"{parse_duration_ms(text)} milliseconds"}
    except OptionError:
        raise top.wrong(
            "trigger", f'is {text!r}: it must be "availableNow", "once" or a time such as "10s"'
        ) from None


def _local(section: Section, key: str, folder: Path, default: str | None = None) -> Path:
    """A path on this machine: what is renamed and synchronised must be in a file system."""
    text = section.text(key, default)
    if "\0" in text:
        raise section.wrong(key, f"is {text!r}: no path has a null character")
    if "://" in text or text.startswith("file:"):
        raise section.wrong(key, f"is {text!r}: it must be a folder of a file system, not an address")
    return Path(os.path.normpath(folder / text))  # Spark takes `..` in an address for a name

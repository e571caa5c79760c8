"""Runs a pipeline: one streaming query, started again when it fails, and watched by people and tools.

A stream that fails continues from its checkpoint, and the table takes each batch once, so a start too many
does no harm. The attempts are counted from the last batch that ended well: a pipeline that fails now and then
is started again as long as a batch ends well in between. One that would fail by its file, its table or its
records however often it is started (`Failure`) ends at once, with the reason in one line:
docs/decisions/0100.
"""

import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped, unused-ignore]
from pyspark.errors import PySparkException
from rich.console import Console
from rich.markup import escape

from barnabas.core.errors import BarnabasError
from barnabas.operations.schemas.registry import AWAY, RegistryAwayError
from barnabas.spark import sessions
from barnabas.spark.errors import Failure, OptionError, PipelineError, first_line
from barnabas.spark.follower import QueryFollower, Totals, lag_of
from barnabas.spark.kafka import KafkaCatalog, admin_client
from barnabas.spark.logs.backfill import Backfill
from barnabas.spark.pipeline.dead_letters.letterbox import LetterBox
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.formats.reader_schema import settled
from barnabas.spark.pipeline.joined import joined_tables, joins
from barnabas.spark.pipeline.many_tables import named_tables
from barnabas.spark.pipeline.many_tables.many_sinks import ManySinks
from barnabas.spark.pipeline.many_tables.routed_sink import RoutedSink, require_columns
from barnabas.spark.pipeline.many_tables.topic_tables import TopicTables, require_rules
from barnabas.spark.pipeline.reports.events import Events
from barnabas.spark.pipeline.rows import frames
from barnabas.spark.pipeline.rows.tombstones import deleted_since
from barnabas.spark.pipeline.running import rewind
from barnabas.spark.pipeline.sinks import checkpoint
from barnabas.spark.pipeline.sinks.sink import (
    BatchSink,
    Destination,
    every_row,
    failure_of,
    open_table,
    require_batches,
    table_schema,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType

_LOOK_S: Final = 0.5
"""How often the query's progress is looked at, and a request to stop."""
_BACKOFF_MAX_S: Final = 60.0
_NOT_STARTED: Final = re.compile(r"failed to connect back|CANNOT_OPEN_SOCKET|Accept timed out")
_STARTS_MAX: Final = 10
"""How many times in a row a query whose Python did not start is started again, beside ``restart.attempts``.
"""
_ANSWER_MS: Final = 5000
"""When no broker has answered for so long, people are told: the stream itself says so after a minute."""

T = TypeVar("T")
Sink: TypeAlias = BatchSink | ManySinks
"""Where the rows of a run go: into one table, into those that rows name, or into one for each topic."""


@dataclass
class RunOutcome:
    """What a run has done."""

    sink: Sink | None = None
    box: LetterBox | None = None
    records_read: int = 0
    restarts: int = 0

    @property
    def rows_written(self) -> int:
        """Rows that are in the table."""
        return self.sink.rows_written if self.sink is not None else 0

    @property
    def batches(self) -> int:
        """Those that ended well."""
        return self.sink.batches if self.sink is not None else 0

    @property
    def rows_dropped(self) -> int:
        """Rows that violate a rule whose violation is to be dropped."""
        return self.sink.tally.rows_dropped if self.sink is not None else 0

    @property
    def letters(self) -> int:
        """Records that do not fit and went to `[deadLetter]`."""
        return self.box.letters if self.box is not None else 0

    @property
    def violations(self) -> dict[str, int]:
        """How many rows have violated each rule, of those that have been."""
        found: Counter[str] = Counter()
        for one in (self.sink.tally if self.sink is not None else None, self.box):
            if one is not None:
                found.update(dict(one.violations))  # copied: Spark's thread adds to it
        return dict(found)

    def figures(self) -> dict[str, Any]:
        """All of it, for events."""
        names = ("records_read", "rows_written", "batches", "restarts", "letters", "rows_dropped")
        return {name: getattr(self, name) for name in (*names, "violations")}


@contextlib.contextmanager
def session(pipeline: Pipeline) -> Iterator["SparkSession"]:
    """The Spark session that the file asks for; what it would print goes to the pipeline's log.

    What can be known of the joined tables and the log directories is looked at before it is started: a table
    that never was there is waited for only by a run that does not end by itself. Raises PipelineError.
    """
    joins.check(pipeline, waits="processingTime" in pipeline.trigger)
    _backfilled(pipeline)
    config = dict(pipeline.spark)
    try:
        pipeline.log.parent.mkdir(parents=True, exist_ok=True)
        master = config.pop("spark.master", None)
        spark = sessions.make(pipeline.name, master=master, config=config, log_file=pipeline.log)
    except (PySparkException, Py4JError, OSError) as error:
        raise PipelineError(f"Spark does not start: {first_line(error)}{_see(pipeline)}") from error
    try:
        with _in_one_line(pipeline):
            yield spark
    finally:
        with contextlib.suppress(Py4JError, ConnectionError):  # the JVM has ended
            spark.stop()


@contextlib.contextmanager
def _in_one_line(pipeline: Pipeline) -> Iterator[None]:
    """Raises PipelineError for what Spark, its JVM and the system raise."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(f"{pipeline.name}: {failure_of(error).reason}{_see(pipeline)}") from error
    except (Py4JError, ConnectionError) as gone:
        raise _ended(pipeline) from gone
    except OSError as error:  # a checkpoint that is a file or read-only, a disk that is full
        raise PipelineError(f"{error.filename or pipeline.checkpoint}: {error.strerror or error}") from error


def check(spark: "SparkSession", pipeline: Pipeline) -> "StructType":
    """The columns that the table has once the pipeline has run. Asks no broker, and a registry only for the
    newest schema. Raises PipelineError.
    """
    pipeline = replace(pipeline, format=settled(pipeline.format, pipeline.checkpoint))
    pipeline = joins.with_types(pipeline)
    frame = frames.build(spark, pipeline).rows
    require_rules(frame, pipeline)
    rows = frame.schema
    require_columns(pipeline.sink, rows)
    for one in named_tables.known(pipeline.sink):
        table_schema(open_table(one), one, pipeline.checkpoint, rows)
    return table_schema(open_table(pipeline.sink), pipeline.sink, pipeline.checkpoint, rows)


def run(
    spark: "SparkSession", pipeline: Pipeline, console: Console, stop: threading.Event | None = None
) -> RunOutcome:
    """Runs the pipeline to its end, which with a time as its trigger is when `stop` is set.
    Raises PipelineError.
    """
    events = Events(pipeline)
    try:
        with _in_one_line(pipeline):
            outcome = _run(spark, pipeline, console, stop or threading.Event(), events)
    except PipelineError as error:
        events.emit("failed", reason=str(error))
        raise
    events.emit("ended", **outcome.figures())
    return outcome


def _run(
    spark: "SparkSession", pipeline: Pipeline, console: Console, stop: threading.Event, events: Events
) -> RunOutcome:
    with contextlib.ExitStack() as held:
        require_same = held.enter_context(checkpoint.used(pipeline.checkpoint))
        rewind.finish(pipeline)
        if pipeline.sink.route is None and not pipeline.format.by_topic:
            require_batches(pipeline.sink, pipeline.checkpoint)
        pipeline = _settled(pipeline, console, stop)
        built = frames.build(spark, pipeline)
        if not pipeline.format.by_topic:
            require_rules(built.rows, pipeline)
        joined = _joined(pipeline)
        box = held.enter_context(LetterBox(pipeline, joined)) if pipeline.letters is not None else None
        to = Destination(
            pipeline.sink,
            pipeline.checkpoint,
            built.rows.schema,
            pipeline.expectations,
            fitting=box.fitting if box is not None else _transforming(pipeline, joined),
            partitions=lambda: _partitions(pipeline),
            deleted=lambda places: deleted_since(pipeline.source_options.client, places),
            source=pipeline.source,
        )
        sink: Sink
        if pipeline.format.by_topic:
            sink = TopicTables(built.batches, pipeline, joined, box, _partitions)
        else:
            sink = RoutedSink(to) if pipeline.sink.route is not None else BatchSink(to)
        version = pipeline.format.version
        try:
            # A registry that is away is waited for, where topics have schemas of their own.
            _patiently(lambda: held.enter_context(sink), pipeline, console, stop)
        except PipelineError as error:
            if version is None:
                raise
            raise PipelineError(f"{error} (format.schema is {version})") from error
        checkpoint.mend(pipeline.checkpoint, lambda batch: _has(sink, box, batch))
        if pipeline.format.ids is not None and not pipeline.format.by_topic:
            pipeline.format.ids.prepare()
        outcome = RunOutcome(sink, box)
        columns = {one.name: one.dataType.simpleString() for one in sink.schema.fields}
        schema = None if version is None else str(version)
        events.emit("started", columns=columns, reader_schema=schema, **outcome.figures())
        watch = _Watch(spark, pipeline, console, stop, outcome, events)
        _look_for_brokers(watch)
        _look_for_logs(watch)

        def start() -> "StreamingQuery":
            require_same()
            _release(pipeline, sink, box)
            return _start(built.batches, sink, pipeline)

        _supervise(start, sink, watch)
    return outcome


def _release(pipeline: Pipeline, sink: Sink, box: LetterBox | None) -> None:
    """Has a batch that no table has rows of see the joined tables as they are now: a row of theirs, which
    somebody has mended since, may be why it has failed.
    """
    if not pipeline.joins:
        return
    batch = joined_tables.noted_batch(pipeline.checkpoint)
    try:
        kept = batch is None or _has(sink, box, batch)
    except OSError:  # the query says it
        return
    if not kept:
        joined_tables.forget_batch(pipeline.checkpoint)


def _has(sink: Sink, box: LetterBox | None, batch: int) -> bool:
    """Whether a table has rows of the batch."""
    return sink.has(batch) or (box is not None and box.has(batch))


def _patiently(ask: Callable[[], T], pipeline: Pipeline, console: Console, stop: threading.Event) -> T:
    """What `ask` gives. A registry or a joined table that is away is waited for, with a line, the longer the
    more often. Raises what is away where the run is to end.
    """
    times = 0
    while True:
        try:
            return ask()
        except (RegistryAwayError, joined_tables.TableAwayError) as away:
            _say(pipeline, console, f"waits: {away}")
            if stop.wait(_pause_s(pipeline, times)):
                raise
        times += 1


def _pause_s(pipeline: Pipeline, times: int) -> float:
    """How long a pause is behind so many others: with each it doubles."""
    return min(pipeline.backoff_ms / 1000 * 2.0 ** min(times, 30), _BACKOFF_MAX_S)


def _say(pipeline: Pipeline, console: Console, words: str) -> None:
    console.print(f"{escape(pipeline.name)}: {escape(words)}", highlight=False, soft_wrap=True)


def _settled(pipeline: Pipeline, console: Console, stop: threading.Event) -> Pipeline:
    """The pipeline with the schema that it reads by, and the columns of its joined tables. Raises
    PipelineError.
    """

    def settle() -> Pipeline:
        found = replace(pipeline, format=settled(pipeline.format, pipeline.checkpoint))
        return joins.with_types(found)

    return _patiently(settle, pipeline, console, stop)


def _joined(pipeline: Pipeline) -> "Callable[[DataFrame, int], DataFrame]":
    """What has a batch's records with the columns of joined tables, as these are when the batch begins."""
    if not pipeline.joins:
        return lambda frame, _: frame
    copies = joined_tables.Copies(pipeline.checkpoint, pipeline.joins)
    return lambda frame, batch: joins.joined(frame, pipeline, copies.of(batch))


def _transforming(
    pipeline: Pipeline, joined: "Callable[[DataFrame, int], DataFrame]"
) -> "Callable[[DataFrame, int], contextlib.AbstractContextManager[DataFrame]]":
    """The rows of a batch, where no record is a dead letter."""
    if not pipeline.joins:
        return every_row  # the query has transformed them
    return lambda frame, batch: contextlib.nullcontext(
        frames.transformed(frame.sparkSession, joined(frame, batch), pipeline)
    )


def _partitions(pipeline: Pipeline) -> int:
    """How many partitions are read."""
    with contextlib.closing(KafkaCatalog(pipeline.source_options)) as catalog:
        return len(catalog.topics(pipeline.source_options).partitions)


def _look_for_brokers(watch: "_Watch") -> None:
    """Says early that no broker answers. The stream is begun all the same: they may start in a moment."""
    try:
        with contextlib.closing(admin_client(watch.pipeline.source_options.client)) as admin:
            admin.cluster.describe(timeout_ms=_ANSWER_MS)
    except (BarnabasError, OSError) as error:
        watch.say(f"no broker has answered yet ({error}); the stream begins all the same")


def _backfilled(pipeline: Pipeline) -> set[str]:
    """The topics that log directories have records of. Raises PipelineError for one that is none."""
    options = pipeline.source_options
    try:
        return {tp.topic for tp in Backfill(options).spans()} if options.backfill else set()
    except OptionError as error:
        raise PipelineError(f"backfill.logs: {error}") from None


def _look_for_logs(watch: "_Watch") -> None:
    """Says which topics no log directory has: a directory of another broker would be no error."""
    options = watch.pipeline.source_options
    if not options.backfill:
        return
    found = _backfilled(watch.pipeline)
    lacking = {*options.topics, *(tp.topic for tp in options.assigned)} - found
    if options.pattern is not None and not found:
        lacking = {options.pattern}
    for topic in sorted(lacking):
        watch.say(
            f"no directory of backfill.logs has records of {topic}: they are read from the brokers alone"
        )


def _start(frame: "DataFrame", sink: Sink, pipeline: Pipeline) -> "StreamingQuery":
    try:
        writer = frame.writeStream.queryName(pipeline.name).trigger(**pipeline.trigger)
        return (
            writer.option("checkpointLocation", f"file://{pipeline.checkpoint}")
            .foreachBatch(sink.write)
            .start()
        )
    except (PySparkException, Py4JJavaError) as error:
        # What Spark refuses before the first batch, it refuses each time.
        raise PipelineError(f"{failure_of(error).reason}{_see(pipeline)}") from error
    except (Py4JError, ConnectionError) as gone:
        raise _ended(pipeline) from gone


def _supervise(start: "Callable[[], StreamingQuery]", sink: Sink, watch: "_Watch") -> None:
    pipeline, failed, not_started, waited, told = watch.pipeline, 0, 0, 0, ""
    while True:
        batches, sink.failure = sink.batches, None
        failure = watch.follow(start())
        if failure is None or watch.stop.is_set():
            return
        failure = sink.failure or failure
        reason = failure.reason
        if sink.batches > batches:  # it gets something done: the count begins again
            failed = not_started = waited = 0
        if _NOT_STARTED.search(reason) and not_started < _STARTS_MAX:
            # Nothing of the pipeline has run: a process of Spark was too slow on a busy machine.
            not_started += 1
            pause = _pause_s(pipeline, 0)
            watch.say(f"did not start: {reason}; start {not_started + 1} follows")
        elif AWAY in reason or joined_tables.AWAY in reason:
            # Nothing is wrong with the pipeline or its records: it waits, however long. Each start writes an
            # error of Spark's to the log, so the pauses grow here too.
            pause, waited = _pause_s(pipeline, waited), waited + 1
            watch.say(f"waits: {reason}")
        else:
            failed, not_started, waited = failed + 1, 0, 0
            # A joined table may be mended meanwhile, which the next start sees.
            is_final = failure.is_final and not pipeline.joins
            if is_final or failed > pipeline.restarts:
                tries = f"gave up after {failed - 1} restarts: " if failed > 1 and not is_final else ""
                raise PipelineError(f"{pipeline.name}: {tries}{reason}{_see(pipeline)}")
            pause = _pause_s(pipeline, failed - 1)
            # A reason may fill the screen: the same one again is not said in full.
            words = "the same again" if reason == told else reason
            told = reason
            watch.say(f"failed: {words}; restart {failed} of {pipeline.restarts} in {pause:g} s")
        if watch.stop.wait(pause):
            return
        watch.count_restart(reason)


@dataclass
class _Watch:
    """What looks at a query while it runs."""

    spark: "SparkSession"
    pipeline: Pipeline
    console: Console
    stop: threading.Event
    outcome: RunOutcome
    events: Events
    _rows: dict[str, int] = field(default_factory=dict)
    """The rows of each table, where there are many, at the last event."""

    def follow(self, query: "StreamingQuery") -> Failure | None:
        """Until the query ends or is to stop: why if it failed."""
        seen = Totals()
        with self._followed(query), self.console.status(f"{escape(self.pipeline.name)}: starting") as status:
            started = time.monotonic()
            try:
                while not self.stop.is_set() and not query.awaitTermination(_LOOK_S):
                    self._count(query, seen)
                    rate = seen.rows / (time.monotonic() - started)
                    status.update(
                        f"{escape(self.pipeline.name)}: batch {max(seen.last_batch, 0):,}, {seen.rows:,} "
                        f"records, {rate:,.0f}/s"
                    )
            except (PySparkException, Py4JError, ConnectionError) as failure:
                return Failure.of(failure)
            finally:
                self._end(query, seen)
        return None

    def _end(self, query: "StreamingQuery", seen: Totals) -> None:
        """Stops the query, in the middle of a batch too:
        the table takes it once, and the checkpoint knows where it began.
        """
        try:
            query.stop()
            self._count(query, seen)
        except (PySparkException, Py4JError, ConnectionError) as gone:
            if self.stop.is_set():
                return  # a SIGTERM to the whole group, as service managers send it, ends the JVM as well
            # Killed, or for want of memory. No start in this process can be of use.
            raise _ended(self.pipeline) from gone

    def say(self, line: str) -> None:
        """A line that stays."""
        _say(self.pipeline, self.console, line)

    def count_restart(self, reason: str) -> None:
        """The query is started again."""
        self.outcome.restarts += 1
        self.events.emit("restart", reason=reason, restarts=self.outcome.restarts)

    def _count(self, query: "StreamingQuery", seen: Totals) -> None:
        rows = seen.rows
        for progress in query.recentProgress:
            found = json.loads(progress.json)
            if seen.add(found):
                self.outcome.records_read += seen.rows - rows
                rows = seen.rows
                self.events.emit(
                    "batch",
                    batch=found["batchId"],
                    batch_records=found.get("numInputRows") or 0,
                    batch_s=found.get("durationMs", {}).get("triggerExecution", 0) / 1000,
                    records_per_s=round(found.get("processedRowsPerSecond") or 0.0, 1),
                    lag_records=lag_of(found),
                    **self.outcome.figures(),
                    **self._rows_by_table(),
                )
        self.outcome.records_read += seen.rows - rows

    def _rows_by_table(self) -> dict[str, dict[str, int]]:
        """What the tables have got since the last event, where there are many."""
        sink = self.outcome.sink
        if sink is None or isinstance(sink, BatchSink):
            return {}
        before, self._rows = self._rows, sink.rows_by_table
        new = {where: rows - before.get(where, 0) for where, rows in self._rows.items()}
        return {"tables": {where: rows for where, rows in new.items() if rows}}

    @contextlib.contextmanager
    def _followed(self, query: "StreamingQuery") -> Iterator[None]:
        """The progress is committed and shown as the file asks; that it cannot be is no reason to stop."""
        pipeline = self.pipeline
        if pipeline.group is None and pipeline.metrics_port is None:
            yield
            return
        try:
            follower = self._follower(query)
        except BaseException:
            query.stop()
            raise
        try:
            yield
        finally:
            try:
                follower.close()
            except (BarnabasError, OSError, Py4JError) as error:
                self.say(f"the progress is not committed to the group {pipeline.group}: {error}")

    def _follower(self, query: "StreamingQuery") -> QueryFollower:
        pipeline = self.pipeline
        follower = QueryFollower(query, pipeline.source_options.client, pipeline.group, self.spark)
        try:
            if pipeline.metrics_port is not None:
                follower.serve(pipeline.metrics_port)
        except OSError as error:
            follower.close()
            raise PipelineError(f"follow.metricsPort {pipeline.metrics_port}: {error.strerror}") from error
        return follower


def _ended(pipeline: Pipeline) -> PipelineError:
    return PipelineError(f"{pipeline.name}: Spark's JVM has ended{_see(pipeline)}")


def _see(pipeline: Pipeline) -> str:
    return f" (more in {pipeline.log})"

"""The sink of a streaming query: its batches become Parquet files, which a table of some kind takes once; see
`tables`.

The executors write the files; the driver hands their names to the table and sees no rows.
"""

import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped, unused-ignore]
from pyspark.sql import Observation
from pyspark.sql.types import StructType

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import Failure, PipelineError, first_line
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.many_tables import named_tables
from barnabas.spark.pipeline.rows import changes, expectations, records
from barnabas.spark.pipeline.rows.expectations import Expectation, Tally
from barnabas.spark.pipeline.rows.tombstones import Place
from barnabas.spark.pipeline.sinks.checkpoint import begun, ended, gone, query_id
from barnabas.spark.pipeline.sinks.staging import Apart, FileLayout, move, write_files
from barnabas.spark.pipeline.tables.compaction import TARGET_BYTES
from barnabas.spark.pipeline.tables.evolution import merged
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.parquet import ParquetFolder
from barnabas.spark.pipeline.tables.rewriting import Changes
from barnabas.spark.pipeline.tables.synchronise import synchronise_up
from barnabas.spark.pipeline.tables.table import OURS, Compacted, Staged, Step, Table
from barnabas.spark.pipeline.tables.unsent import NoOlderRowError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEPT: Final = "_barnabas_kept"
_NOT_WRITTEN: Final = "[TASK_WRITE_FAILED]"
_log = logging.getLogger("barnabas.spark")


def open_table(sink: Sink) -> Table:
    """The table of a kind, which nothing has looked at yet.
    Raises PipelineError where its packages are missing.
    """
    try:
        if sink.kind == "delta":
            from barnabas.spark.pipeline.tables.delta import DeltaFolder

            return DeltaFolder(sink.path, sink.address)
        if sink.kind == "iceberg":
            from barnabas.spark.pipeline.tables.iceberg import IcebergFolder

            return IcebergFolder(sink.path, sink.table, sink.catalog, sink.address)
        if sink.kind == "topic":
            from barnabas.spark.pipeline.tables.sent import SentBatches

            return SentBatches(sink.path)
    except ImportError as error:
        raise PipelineError(
            f"sink.kind: {sink.kind} needs packages that are not here ({error.name}): pip install "
            "'barnabas[lake]'"
        ) from error
    return ParquetFolder(sink.path, sink.address)


def compact(sink: Sink, target_bytes: int, step: Step, *, dry_run: bool = False) -> Compacted:
    """Makes large files of the small ones, of all tables where there are many.
    Raises PipelineError where there is none, or a pipeline runs.
    """
    # One that was only named yet, before a kill, has no table.
    tables = [table for one in named_tables.known(sink) if (table := open_table(one)).state(None) is not None]
    if not tables:
        raise PipelineError(f"{sink.where} has no table yet: run the pipeline first")
    done = []
    for each in tables:
        with each as table:
            try:
                done.append(table.compact(target_bytes, step, dry_run=dry_run))
            except OSError as error:
                raise PipelineError(f"{error.filename or table.where}: {error.strerror or error}") from error
    return sum(done[1:], done[0])


def table_schema(table: Table, sink: Sink, checkpoint: Path, rows: StructType) -> StructType:
    """The columns of the table once it takes such rows. Raises PipelineError where it cannot."""
    rows = changes.kept(rows, sink.changes, sink.layout, in_files=table.keeps_partition_columns)
    _require_mode(table, sink)
    if sink.kind == "topic":
        records.check(rows, sink.topic_key)
    state = table.state(query_id(checkpoint))
    if state is not None and state.batch is None:
        raise PipelineError(
            f"{sink.where} was written with another checkpoint: with this one its records would be read "
            "again. Use that checkpoint, or give the pipeline another path"
        )
    if state is not None and state.batch is not None and state.batch > max(begun(checkpoint), default=-1):
        raise PipelineError(
            f"{sink.where} has batch {state.batch}, which {checkpoint} has not begun, as where that was put "
            "back from an older copy: other records would be its batch, and be left out. Use the newest "
            "checkpoint, or give the pipeline another one and another path"
        )
    if state is not None and state.layout != list(sink.layout):
        raise PipelineError(
            f"{sink.where} is partitioned by {', '.join(state.layout) or 'nothing'}, "
            f"not by {', '.join(sink.layout) or 'nothing'}: give the pipeline another path"
        )
    known = StructType.fromJson(state.schema) if state is not None else None
    schema = merged(known, rows, table.growth, sink.layout)
    for one in schema.fields:
        if not table.takes(one.jsonValue()):
            raise PipelineError(
                f"column {one.name} is {one.dataType.simpleString()}, which {sink.kind} does not have: "
                "CAST it"
            )
    return schema


def require_batches(sink: Sink, checkpoint: Path) -> None:
    """Raises PipelineError where the one table of a pipeline lacks batches that the checkpoint says it has:
    the rows that come next would stand there without them.
    """
    last = max(ended(checkpoint), default=None)
    if last is None:
        return
    table = open_table(sink)
    state = table.state(query_id(checkpoint))
    if state is None:
        found = "is not there"
    elif table.has_each_batch and state.batch is not None and state.batch < last:
        found = f"ends with batch {state.batch}"
    else:
        return
    raise PipelineError(
        f"{sink.where} {found}, but {checkpoint} says that batch {last} is done: its rows would be missing. "
        "Put the table back, or give the pipeline another checkpoint and another path, and all is read again"
    )


def _require_mode(table: Table, sink: Sink) -> None:
    """Raises PipelineError where the rows of the table were told apart in another way, or not at all."""
    path = table.folder / OURS / "changes.json"
    was = read_note(path, "mode of a table")
    if was is not None and not (isinstance(was.get("mode"), str) and isinstance(was.get("key"), list)):
        raise damaged(path, "mode of a table", ValueError("it has no mode or no key"))
    if was != _mode(sink) and (was is not None or table.state(None) is not None):
        raise PipelineError(
            f"{sink.where} was written with {_words(was)}, not with {_words(_mode(sink))}: "
            "give the pipeline another path"
        )


def _mode(sink: Sink) -> dict[str, Any] | None:
    if sink.changes is None:
        return None
    return {"mode": "history" if sink.changes.history else "merge", "key": list(sink.changes.key)}


def _words(mode: dict[str, Any] | None) -> str:
    return f"mode {mode['mode']} by {', '.join(map(str, mode['key']))}" if mode else "mode append"


def _keep_mode(table: Table, sink: Sink) -> None:
    """Writes down how the rows of a new table are told apart."""
    mode, path = _mode(sink), table.folder / OURS / "changes.json"
    if mode is not None and not path.exists():
        replace_note(path, mode)
        synchronise_up(path.parent, table.folder)


def keep_offsets(checkpoint: Path, batch: int) -> None:
    """Has the batch's offsets on the disk. Were they lost with the machine, Spark would plan the batch with
    others, and the table would say of those that it has them.
    """
    offsets = checkpoint / "offsets"
    for path in (offsets / str(batch), offsets):
        synchronise(path)


def every_row(frame: "DataFrame", _batch: int) -> "AbstractContextManager[DataFrame]":
    """Where no row is a dead letter, all rows of a batch fit."""
    return nullcontext(frame)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the batches of a query go, and how."""

    sink: Sink
    checkpoint: Path
    rows: StructType
    """The columns of a batch."""
    rules: Sequence[Expectation] = ()
    fitting: "Callable[[DataFrame, int], AbstractContextManager[DataFrame]]" = every_row
    """The rows of a batch that are no dead letters, once its letters are written."""
    partitions: Callable[[], int] = lambda: 1
    """How many partitions of topics the query reads."""
    deleted: Callable[[Collection[Place]], Collection[Place]] = lambda _: ()
    """Those of the records behind which there is a tombstone of their key by now."""
    source: Mapping[str, str] = field(default_factory=dict)
    """The options of the brokers that a topic is sent to."""


class BatchSink:
    """Takes batches from ``foreachBatch``; ``with`` holds the table's lock."""

    def __init__(self, to: Destination) -> None:
        self._to = to
        self._sink = to.sink
        self._table = open_table(to.sink)
        self.schema = to.rows
        """The columns of the table, once it is open."""
        self.batches = 0
        """Those that ended well, among them at most one that the table had already."""
        self.rows_written = 0
        self.tally = Tally()
        self.failure: Failure | None = None
        """Why the last batch failed; what Spark makes of it says only that Python failed."""

    def __enter__(self) -> Self:
        self._table.__enter__()
        try:
            self.schema = table_schema(self._table, self._sink, self._to.checkpoint, self._to.rows)
            _keep_mode(self._table, self._sink)
        except BaseException:
            self._table.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._table.__exit__()

    @property
    def failure_and_table(self) -> Failure | None:
        """Why the last batch failed, with the place of the table, for a pipeline that has many."""
        failure, where = self.failure, self._sink.where
        if failure is None or where in failure.reason:
            return failure
        return replace(failure, reason=f"{where}: {failure.reason}")

    @property
    def layout(self) -> FileLayout:
        """How the files of a batch must be laid out."""
        return FileLayout(self.schema, self._sink.layout, self._table.keeps_partition_columns)

    def write(self, frame: "DataFrame", batch: int) -> None:
        """Appends a batch, unless the table has it already."""
        with self._one_batch():
            self._append(frame, batch)

    @contextmanager
    def _one_batch(self) -> Iterator[None]:
        self.failure = None
        try:
            yield
        except Exception as error:
            self.failure = failure_of(error)
            raise
        self.batches += 1

    def has(self, batch: int) -> bool:
        """Whether the table has the batch already; what an earlier start has left is finished first."""
        self._table.recover()
        return self._table.has(self._query(), batch)

    def take(self, written: Path, files: Sequence[tuple[str, int]], batch: int) -> None:
        """Appends a batch that the table does not have, of files that are written already: `write_files` has
        given them, and of changes they are kept apart by `changes.gone_apart`. They are moved.
        """
        with self._one_batch():
            rows = 0

            def stage(folder: Path) -> list[str]:
                nonlocal rows
                move(written, folder)
                rows = sum(count for _, count in files)
                return [path for path, _ in files]

            def stage_changes(folder: Path) -> Staged:
                nonlocal rows
                move(written, folder)
                staged, rows = _staged(folder, files)
                return staged

            place = self._query(), batch, self.schema.jsonValue(), self._sink.layout
            if self._sink.changes is not None:
                self._table.merge(*place, self._sink.changes, stage_changes)
            else:
                self._table.append(*place, stage)
            self.rows_written += rows
            self.tidy(batch)

    def _query(self) -> str:
        query = query_id(self._to.checkpoint)
        if query is None:
            raise gone(self._to.checkpoint)
        return query

    def _append(self, frame: "DataFrame", batch: int) -> None:
        query = self._query()
        if self.has(batch):
            # It ended after the table's commit and before the checkpoint's. The rows are computed all the
            # same: a query with state writes that state when they are.
            frame.write.format("noop").mode("overwrite").save()
            return
        keep_offsets(self._to.checkpoint, batch)
        with self._to.fitting(frame, batch) as rows:
            self._take(query, rows, batch)
        self.tidy(batch)

    def tidy(self, batch: int) -> None:
        """Merges small files where the batch is one behind which that is done."""
        every = self._sink.compact_every
        if every and (batch + 1) % every == 0:
            # The batch is in the table: a compaction that fails or is killed now takes nothing away from it.
            try:
                # One that was only named yet, before a kill, has no table.
                if self._table.state(None) is not None:
                    self._table.compact(TARGET_BYTES, lambda *_: None)
            except (PipelineError, OSError) as error:
                _log.warning("%s was not compacted: %s", self._sink.where, first_line(error))

    def _take(self, query: str, rows: "DataFrame", batch: int) -> None:
        self._seen = Observation()
        if self._to.rules:
            # A column of its own: where the rule is false of every row, whatever is in it, Spark would take
            # the filter and all below it out of the plan, and with it what counts.
            rows = rows.withColumn(_KEPT, expectations.violated(self._to.rules, "drop").isNull())
            rows = rows.observe(self._seen, *expectations.counts(self._to.rules))
            rows = rows.filter(_KEPT).drop(_KEPT)
        if self._sink.changes is not None:
            self._change(query, rows, batch, self._sink.changes)
        else:
            self._add(query, rows, batch)

    def _judge(self, batch: int) -> None:
        """Counts what the rules have said of the batch. Raises PipelineError for a row that is to end it."""
        if self._to.rules:
            expectations.require(self._to.rules, self._seen.get)
            self.tally.add(self._to.rules, self._seen.get, batch)

    def _add(self, query: str, frame: "DataFrame", batch: int) -> None:
        written = 0

        def stage(folder: Path) -> Iterator[str]:
            nonlocal written
            if self._sink.kind == "topic":
                written = self._send(frame, batch)
                return
            for path, rows in self._stage(frame, folder):
                written += rows
                yield path
            self._judge(batch)

        self._table.append(query, batch, self.schema.jsonValue(), self._sink.layout, stage)
        self.rows_written += written

    def _send(self, frame: "DataFrame", batch: int) -> int:
        """Sends the rows to the topic; how many."""
        from pyspark.sql import functions as sql

        if any(one.violation == "fail" for one in self._to.rules):
            # What was sent cannot be taken back: the batch is looked at first.
            frame.write.format("noop").mode("overwrite").save()
            self._judge(batch)
        seen = Observation()
        made = records.records(frame, self._sink.topic_key).observe(seen, sql.count(sql.lit(1)).alias("rows"))
        records.send(made, self._to.source, self._sink.topic)
        if not any(one.violation == "fail" for one in self._to.rules):
            self._judge(batch)
        return int(seen.get["rows"])

    def _change(self, query: str, frame: "DataFrame", batch: int, how: Changes) -> None:
        """Has the newest rows of the batch take the place of those with their keys."""
        try:
            self._merge(query, frame, batch, how)
        except NoOlderRowError:
            # Connect may have sent changes again behind the deletes of their rows: where a delete comes again
            # too, what came before it does not last.
            place = [f"{changes.CHANGE}.{name}" for name in ("topic", "partition", "offset")]
            lacking = frame.filter(f"{changes.CHANGE}.unsent").select(*place).collect()
            deleted = self._to.deleted([(one[0], one[1], one[2]) for one in lacking])
            if not deleted:
                raise
            self._merge(query, changes.without(frame, deleted), batch, how)

    def _merge(self, query: str, frame: "DataFrame", batch: int, how: Changes) -> None:
        written = 0
        seen = Observation()
        apart = [changes.gone_apart()]

        def stage(folder: Path) -> Staged:
            nonlocal written
            rows = changes.ordered(frame.observe(seen, *changes.without_key(frame, how)), how)
            files = list(self._stage(rows, folder, apart))
            changes.require_keys(seen.get, how)
            self._judge(batch)
            truncates: list[changes.Truncate] = []
            if seen.get["truncates"]:
                # They are rare: the batch is written again without what they have emptied.
                self._require_one_partition()
                truncates = changes.truncates_of(frame)
                shutil.rmtree(folder)
                files = list(self._stage(changes.ordered(frame, how, truncates), folder, apart))
            staged, written = _staged(folder, files)
            return replace(staged, truncated=truncates[0].time if truncates else None)

        self._table.merge(query, batch, self.schema.jsonValue(), self._sink.layout, how, stage)
        self.rows_written += written

    def _require_one_partition(self) -> None:
        """Raises PipelineError where a truncate may have come before or behind rows of other partitions."""
        count = self._to.partitions()
        if count != 1:
            raise PipelineError(
                f"a TRUNCATE in one of {count} partitions: which rows of the others it has emptied is not "
                "known. Give the topic one partition, or leave truncates out by skipped.operations = t of "
                "the connector"
            )

    def _stage(
        self, frame: "DataFrame", folder: Path, apart: Sequence[Apart] = ()
    ) -> Iterator[tuple[str, int]]:
        """Writes the files; those with rows, and how many."""
        return write_files(frame, folder, self.layout, apart)


def _staged(folder: Path, files: Sequence[tuple[str, int]]) -> tuple[Staged, int]:
    """The files of a batch of changes by what they are to the table, and how many rows it gets."""
    kept, gone, unsent = (f"{changes.GONE}={number}/" for number in (0, 1, changes.UNSENT))
    if (folder / kept).exists():
        # Without the folder that kept them apart: the table's files are as those of an append.
        for each in (folder / kept).iterdir():
            each.rename(folder / each.name)
    staged = Staged(
        [path.removeprefix(kept) for path, _ in files if path.startswith(kept)],
        [path for path, _ in files if path.startswith(gone)],
        [path for path, _ in files if path.startswith(unsent)],
    )
    return staged, sum(rows for path, rows in files if path.startswith((kept, unsent)))


def failure_of(error: BaseException) -> Failure:
    """What went wrong. Of the JVM's errors the innermost with a name of Spark's says most."""
    if not isinstance(error, Py4JJavaError):
        return Failure.of(error)
    messages, java = [], error.java_exception
    while java is not None:
        messages.append(java.getMessage() or java.toString())
        java = java.getCause()
    named = [message for message in messages if message.startswith("[")]
    found = Failure.of(RuntimeError((named or messages)[-1]))
    if found.reason.startswith(_NOT_WRITTEN) and messages[-1] != named[-1]:
        # Which file could not be written says less than why: a full disk, a folder that is read-only.
        return replace(found, reason=f"{found.reason}: {first_line(RuntimeError(messages[-1]))}")
    return found

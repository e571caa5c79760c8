"""Sorts the records of each batch: letters to where they go, the others to the table."""

from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import types as spark

from barnabas.spark.pipeline.dead_letters.letters import REASON, RECORD, STAGES, as_records, judge, letters
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.many_tables.routed_sink import unnamed
from barnabas.spark.pipeline.rows import changes, expectations, frames, records
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import Column, DataFrame

_SCHEMA: Final = spark.StructType([
    spark.StructField("topic", spark.StringType()), spark.StructField("partition", spark.IntegerType()),
    spark.StructField("offset", spark.LongType()), spark.StructField("timestamp", spark.TimestampType()),
    spark.StructField("key", spark.BinaryType()), spark.StructField("value", spark.BinaryType()),
    spark.StructField("headers", spark.ArrayType(spark.StructType([
        spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType()),
    ]))),
    spark.StructField("stage", spark.StringType()), spark.StructField("reason", spark.StringType()),
])  # fmt: skip


_VIOLATES: Final = "it violates the rule "


class LetterBox:
    """The dead letters of a pipeline; ``with`` holds the lock of their table."""

    def __init__(self, pipeline: Pipeline, joined: "Callable[[DataFrame, int], DataFrame]") -> None:
        """`joined` has a batch's records with the columns of joined tables."""
        assert pipeline.letters is not None
        self._pipeline = pipeline
        self._joined = joined
        self._limits = pipeline.letters
        self._open = ExitStack()
        self._table: BatchSink | None = None
        self.letters = 0
        """Those that were written; of a batch that came again, as many as it had the last time."""
        self.violations: Counter[str] = Counter()
        """How many of them have violated each rule."""
        self._newest: tuple[int, int, dict[str, int]] = (-1, 0, {})
        """The newest batch, and what it has added to both."""

    def __enter__(self) -> Self:
        if self._limits.table is not None:
            to = Destination(self._limits.table, self._pipeline.checkpoint, _SCHEMA)
            self._table = self._open.enter_context(BatchSink(to))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def has(self, batch: int) -> bool:
        """Whether the table of letters has those of the batch already; a topic may get them again."""
        return self._table is not None and self._table.has(batch)

    @contextmanager
    def fitting(self, frame: "DataFrame", batch: int) -> "Iterator[DataFrame]":
        """The rows of a batch of records, once its letters are written.
        Raises PipelineError for a batch with too many of them.
        """
        frame.persist()
        try:
            bad, rows = self.parted(frame, batch, self._pipeline)
            self.put(bad, frame.count(), batch)
            yield rows
        finally:
            frame.unpersist()

    def parted(self, frame: "DataFrame", batch: int, pipeline: Pipeline) -> "tuple[DataFrame, DataFrame]":
        """The letters of a batch of records, and its rows. `pipeline` is this one, or that of one topic."""
        from pyspark.sql import functions as sql

        bad = letters(frame.filter(f"{REASON} IS NOT NULL"), STAGES[0], sql.col(REASON))
        fitting = frame.filter(f"{REASON} IS NULL").drop(REASON)
        rows = frames.transformed(frame.sparkSession, self._joined(fitting, batch), pipeline)
        if RECORD in rows.columns:
            rows = frames.at_one_time(rows.withColumn(REASON, self._reason(rows)))
            bad = bad.unionByName(letters(rows.filter(f"{REASON} IS NOT NULL"), STAGES[1], sql.col(REASON)))
            rows = rows.filter(f"{REASON} IS NULL").drop(REASON)
        return bad, rows

    def _reason(self, rows: "DataFrame") -> "Column":
        """Why a row is a letter, null where it is none."""
        from pyspark.sql import functions as sql

        rules, by_topic = self._pipeline.expectations, self._pipeline.format.by_topic
        rule = expectations.violated(rules, "deadLetter")
        violates = sql.when(rule.isNotNull(), sql.concat(sql.lit(_VIOLATES), rule))
        reason, route, how = violates, self._pipeline.sink.route, self._pipeline.sink.changes
        if route is not None and not by_topic:
            words = sql.lit(f"it names no table by {', '.join(route.columns)}")
            reason = sql.when(unnamed(route), words).otherwise(reason)
        if how is not None:
            words = sql.lit(f"it has null in the key ({', '.join(how.key)})")
            reason = sql.when(changes.lacks_key(rows, how), words).otherwise(reason)
        # A row that is dropped need not have a table or a key.
        is_dropped = expectations.violated(rules, "drop").isNotNull()
        return sql.when(is_dropped, violates).otherwise(reason)

    def put(self, bad: "DataFrame", count: int, batch: int) -> None:
        """Writes the letters of a batch of so many records. Raises PipelineError for too many."""
        found, by_rule = self._counted(bad)
        if found:
            one = bad.first()
            which = f"{one.topic}-{one.partition} offset {one.offset}: {one.reason}"
            judge(found, count, self._limits, which)
            if self._table is not None:
                self._table.write(bad, batch)
            else:
                rows = as_records(bad, self._pipeline.name)
                records.send(rows, self._pipeline.source, self._limits.topic)
        self._add(batch, found, by_rule)

    def _add(self, batch: int, found: int, by_rule: dict[str, int]) -> None:
        """Counts the letters of a batch, in place of those that an earlier try of it has had."""
        before, had, had_by_rule = self._newest
        if before != batch:
            had, had_by_rule = 0, {}
        self.letters += found - had
        self.violations += Counter(by_rule)
        self.violations -= Counter(had_by_rule)
        self._newest = batch, found, by_rule

    def _counted(self, bad: "DataFrame") -> tuple[int, dict[str, int]]:
        """How many letters there are, and how many of them by each rule."""
        from pyspark.sql import functions as sql

        rules = [one.rule for one in self._pipeline.expectations if one.violation == "deadLetter"]
        each = [sql.count(sql.when(sql.col("reason") == f"{_VIOLATES}{rule}", sql.lit(1))) for rule in rules]
        found, *counts = bad.agg(sql.count(sql.lit(1)), *each).collect()[0]
        return found, {rule: count for rule, count in zip(rules, counts, strict=True) if count}

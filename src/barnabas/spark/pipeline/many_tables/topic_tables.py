"""Many topics, each with its own schema and its own table; `routes` has tables that rows name.

Theory of operation
-------------------
One query reads all topics, and hands over records as they came. Each batch is parted by topic, and of each
topic it is as if there were a pipeline of its own: `of_topic` has the file's words with the topic's schema
and the one table that ``{topic}`` in ``sink.path`` names. So the columns of one table say nothing of another
one's, and grow by themselves.

A topic is begun when its first record comes, or when the run begins if it has a table by then: its newest
schema is asked for, the columns of its rows are made out, and its table is opened and written into the note
(`named_tables`). All of a batch is decoded and judged before the first table gets rows. Then each topic's
table takes its part under the batch's id, so a batch that comes again, behind a kill between two of them, is
passed over by those that have it.

A registry that is away holds the batch, as ever. A topic that the registry has no subject of, or the file no
schema, ends the query with a line.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql.types import StructType

from barnabas.spark.errors import PipelineError
from barnabas.spark.kafka import KafkaCatalog
from barnabas.spark.options import source_options
from barnabas.spark.pipeline.dead_letters.letterbox import LetterBox
from barnabas.spark.pipeline.dead_letters.letters import RECORD
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.formats.reader_schema import keep, settled
from barnabas.spark.pipeline.many_tables import named_tables, routes
from barnabas.spark.pipeline.many_tables.routed_sink import may_name_a_table, too_many
from barnabas.spark.pipeline.rows import expectations, frames
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination, open_table, reason_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHOICES: Final = frozenset({"subscribe", "subscribepattern", "assign"})


def of_topic(pipeline: Pipeline, topic: str) -> Pipeline:
    """The pipeline of one topic, whose newest schema is not asked for yet. Raises PipelineError for a topic
    that names no table or has no schema.
    """
    route = pipeline.sink.route
    assert route is not None
    if not routes.is_name(topic, route):
        raise PipelineError(f"the topic {topic} names no table: {may_name_a_table(route)}")
    source = {
        name: value
        for name, value in pipeline.source.items()
        # Offsets of single partitions are of other topics too.
        if name.lower() not in _CHOICES
        and not (name.lower().startswith("starting") and value.lstrip().startswith("{"))
    }
    source["subscribe"] = topic
    return replace(
        pipeline,
        format=pipeline.format.of_topic(topic),
        sink=pipeline.sink.of([topic]),
        source=source,
        source_options=source_options(source, streaming=True, quiet=True),
    )


def each(pipeline: Pipeline, *, ask: bool) -> list[tuple[str, Pipeline]]:
    """The pipelines of the topics where each has its own schema, else this one, without a name. Which topics
    there are is asked of the brokers, or of the file and of the tables that there are. Raises PipelineError
    where no topic is known.
    """
    if not pipeline.format.by_topic:
        return [("", pipeline)]
    options, route = pipeline.source_options, pipeline.sink.route
    assert route is not None
    if ask:
        with closing(KafkaCatalog(options)) as catalog:
            topics = {tp.topic for tp in catalog.topics(options).partitions}
    else:
        topics = {*pipeline.format.topics, *options.topics, *(tp.topic for tp in options.assigned)}
        topics |= {values[0] for values in named_tables.values_of(pipeline.sink, route)}
    if not topics:
        where = (
            "the brokers have no topic"
            if ask
            else "no topic is known without brokers, which `check` asks not"
        )
        raise PipelineError(f"{where} that source.subscribePattern names")
    return [(topic, of_topic(pipeline, topic)) for topic in sorted(topics)]


@dataclass(frozen=True, slots=True)
class _BegunTopic:
    """One that has begun."""

    pipeline: Pipeline
    table: BatchSink


class TopicTables:
    """Takes batches of records from ``foreachBatch``, as `BatchSink` takes rows; ``with`` holds the locks."""

    def __init__(
        self,
        records: "DataFrame",
        pipeline: Pipeline,
        joined: "Callable[[DataFrame, int], DataFrame]",
        box: LetterBox | None,
        partitions: Callable[[Pipeline], int],
    ) -> None:
        """`records` are those that the query reads; `partitions` says how many a topic has."""
        self._spark: SparkSession = records.sparkSession
        self._columns: StructType = records.schema
        self._pipeline, self._joined, self._box = pipeline, joined, box
        self._partitions = partitions
        self._topics: dict[str, _BegunTopic] = {}
        self._open = ExitStack()
        self.batches = 0
        """Those that ended well."""
        self.schema = StructType()
        """No columns: each table has its own."""
        self.tally = expectations.Tally()
        self.failure: str | None = None
        """Why the last batch failed, in one line."""

    @property
    def rows_written(self) -> int:
        """In all tables."""
        return sum(one.table.rows_written for one in self._topics.values())

    @property
    def rows_by_table(self) -> dict[str, int]:
        """The same of each table, by its place. Any thread may ask."""
        return {one.pipeline.sink.where: one.table.rows_written for one in [*self._topics.values()]}

    def __enter__(self) -> Self:
        sink = self._pipeline.sink
        assert sink.route is not None
        with ExitStack() as held:
            held.enter_context(open_table(sink))  # keeps a second run out while there are no tables
            for (topic,) in named_tables.values_of(sink, sink.route):
                self._topics[topic] = self._begun(topic, held)
            self._open = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def has(self, batch: int) -> bool:
        """Whether the table of a topic has its rows of the batch already."""
        return any(one.table.has(batch) for one in self._topics.values())

    def write(self, frame: "DataFrame", batch: int) -> None:
        """Appends the rows of a batch to the tables of their topics, unless these have it already."""
        self.failure = None
        frame.persist()  # each topic takes its part of it
        try:
            with ExitStack() as held:
                self._take(frame, batch, held)
        except Exception as error:
            self.failure = self.failure or reason_of(error)
            raise
        finally:
            frame.unpersist()
        self.batches += 1

    def _take(self, frame: "DataFrame", batch: int, held: ExitStack) -> None:
        found = sorted(str(one.topic) for one in frame.select("topic").distinct().collect())
        for topic in found:
            self._require(topic)
        parts: dict[str, DataFrame] = {}
        bad: list[DataFrame] = []
        said: Counter[str] = Counter()
        """What the rules say of the rows of all topics."""
        for topic in found:
            records = frames.read(
                frame.filter(frame["topic"] == topic), self._topics[topic].pipeline
            ).persist()
            held.callback(records.unpersist)
            rows, letters = self._parted(records, batch, self._topics[topic].pipeline)
            bad += letters
            parts[topic], counts = expectations.kept(rows, self._pipeline.expectations)
            said.update(counts)
        if self._box is not None and bad:
            self._box.put(reduce(lambda one, other: one.unionByName(other), bad), frame.count(), batch)
        for topic, rows in parts.items():
            table = self._topics[topic].table
            try:
                table.write(rows, batch)
            except Exception:
                self.failure = table.failure_and_table
                raise
        for topic in self._topics.keys() - set(found):
            self._topics[topic].table.tidy(batch)
        self.tally.add(self._pipeline.expectations, said, batch)

    def _parted(
        self, records: "DataFrame", batch: int, pipeline: Pipeline
    ) -> "tuple[DataFrame, Sequence[DataFrame]]":
        """The rows of a topic's records, and its letters."""
        if self._box is not None:
            letters, rows = self._box.parted(records, batch, pipeline)
            return rows, [letters]
        return frames.transformed(records.sparkSession, self._joined(records, batch), pipeline), ()

    def _require(self, topic: str) -> None:
        """Begins a topic of which the records are the first."""
        sink = self._pipeline.sink
        assert sink.route is not None
        if topic in self._topics:
            return
        if len(self._topics) == routes.TABLES_MAX:
            raise PipelineError(too_many(sink.route))
        with ExitStack() as held:
            begun = self._begun(topic, held)
            # Behind it: a table that is refused is refused now, and not at each start from now on.
            names = [(name,) for name in (*self._topics, topic)]
            named_tables.remember(sink, sink.route, names)
            self._open.enter_context(held.pop_all())
        self._topics[topic] = begun

    def _begun(self, topic: str, held: ExitStack) -> _BegunTopic:
        one = of_topic(self._pipeline, topic)
        one = replace(one, format=settled(one.format, one.checkpoint))
        none = self._spark.createDataFrame([], self._columns)
        try:
            rows = checked(self._spark, none, one)
            to = Destination(one.sink, one.checkpoint, rows, partitions=lambda: self._partitions(one))
            table = held.enter_context(BatchSink(to))
        except PipelineError as error:
            by = f" (format.schema is {one.format.version})" if one.format.version is not None else ""
            raise PipelineError(f"of the topic {topic}: {error}{by}") from error
        keep(one.format, one.checkpoint)
        for form in (one.format, one.format.key):
            if form is not None and form.ids is not None:
                form.ids.prepare()
        return _BegunTopic(one, table)


def checked(spark: "SparkSession", records: "DataFrame", pipeline: Pipeline) -> "StructType":
    """The columns of the rows that a topic's records become. Raises PipelineError."""
    rows = frames.rows_of(spark, frames.read(records, pipeline), pipeline)
    frames.require_each_by_itself(rows, pipeline)
    require_rules(rows, pipeline)
    return rows.schema


def require_rules(rows: "DataFrame", pipeline: Pipeline) -> None:
    """Raises PipelineError for rules that are none of these rows, or cannot make letters of them."""
    expectations.check(rows, pipeline.expectations)
    violations = {one.violation for one in pipeline.expectations}
    if "deadLetter" in violations and RECORD not in rows.columns:
        raise PipelineError(f"expect: the transformation must hand on the column {RECORD} as it is")

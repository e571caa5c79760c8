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
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from barnabas.spark.errors import PipelineError
from barnabas.spark.kafka import KafkaCatalog
from barnabas.spark.options import source_options
from barnabas.spark.pipeline.dead_letters.letterbox import LetterBox
from barnabas.spark.pipeline.dead_letters.letters import RECORD
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.formats.reader_schema import keep, settled
from barnabas.spark.pipeline.many_tables import named_tables, routes
from barnabas.spark.pipeline.many_tables.many_sinks import ManySinks, Values
from barnabas.spark.pipeline.many_tables.routed_sink import may_name_a_table
from barnabas.spark.pipeline.rows import expectations, frames
from barnabas.spark.pipeline.rows.tombstones import deleted_since
from barnabas.spark.pipeline.sinks.sink import BatchSink, Destination

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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


class TopicTables(ManySinks):
    """Of records, of which each topic has a table."""

    def __init__(
        self,
        records: "DataFrame",
        pipeline: Pipeline,
        joined: "Callable[[DataFrame, int], DataFrame]",
        box: LetterBox | None,
        partitions: Callable[[Pipeline], int],
    ) -> None:
        """`records` are those that the query reads; `partitions` says how many a topic has."""
        super().__init__(pipeline.sink)
        self._spark: SparkSession = records.sparkSession
        self._columns: StructType = records.schema
        self._pipeline, self._joined, self._box = pipeline, joined, box
        self._partitions = partitions
        self._pipelines: dict[str, Pipeline] = {}
        """Those of the topics that have begun."""

    def _take(self, frame: "DataFrame", batch: int) -> None:
        with ExitStack() as held:
            frame.persist()  # each topic takes its part of it
            held.callback(frame.unpersist)
            self._share(frame, batch, held)

    def _share(self, frame: "DataFrame", batch: int, held: ExitStack) -> None:
        found = sorted(str(one.topic) for one in frame.select("topic").distinct().collect())
        self._require([(topic,) for topic in found])
        parts: dict[Values, DataFrame] = {}
        bad: list[DataFrame] = []
        said: Counter[str] = Counter()
        """What the rules say of the rows of all topics."""
        for topic in found:
            pipeline = self._pipelines[topic]
            records = frames.read(frame.filter(frame["topic"] == topic), pipeline).persist()
            held.callback(records.unpersist)
            rows, letters = self._parted(records, batch, pipeline)
            bad += letters
            parts[topic,], counts = expectations.kept(rows, self._pipeline.expectations)
            said.update(counts)
        if self._box is not None and bad:
            self._box.put(reduce(lambda one, other: one.unionByName(other), bad), frame.count(), batch)
        for values, rows in parts.items():
            with self._at(values) as table:
                table.write(rows, batch)
        self._tidy_others(parts, batch)
        self.tally.add(self._pipeline.expectations, said, batch)

    def _parted(
        self, records: "DataFrame", batch: int, pipeline: Pipeline
    ) -> "tuple[DataFrame, Sequence[DataFrame]]":
        """The rows of a topic's records, and its letters."""
        if self._box is not None:
            letters, rows = self._box.parted(records, batch, pipeline)
            return rows, [letters]
        return frames.transformed(records.sparkSession, self._joined(records, batch), pipeline), ()

    def _begin(self, values: Values, held: ExitStack) -> BatchSink:
        (topic,) = values
        one = of_topic(self._pipeline, topic)
        one = replace(one, format=settled(one.format, one.checkpoint))
        none = self._spark.createDataFrame([], self._columns)
        try:
            rows = checked(self._spark, none, one)
            to = Destination(
                one.sink,
                one.checkpoint,
                rows,
                partitions=lambda: self._partitions(one),
                deleted=lambda places: deleted_since(one.source_options.client, places),
            )
            table = held.enter_context(BatchSink(to))
        except PipelineError as error:
            by = f" (format.schema is {one.format.version})" if one.format.version is not None else ""
            raise type(error)(f"of the topic {topic}: {error}{by}") from error
        keep(one.format, one.checkpoint)
        for form in (one.format, one.format.key):
            if form is not None and form.ids is not None:
                form.ids.prepare()
        self._pipelines[topic] = one
        return table


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

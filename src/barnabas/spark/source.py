"""The data source ``barnabas`` as Spark sees it: thin wrappers around planning and fetching.

A reader's driver half lives in one Python process beside the JVM for as long as the query; its `read` runs
in worker processes, where it is unpickled. So connections are opened where they are first needed and never
travel.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.spark.errors import OptionError, in_one_line
from barnabas.spark.offsets import UNRESOLVED, StreamOffset, TopicIds, to_nested
from barnabas.spark.options import SourceOptions, check_reading, sink_options, source_options
from barnabas.spark.planner import Planner
from barnabas.spark.ranges import OffsetRange, Packing, plan_tasks
from barnabas.spark.stream import TopicStream
from barnabas.spark.tables import TableSource

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.spark.kafka import KafkaCatalog
    from barnabas.spark.logs.backfill import BackfilledCatalog, LogPart
    from barnabas.spark.sink import BatchTopicWriter, StreamTopicWriter

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
SCHEMA_WITH_HEADERS: Final = StructType([*SCHEMA.fields, StructField("headers", ArrayType(_HEADER))])


@dataclass
class TopicTask(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    ranges: list[OffsetRange]
    topic_ids: TopicIds = field(default_factory=dict)
    """Of the topics that the ranges were planned for."""
    parts: "list[LogPart]" = field(default_factory=list)
    """Of log directories (``backfillLogs``)."""


class TopicSource(TableSource):
    """Topics, read and written, in batches and as streams."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``; "kafka" itself is reserved by Spark."""
        return "barnabas"

    def schema(self) -> StructType:
        """The columns; with ``includeHeaders`` one more.
        Spark asks for them at ``load()``: so wrong options show there.
        """
        with in_one_line():
            return self.noted(
                SCHEMA_WITH_HEADERS if check_reading(self.given(), of_table=self.is_made) else SCHEMA
            )

    def reader(self, schema: StructType) -> "BatchTopicReader":
        """A batch read."""
        self.take_options(schema)
        with in_one_line():
            self._check_schema(schema)
            return BatchTopicReader(source_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> "StreamTopicReader":  # noqa: N802
        """A streaming read."""
        self.take_options(schema)
        try:
            with in_one_line():
                self._check_schema(schema)
                return StreamTopicReader(source_options(self.options, streaming=True))
        except OptionError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchTopicWriter":
        """A batch write."""
        from barnabas.spark.sink import BatchTopicWriter

        self.take_options(schema)
        with in_one_line():
            if overwrite:
                raise OptionError("Save mode Overwrite not allowed for Kafka. Allowed save modes are Append")
            return BatchTopicWriter(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamTopicWriter":  # noqa: ARG002, N802
        """A streaming write. In output mode complete Spark wants to overwrite; a topic takes the rows all the
        same, behind those of the batch before, as with the official connector.
        """
        from barnabas.spark.sink import StreamTopicWriter

        self.take_options(schema)
        with in_one_line():
            return StreamTopicWriter(sink_options(self.options), schema)

    def _check_schema(self, schema: StructType) -> None:
        if schema.simpleString() != self.schema().simpleString():
            raise OptionError("Kafka source has a fixed schema and cannot be set with a custom one")


class _TopicReader:
    """What batch and stream share: the options, a catalog opened on first use, and reading in a worker."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._opened: KafkaCatalog | None = None
        self._backfilled: BackfilledCatalog | None = None

    def __getstate__(self) -> SourceOptions:
        return self._options

    def __setstate__(self, options: SourceOptions) -> None:
        self._options = options
        self._opened = None
        self._backfilled = None

    def _planner(self) -> Planner:
        from barnabas.spark.kafka import KafkaCatalog

        if self._opened is None:
            self._opened = KafkaCatalog(self._options)
        if not self._options.backfill:
            return Planner(self._options, self._opened)
        from barnabas.spark.logs.backfill import Backfill, BackfilledCatalog

        if self._backfilled is None:
            self._backfilled = BackfilledCatalog(self._opened, Backfill(self._options))
        return Planner(self._options, self._backfilled)

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _tasks(self, ranges: Sequence[OffsetRange]) -> list[TopicTask]:
        packing = Packing(
            self._options.tasks_per_batch,
            self._options.min_partitions,
            self._options.max_records_per_partition,
        )
        ids = self._opened.topic_ids if self._opened is not None else {}
        parts: list[LogPart] = []
        gaps: list[OffsetRange] = []
        if self._backfilled is not None:
            parts, gaps, ranges = self._backfilled.split(ranges)
        from_logs = [TopicTask([], {}, [part]) for part in parts]
        # A task reads at most one range of a partition, and each gap may be of the same one.
        from_brokers = [[gap] for gap in gaps if gap.size] + plan_tasks(ranges, packing)
        return from_logs + [
            TopicTask(task, {piece.tp.topic: ids[piece.tp.topic] for piece in task if piece.tp.topic in ids})
            for task in from_brokers
        ]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task; runs in a worker."""
        from barnabas.spark.kafka import shared_fetcher
        from barnabas.spark.reading import read_ranges

        assert isinstance(partition, TopicTask)
        with in_one_line():
            if partition.parts:
                from barnabas.spark.logs.backfill import read_parts

                yield from read_parts(partition.parts, self._options)
                return
            fetcher = shared_fetcher(self._options.client)
            yield from read_ranges(partition.ranges, fetcher, self._options, partition.topic_ids)


class BatchTopicReader(_TopicReader, DataSourceReader):  # type: ignore[misc]
    """One batch read."""

    def partitions(self) -> list[TopicTask]:
        """What the tasks read; one empty task where there is nothing, as Spark asks for at least one."""
        try:
            with in_one_line():
                tasks = self._tasks(self._planner().batch_ranges())
        finally:
            self._close()
        return tasks or [TopicTask([])]


class StreamTopicReader(_TopicReader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """One streaming read; see `TopicStream` for its rules."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._stream: TopicStream | None = None

    def __setstate__(self, options: SourceOptions) -> None:
        super().__setstate__(options)
        self._stream = None

    def _topics(self) -> TopicStream:
        if self._stream is None:
            self._stream = TopicStream(self._options, self._planner(), lambda: time.monotonic() * 1000)
        return self._stream

    def initialOffset(self) -> StreamOffset:  # noqa: N802
        """The same for every query; what it means is settled when the first batch is planned."""
        return UNRESOLVED

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """``maxOffsetsPerTrigger``."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:  # noqa: N802
        """The end of the next batch."""
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with in_one_line():
            return self._topics().next_end(start, rows)

    def reportLatestOffset(self) -> StreamOffset:  # noqa: N802
        """The end of the topics, for the query's progress."""
        return to_nested(self._topics().latest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remembers the end of the topics as the goal of the query."""
        with in_one_line():
            self._topics().stop_at_latest()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[TopicTask]:
        """What the tasks of the batch between two offsets read."""
        with in_one_line():
            return self._tasks(self._topics().ranges(dict(start), dict(end)))

    def commit(self, end: Mapping[str, Any]) -> None:
        """Nothing: the checkpoint is the truth. Spark never calls this for the last batch anyway."""

    def stop(self) -> None:
        """Closes the connections."""
        self._close()


class RefusedStream(StreamTopicReader):
    """A streaming read with wrong options, which says so at the first question.

    PySpark 4.2 stops a reader also where there is none because making it has failed, and of the two errors
    shows that one.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> StreamOffset:  # noqa: N802
        """Raises OptionError."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Raises OptionError."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Raises OptionError."""
        raise self._error

    def stop(self) -> None:
        """Nothing was opened."""

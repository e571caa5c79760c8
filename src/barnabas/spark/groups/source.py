"""The data sources ``barnabas-offsets`` and ``barnabas-lag`` as Spark sees them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.operations.group_lag import Standing
from barnabas.spark.errors import in_one_line
from barnabas.spark.groups.lag import lag_rows, one_record_at_a_time, standings
from barnabas.spark.groups.options import GroupOptions, group_options, of_offsets_topic
from barnabas.spark.logs.segments import find_segments
from barnabas.spark.logs.source import LogReader
from barnabas.spark.ranges import pack
from barnabas.spark.source import BatchTopicReader
from barnabas.spark.tables import TableSource

if TYPE_CHECKING:
    import pyarrow as pa

LOOKUPS_PER_TASK: Final = 500
TASKS_MAX: Final = 16
"""Of a history: each task reads ``__consumer_offsets`` of its own accord."""
_COMMITS: Final = (
    "group string, topic string, partition int, offset bigint, leaderEpoch int, metadata string, "
    "commitTimestamp timestamp, expireTimestamp timestamp, recordPartition int, recordOffset bigint, "
    "recordTimestamp timestamp"
)
_LAG: Final = (
    "group string, topic string, partition int, committedOffset bigint, logStartOffset bigint, logEndOffset "
    "bigint, lag bigint, lagSeconds double, lost bigint, nextTimestamp timestamp, newestTimestamp "
    "timestamp, secondsToDataLoss double"
)
_HISTORY: Final = (
    "group string, topic string, partition int, commitTimestamp timestamp, committedOffset bigint, "
    "logEndOffset bigint, lag bigint, lagSeconds double, rewound bigint, secondsSinceCommit double"
)


class OffsetsSource(TableSource):
    """What groups have committed: the records of ``__consumer_offsets``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "barnabas-offsets"

    def schema(self) -> StructType:
        """The columns."""
        with in_one_line():
            group_options(self.given(), self.name(), of_table=self.is_made)
        return self.noted(_COMMITS)

    def reader(self, schema: StructType) -> "OffsetsReader":
        """A batch read."""
        self.take_options(schema)
        return OffsetsReader(group_options(self.options, self.name()))


class OffsetsReader(DataSourceReader):  # type: ignore[misc]
    """Reads the topic as its own sources do, and makes commits of its records."""

    def __init__(self, options: GroupOptions) -> None:
        self._options = options
        self._records: LogReader | BatchTopicReader
        if options.logs is not None:
            self._records = LogReader(of_offsets_topic(options.logs))
        else:
            assert options.brokers is not None
            self._records = BatchTopicReader(options.brokers)

    def partitions(self) -> list[InputPartition]:
        """Those of the records."""
        return list(self._records.partitions())

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The commits of one task; runs in a worker."""
        from barnabas.spark.groups.commits import commit_rows

        for records in self._records.read(partition):
            yield commit_rows(records, self._options)


class LagSource(TableSource):
    """The lag of groups: of brokers now, of log directories at each commit."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "barnabas-lag"

    def schema(self) -> StructType:
        """The columns."""
        with in_one_line():
            options = group_options(self.given(), self.name(), of_table=self.is_made)
        return self.noted(_LAG if options.logs is None else _HISTORY)

    def reader(self, schema: StructType) -> "LagReader | HistoryReader":
        """A batch read."""
        self.take_options(schema)
        options = group_options(self.options, self.name())
        return LagReader(options) if options.logs is None else HistoryReader(options)


@dataclass
class LagTask(InputPartition):  # type: ignore[misc]
    """What one task looks up."""

    standings: list[Standing]


class LagReader(DataSourceReader):  # type: ignore[misc]
    """The lag now."""

    def __init__(self, options: GroupOptions) -> None:
        self._options = options

    def partitions(self) -> list[LagTask]:
        """What the tasks look up; what groups have in one partition stays together."""
        from barnabas.spark.kafka import admin_client

        assert self._options.brokers is not None
        with in_one_line(), admin_client(self._options.brokers.client) as admin:
            found = standings(admin, self._options)
        found.sort(key=lambda one: one.tp)
        chunks = [found[start : start + LOOKUPS_PER_TASK] for start in range(0, len(found), LOOKUPS_PER_TASK)]
        return [LagTask(chunk) for chunk in chunks] or [LagTask([])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task; runs in a worker."""
        assert isinstance(partition, LagTask)
        brokers = self._options.brokers
        assert brokers is not None
        with in_one_line():
            from barnabas.spark.kafka import shared_fetcher

            fetcher = shared_fetcher(one_record_at_a_time(brokers.client))
            yield lag_rows(partition.standings, fetcher, brokers.poll_timeout_ms)


@dataclass(frozen=True)
class OffsetsLog:
    """A partition's log, to be packed into tasks."""

    tp: TopicPartition
    size: int


@dataclass
class HistoryTask(InputPartition):  # type: ignore[misc]
    """The partitions of one task."""

    partitions: list[TopicPartition]


class HistoryReader(DataSourceReader):  # type: ignore[misc]
    """The lag at each commit that is still in ``__consumer_offsets``."""

    def __init__(self, options: GroupOptions) -> None:
        self._options = options

    def partitions(self) -> list[HistoryTask]:
        """A partition is read by one task, from its first record to its last."""
        assert self._options.logs is not None
        sizes: dict[TopicPartition, int] = {}
        with in_one_line():
            for segment in find_segments(self._options.logs):
                if segment.tp.topic != GROUP_METADATA_TOPIC:
                    sizes[segment.tp] = sizes.get(segment.tp, 0) + segment.size
        tasks = pack([OffsetsLog(tp, size) for tp, size in sorted(sizes.items())], TASKS_MAX)
        return [HistoryTask([log.tp for log in task]) for task in tasks] or [HistoryTask([])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task; runs in a worker."""
        from barnabas.spark.groups.history import lag_history

        assert isinstance(partition, HistoryTask)
        with in_one_line():
            yield from lag_history(partition.partitions, self._options)

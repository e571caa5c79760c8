"""The data source ``barnabas-log`` as Spark sees it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from barnabas.spark.errors import in_one_line
from barnabas.spark.logs.options import LogOptions, View, log_options
from barnabas.spark.logs.segments import Piece, find_segments, plan_tasks
from barnabas.spark.source import SCHEMA, SCHEMA_WITH_HEADERS
from barnabas.spark.tables import TableSource

if TYPE_CHECKING:
    import pyarrow as pa

# The same columns as in `barnabas.spark.logs.views`, which a planner does not import: it would load numba.
_BATCHES: Final = (
    "topic string, partition int, segment bigint, position bigint, baseOffset bigint, lastOffset bigint, "
    "count int, sizeInBytes int, codec string, baseTimestamp timestamp, maxTimestamp timestamp, "
    "timestampType int, producerId bigint, producerEpoch int, baseSequence int, leaderEpoch int, "
    "isTransactional boolean, isControl boolean, deleteHorizon timestamp, crc bigint, isValid boolean"
)
_SEGMENTS: Final = (
    "topic string, partition int, baseOffset bigint, lastOffset bigint, records bigint, batches bigint, "
    "sizeInBytes bigint, indexBytes bigint, maxTimestamp timestamp, lastModified timestamp, isLast boolean, "
    "tornBytes bigint, corruptBatches bigint, corruptBytes bigint, file string"
)


@dataclass
class LogTask(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    pieces: list[Piece]


class LogSource(TableSource):
    """Log directories, read as a batch."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "barnabas-log"

    def schema(self) -> StructType:
        """The columns of the view. Spark asks for them at ``load()``: so wrong options show there."""
        with in_one_line():
            options = log_options(self.given())
        return self.noted(_columns(options))

    def reader(self, schema: StructType) -> "LogReader":
        """A batch read."""
        self.take_options(schema)
        return LogReader(log_options(self.options))


def _columns(options: LogOptions) -> StructType | str:
    if options.view is View.RECORDS:
        return SCHEMA_WITH_HEADERS if options.include_headers else SCHEMA
    if options.view is View.SEGMENTS:
        return _SEGMENTS
    return f"{_BATCHES}, uncompressedBytes bigint" if options.uncompressed_bytes else _BATCHES


class LogReader(DataSourceReader):  # type: ignore[misc]
    """One batch read."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> list[LogTask]:
        """What the tasks read; one empty task where there is nothing, as Spark asks for at least one."""
        with in_one_line():
            tasks = plan_tasks(find_segments(self._options), self._options)
        return [LogTask(pieces) for pieces in tasks] or [LogTask([])]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """The rows of one task; runs in a worker."""
        from barnabas.spark.logs.views import read_pieces

        assert isinstance(partition, LogTask)
        with in_one_line():
            yield from read_pieces(partition.pieces, self._options)

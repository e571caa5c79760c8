"""DescribeLogDirs (35): directories of a broker, and what fills them (KIP-113, KIP-827)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class DescribeLogDirsRequest(Request, api=35, versions="0-5", flexible="2+"):
    """Asks for the sizes of partitions, of all when null."""

    topics: list[DescribableLogDirTopic] | None = field("0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    """The size of a replica's log, and how far it lags."""

    partition_index: int32 = field("0+")
    partition_size: int64 = field("0+")
    offset_lag: int64 = field("0+")
    is_future_key: bool = field("0+")


class DescribeLogDirsTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[DescribeLogDirsPartition] = field("0+")


class DescribeLogDirsResult(Struct):
    """One directory."""

    error_code: int16 = field("0+")
    log_dir: str = field("0+")
    topics: list[DescribeLogDirsTopic] = field("0+")
    total_bytes: int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: bool = field("5+", ignorable=True)


class DescribeLogDirsResponse(Response, api=35, versions="0-5", flexible="2+"):
    """One entry a directory."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field("0+")

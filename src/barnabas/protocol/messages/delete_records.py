"""DeleteRecords (21): the start of partitions moves up (KIP-107)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class DeleteRecordsPartition(Struct):
    """The new start of one partition; -1 is the high watermark."""

    partition_index: int32 = field("0+")
    offset: int64 = field("0+")


class DeleteRecordsTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[DeleteRecordsPartition] = field("0+")


class DeleteRecordsRequest(Request, api=21, versions="0-2", flexible="2+"):
    """Deletes all records before an offset."""

    topics: list[DeleteRecordsTopic] = field("0+")
    timeout_ms: int32 = field("0+")


class DeleteRecordsPartitionResult(Struct):
    """The lowest start among the replicas."""

    partition_index: int32 = field("0+")
    low_watermark: int64 = field("0+")
    error_code: int16 = field("0+")


class DeleteRecordsTopicResult(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[DeleteRecordsPartitionResult] = field("0+")


class DeleteRecordsResponse(Response, api=21, versions="0-2", flexible="2+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("0+")
    topics: list[DeleteRecordsTopicResult] = field("0+")

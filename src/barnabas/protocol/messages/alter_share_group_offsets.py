"""AlterShareGroupOffsets (91): moves an empty share group to other offsets (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64


class AlterShareGroupOffsetsRequestPartition(Struct):
    """Where a share-partition is to start."""

    partition_index: int32 = field("0+")
    start_offset: int64 = field("0+")


class AlterShareGroupOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    topic_name: str = field("0+")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field("0+")


class AlterShareGroupOffsetsRequest(Request, api=91, versions="0", flexible="0+"):
    """The new offsets of one group."""

    group_id: str = field("0+")
    topics: list[AlterShareGroupOffsetsRequestTopic] = field("0+")


class AlterShareGroupOffsetsResponsePartition(Struct):
    """How it went with one partition."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class AlterShareGroupOffsetsResponseTopic(Struct):
    """Partitions of one topic."""

    topic_name: str = field("0+")
    topic_id: Uuid = field("0+")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field("0+")


class AlterShareGroupOffsetsResponse(Response, api=91, versions="0", flexible="0+"):
    """Which of them start there now."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    responses: list[AlterShareGroupOffsetsResponseTopic] = field("0+")

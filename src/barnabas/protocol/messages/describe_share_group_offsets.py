"""DescribeShareGroupOffsets (90): where share groups stand in their partitions (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    topic_name: str = field("0+")
    partitions: list[int32] = field("0+")


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A group; null topics stand for all that it has."""

    group_id: str = field("0+")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field("0+", nullable="0+")


class DescribeShareGroupOffsetsRequest(Request, api=90, versions="0-1", flexible="0+"):
    """Asks for groups."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field("0+")


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """Where one share-partition starts, and how much lies before its end."""

    partition_index: int32 = field("0+")
    start_offset: int64 = field("0+")
    leader_epoch: int32 = field("0+")
    lag: int64 = field("1+", default=-1, ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """Partitions of one topic."""

    topic_name: str = field("0+")
    topic_id: Uuid = field("0+")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field("0+")


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """One group."""

    group_id: str = field("0+")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class DescribeShareGroupOffsetsResponse(Response, api=90, versions="0-1", flexible="0+"):
    """One entry a group."""

    throttle_time_ms: int32 = field("0+")
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field("0+")

"""ListOffsets (2): at which offset of a partition a time begins."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32, int64


class ListOffsetsPartition(Struct):
    """The time to look for in one partition; negative times have meanings of their own."""

    partition_index: int32 = field("0+")
    current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
    timestamp: int64 = field("0+")
    """Milliseconds; -1 latest, -2 earliest, -3 of the greatest time, -4 earliest local, -5 latest tiered."""
    max_num_offsets: int32 = field("0", default=1)


class ListOffsetsTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[ListOffsetsPartition] = field("0+")


class ListOffsetsRequest(Request, api=2, versions="0-11", flexible="6+"):
    """Asks where times begin."""

    replica_id: int32 = field("0+")
    isolation_level: int8 = field("2+")
    topics: list[ListOffsetsTopic] = field("0+")
    timeout_ms: int32 = field("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """The offset that was found; offset and time -1 when there is none."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    old_style_offsets: list[int64] = field("0")
    timestamp: int64 = field("1+", default=-1)
    offset: int64 = field("1+", default=-1)
    leader_epoch: int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[ListOffsetsPartitionResponse] = field("0+")


class ListOffsetsResponse(Response, api=2, versions="0-11", flexible="6+"):
    """One entry a partition that was asked for."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field("0+")

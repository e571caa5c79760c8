"""OffsetDelete (47): a group forgets positions (KIP-496)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: int32 = field("0+")


class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[OffsetDeleteRequestPartition] = field("0+")


class OffsetDeleteRequest(Request, api=47, versions="0"):
    """Deletes positions of partitions that no member reads."""

    group_id: str = field("0+")
    topics: list[OffsetDeleteRequestTopic] = field("0+")


class OffsetDeleteResponsePartition(Struct):
    """What became of one position."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class OffsetDeleteResponseTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[OffsetDeleteResponsePartition] = field("0+")


class OffsetDeleteResponse(Response, api=47, versions="0"):
    """One entry a partition."""

    error_code: int16 = field("0+")
    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = field("0+")

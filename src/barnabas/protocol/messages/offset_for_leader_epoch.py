"""OffsetForLeaderEpoch (23): where a leader's epoch ended, to find a common past (KIP-101, KIP-320)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class OffsetForLeaderPartition(Struct):
    """The epoch whose end is wanted, and the one that the asker believes current."""

    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: int32 = field("0+")


class OffsetForLeaderTopic(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[OffsetForLeaderPartition] = field("0+")


class OffsetForLeaderEpochRequest(Request, api=23, versions="0-4", flexible="4+"):
    """Asks leaders where an epoch ended."""

    replica_id: int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field("0+")


class EpochEndOffset(Struct):
    """The greatest epoch not above the one asked for, and its end."""

    error_code: int16 = field("0+")
    partition: int32 = field("0+")
    leader_epoch: int32 = field("1+", default=-1, ignorable=True)
    end_offset: int64 = field("0+", default=-1)


class OffsetForLeaderTopicResult(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[EpochEndOffset] = field("0+")


class OffsetForLeaderEpochResponse(Response, api=23, versions="0-4", flexible="4+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field("0+")

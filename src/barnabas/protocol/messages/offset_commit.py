"""OffsetCommit (8): consumers' positions, for the group's coordinator to keep."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64


class OffsetCommitRequestPartition(Struct):
    """The position in one partition, with a note of the consumer's own."""

    partition_index: int32 = field("0+")
    committed_offset: int64 = field("0+")
    committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field("1", default=-1)
    committed_metadata: str | None = field("0+", nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """Partitions of one topic; named by id from v10 on."""

    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field("0+")


class OffsetCommitRequest(Request, api=8, versions="0-10", flexible="8+"):
    """Commits positions, as a member of a generation or (-1) from outside."""

    group_id: str = field("0+")
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field("1+", ignorable=True)
    group_instance_id: str | None = field("7+", default=None, nullable="7+")
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field("0+")


class OffsetCommitResponsePartition(Struct):
    """What became of one position."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class OffsetCommitResponseTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field("0+")


class OffsetCommitResponse(Response, api=8, versions="0-10", flexible="8+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field("0+")

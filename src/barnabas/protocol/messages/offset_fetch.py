"""OffsetFetch (9): the positions that groups have committed (KIP-709 for several groups at once)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0-7")
    partition_indexes: list[int32] = field("0-7")


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, for one of several groups."""

    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partition_indexes: list[int32] = field("8+")


class OffsetFetchRequestGroup(Struct):
    """A group, and which of its positions are wanted: all when null."""

    group_id: str = field("8+")
    member_id: str | None = field("9+", default=None, nullable="9+", ignorable=True)
    member_epoch: int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field("8+", nullable="8+")


class OffsetFetchRequest(Request, api=9, versions="0-10", flexible="6+"):
    """Asks for positions: of one group until v7, of `groups` from v8 on."""

    group_id: str = field("0-7")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field("8+")
    require_stable: bool = field("7+")
    """Refuses positions that an open transaction may still change (KIP-447)."""


class OffsetFetchResponsePartition(Struct):
    """The position in one partition, -1 when there is none."""

    partition_index: int32 = field("0-7")
    committed_offset: int64 = field("0-7")
    committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
    metadata: str | None = field("0-7", nullable="0-7")
    error_code: int16 = field("0-7")


class OffsetFetchResponseTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0-7")
    partitions: list[OffsetFetchResponsePartition] = field("0-7")


class OffsetFetchResponsePartitions(Struct):
    """The position in one partition, for one of several groups."""

    partition_index: int32 = field("8+")
    committed_offset: int64 = field("8+")
    committed_leader_epoch: int32 = field("8+", default=-1, ignorable=True)
    metadata: str | None = field("8+", nullable="8+")
    error_code: int16 = field("8+")


class OffsetFetchResponseTopics(Struct):
    """Partitions of one topic, for one of several groups."""

    name: str = field("8-9", ignorable=True)
    topic_id: Uuid = field("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field("8+")


class OffsetFetchResponseGroup(Struct):
    """The positions of one group."""

    group_id: str = field("8+")
    topics: list[OffsetFetchResponseTopics] = field("8+")
    error_code: int16 = field("8+")


class OffsetFetchResponse(Response, api=9, versions="0-10", flexible="6+"):
    """The positions: at the top until v7, in `groups` from v8 on."""

    throttle_time_ms: int32 = field("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7")
    error_code: int16 = field("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+")

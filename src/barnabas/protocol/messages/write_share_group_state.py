"""WriteShareGroupState (85): a share-partition's leader has its state kept (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32, int64


class StateBatch(Struct):
    """What has become of the records in a range of offsets."""

    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    delivery_state: int8 = field("0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int16 = field("0+")


class PartitionData(Struct):
    """The state of one share-partition, or what changed of it."""

    partition: int32 = field("0+")
    state_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 leaves it as it is."""
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    """Records from the start offset on that need no delivery any more (KIP-1226)."""
    state_batches: list[StateBatch] = field("0+")


class WriteStateData(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class WriteShareGroupStateRequest(Request, api=85, versions="0-1", flexible="0+"):
    """States to keep."""

    group_id: str = field("0+")
    topics: list[WriteStateData] = field("0+")


class PartitionResult(Struct):
    """How it went with one partition."""

    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class WriteStateResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionResult] = field("0+")


class WriteShareGroupStateResponse(Response, api=85, versions="0-1", flexible="0+"):
    """Which of them are kept."""

    results: list[WriteStateResult] = field("0+")

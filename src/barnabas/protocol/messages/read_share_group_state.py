"""ReadShareGroupState (84): a share-partition's leader takes its state up where the last one left it
(KIP-932).
"""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32, int64


class PartitionData(Struct):
    """A share-partition, and the epoch of who asks, which fences earlier leaders."""

    partition: int32 = field("0+")
    leader_epoch: int32 = field("0+")


class ReadStateData(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class ReadShareGroupStateRequest(Request, api=84, versions="0", flexible="0+"):
    """Asks for states."""

    group_id: str = field("0+")
    topics: list[ReadStateData] = field("0+")


class StateBatch(Struct):
    """What has become of the records in a range of offsets."""

    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    delivery_state: int8 = field("0+")
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int16 = field("0+")


class PartitionResult(Struct):
    """The state of one share-partition."""

    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    state_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 when it has none yet."""
    state_batches: list[StateBatch] = field("0+")


class ReadStateResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionResult] = field("0+")


class ReadShareGroupStateResponse(Response, api=84, versions="0", flexible="0+"):
    """The states."""

    results: list[ReadStateResult] = field("0+")

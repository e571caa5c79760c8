"""InitializeShareGroupState (83):
the share coordinator makes room for a group's share-partitions (KIP-932).
"""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64


class PartitionData(Struct):
    """A share-partition, and where it starts."""

    partition: int32 = field("0+")
    state_epoch: int32 = field("0+")
    start_offset: int64 = field("0+")
    """-1 leaves it open."""


class InitializeStateData(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class InitializeShareGroupStateRequest(Request, api=83, versions="0", flexible="0+"):
    """The group coordinator names what became part of a group."""

    group_id: str = field("0+")
    topics: list[InitializeStateData] = field("0+")


class PartitionResult(Struct):
    """How it went with one partition."""

    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class InitializeStateResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionResult] = field("0+")


class InitializeShareGroupStateResponse(Response, api=83, versions="0", flexible="0+"):
    """Which of them have a state now."""

    results: list[InitializeStateResult] = field("0+")

"""DeleteShareGroupState (86): the share coordinator drops the state of share-partitions (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32


class PartitionData(Struct):
    """One share-partition."""

    partition: int32 = field("0+")


class DeleteStateData(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class DeleteShareGroupStateRequest(Request, api=86, versions="0", flexible="0+"):
    """The group coordinator names what left a group."""

    group_id: str = field("0+")
    topics: list[DeleteStateData] = field("0+")


class PartitionResult(Struct):
    """How it went with one partition."""

    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class DeleteStateResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionResult] = field("0+")


class DeleteShareGroupStateResponse(Response, api=86, versions="0", flexible="0+"):
    """Which of them are gone."""

    results: list[DeleteStateResult] = field("0+")

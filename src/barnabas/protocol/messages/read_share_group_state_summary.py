"""ReadShareGroupStateSummary (87): where share-partitions start, without their states (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64


class PartitionData(Struct):
    """A share-partition, and the epoch of its leader."""

    partition: int32 = field("0+")
    leader_epoch: int32 = field("0+")


class ReadStateSummaryData(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class ReadShareGroupStateSummaryRequest(Request, api=87, versions="0-1", flexible="0+"):
    """Asks for summaries."""

    group_id: str = field("0+")
    topics: list[ReadStateSummaryData] = field("0+")


class PartitionResult(Struct):
    """Where one share-partition starts."""

    partition: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    state_epoch: int32 = field("0+")
    leader_epoch: int32 = field("0+")
    """Kafka 3.9's early access to share groups lacks it in the same version 0."""
    start_offset: int64 = field("0+")
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    """Records from the start offset on that need no delivery any more (KIP-1226)."""


class ReadStateSummaryResult(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionResult] = field("0+")


class ReadShareGroupStateSummaryResponse(Response, api=87, versions="0-1", flexible="0+"):
    """The summaries."""

    results: list[ReadStateSummaryResult] = field("0+")

"""DescribeProducers (61): producers that a partition remembers (KIP-664)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class TopicRequest(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partition_indexes: list[int32] = field("0+")


class DescribeProducersRequest(Request, api=61, versions="0", flexible="0+"):
    """Asks leaders about producers."""

    topics: list[TopicRequest] = field("0+")


class ProducerState(Struct):
    """What the log keeps of one producer."""

    producer_id: int64 = field("0+")
    producer_epoch: int32 = field("0+")
    last_sequence: int32 = field("0+", default=-1)
    last_timestamp: int64 = field("0+", default=-1)
    coordinator_epoch: int32 = field("0+")
    current_txn_start_offset: int64 = field("0+", default=-1)


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    active_producers: list[ProducerState] = field("0+")


class TopicResponse(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[PartitionResponse] = field("0+")


class DescribeProducersResponse(Response, api=61, versions="0", flexible="0+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("0+")
    topics: list[TopicResponse] = field("0+")

"""Produce (0): record batches on their way to the leaders of their partitions."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Records, Uuid, int16, int32, int64


class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: int32 = field("0+")
    records: Records = field("0+", nullable="0+")


class TopicProduceData(Struct):
    """The partitions of one topic; named by id from v13 on."""

    name: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = field("0+")


class ProduceRequest(Request, api=0, versions="0-13", flexible="9+"):
    """Appends to partitions. With `acks` 0 there is no answer."""

    transactional_id: str | None = field("3+", default=None, nullable="3+")
    acks: int16 = field("0+")
    """0: no answer; 1: when the leader has it; -1: when the whole ISR has it."""
    timeout_ms: int32 = field("0+")
    topic_data: list[TopicProduceData] = field("0+")


class BatchIndexAndErrorMessage(Struct):
    """A record that was refused, by its index in the batch."""

    batch_index: int32 = field("8+")
    batch_index_error_message: str | None = field("8+", default=None, nullable="8+")


class LeaderIdAndEpoch(Struct):
    """Who leads now, for a client that asked the wrong broker."""

    leader_id: int32 = field("10+", default=-1)
    leader_epoch: int32 = field("10+", default=-1)


class PartitionProduceResponse(Struct):
    """Where the batches of one partition went, or why not."""

    index: int32 = field("0+")
    error_code: int16 = field("0+")
    base_offset: int64 = field("0+")
    log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", ignorable=True)
    error_message: str | None = field("8+", default=None, nullable="8+", ignorable=True)
    current_leader: LeaderIdAndEpoch | None = field("10+", default=None, tag=0)


class TopicProduceResponse(Struct):
    """The partitions of one topic."""

    name: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field("0+")


class NodeEndpoint(Struct):
    """Where to reach a leader that is named above (KIP-951)."""

    node_id: int32 = field("10+")
    host: str = field("10+")
    port: int32 = field("10+")
    rack: str | None = field("10+", default=None, nullable="10+")


class ProduceResponse(Response, api=0, versions="0-13", flexible="9+"):
    """One entry a partition that was produced to."""

    responses: list[TopicProduceResponse] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0)

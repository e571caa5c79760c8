"""DescribeTopicPartitions (75): topics' partitions, page by page (KIP-966)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32


class TopicRequest(Struct):
    """One topic."""

    name: str = field("0+")


class Cursor(Struct):
    """The partition to go on with."""

    topic_name: str = field("0+")
    partition_index: int32 = field("0+")


class DescribeTopicPartitionsRequest(Request, api=75, versions="0", flexible="0+"):
    """Asks for a page of topics, from a cursor on."""

    topics: list[TopicRequest] = field("0+")
    response_partition_limit: int32 = field("0+", default=2000)
    cursor: Cursor | None = field("0+", default=None, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition: leader, replicas, and who could lead it."""

    error_code: int16 = field("0+")
    partition_index: int32 = field("0+")
    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+", default=-1, ignorable=True)
    replica_nodes: list[int32] = field("0+")
    isr_nodes: list[int32] = field("0+")
    eligible_leader_replicas: list[int32] | None = field("0+", default=None, nullable="0+")
    last_known_elr: list[int32] | None = field("0+", default=None, nullable="0+")
    offline_replicas: list[int32] = field("0+", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, or the error that stands for it."""

    error_code: int16 = field("0+")
    name: str | None = field("0+", nullable="0+")
    topic_id: Uuid = field("0+", ignorable=True)
    is_internal: bool = field("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field("0+")
    topic_authorized_operations: int32 = field("0+", default=-2147483648)


class DescribeTopicPartitionsResponse(Response, api=75, versions="0", flexible="0+"):
    """A page, and where the next one starts."""

    throttle_time_ms: int32 = field("0+", ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = field("0+")
    next_cursor: Cursor | None = field("0+", default=None, nullable="0+")

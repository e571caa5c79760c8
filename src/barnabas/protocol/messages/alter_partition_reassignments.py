"""AlterPartitionReassignments (45): partitions move to other brokers, or stop moving (KIP-455)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class ReassignablePartition(Struct):
    """The brokers that a partition is to move to; null stops a move."""

    partition_index: int32 = field("0+")
    replicas: list[int32] | None = field("0+", default=None, nullable="0+")


class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[ReassignablePartition] = field("0+")


class AlterPartitionReassignmentsRequest(Request, api=45, versions="0-1", flexible="0+"):
    """Starts and stops moves."""

    timeout_ms: int32 = field("0+", default=60000)
    allow_replication_factor_change: bool = field("1+", default=True)
    """Whether a move may end with more or fewer replicas (KIP-860)."""
    topics: list[ReassignableTopic] = field("0+")


class ReassignablePartitionResponse(Struct):
    """What became of one partition."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[ReassignablePartitionResponse] = field("0+")


class AlterPartitionReassignmentsResponse(Response, api=45, versions="0-1", flexible="0+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("0+")
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = field("0+")

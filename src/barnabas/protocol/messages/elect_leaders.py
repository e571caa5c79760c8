"""ElectLeaders (43): preferred or unclean leaders are elected now (KIP-183, KIP-460)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partitions: list[int32] = field("0+")


class ElectLeadersRequest(Request, api=43, versions="0-2", flexible="2+"):
    """Elects in the partitions named, in all when null; type 0 preferred, 1 unclean."""

    election_type: int8 = field("1+")
    topic_partitions: list[TopicPartitions] | None = field("0+", nullable="0+")
    timeout_ms: int32 = field("0+", default=60000)


class PartitionResult(Struct):
    """What became of one partition."""

    partition_id: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    """Partitions of one topic."""

    topic: str = field("0+")
    partition_result: list[PartitionResult] = field("0+")


class ElectLeadersResponse(Response, api=43, versions="0-2", flexible="2+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult] = field("0+")

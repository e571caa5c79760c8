"""ListPartitionReassignments (46): which partitions are moving (KIP-455)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partition_indexes: list[int32] = field("0+")


class ListPartitionReassignmentsRequest(Request, api=46, versions="0", flexible="0+"):
    """Asks about partitions, about all when null."""

    timeout_ms: int32 = field("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field("0+", default=None, nullable="0+")


class OngoingPartitionReassignment(Struct):
    """A partition on the move."""

    partition_index: int32 = field("0+")
    replicas: list[int32] = field("0+")
    adding_replicas: list[int32] = field("0+")
    removing_replicas: list[int32] = field("0+")


class OngoingTopicReassignment(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[OngoingPartitionReassignment] = field("0+")


class ListPartitionReassignmentsResponse(Response, api=46, versions="0", flexible="0+"):
    """What moves."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = field("0+")

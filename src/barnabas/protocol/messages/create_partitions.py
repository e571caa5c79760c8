"""CreatePartitions (37): topics get more partitions (KIP-195)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class CreatePartitionsAssignment(Struct):
    """The brokers of one new partition."""

    broker_ids: list[int32] = field("0+")


class CreatePartitionsTopic(Struct):
    """A topic, how many partitions it is to have, and where the new ones go."""

    name: str = field("0+")
    count: int32 = field("0+")
    assignments: list[CreatePartitionsAssignment] | None = field("0+", nullable="0+")


class CreatePartitionsRequest(Request, api=37, versions="0-3", flexible="2+"):
    """Adds partitions, or only checks whether they could be."""

    topics: list[CreatePartitionsTopic] = field("0+")
    timeout_ms: int32 = field("0+")
    validate_only: bool = field("0+")


class CreatePartitionsTopicResult(Struct):
    """What became of one topic."""

    name: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class CreatePartitionsResponse(Response, api=37, versions="0-3", flexible="2+"):
    """One entry a topic."""

    throttle_time_ms: int32 = field("0+")
    results: list[CreatePartitionsTopicResult] = field("0+")

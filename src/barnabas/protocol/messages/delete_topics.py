"""DeleteTopics (20): topics to remove, by name or by id (KIP-4, KIP-516)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32


class DeleteTopicState(Struct):
    """A topic to delete: its name, or its id and a null name."""

    name: str | None = field("6+", default=None, nullable="6+")
    topic_id: Uuid = field("6+")


class DeleteTopicsRequest(Request, api=20, versions="0-6", flexible="4+"):
    """Deletes topics; `topics` from v6 on, `topic_names` before."""

    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[str] = field("0-5", ignorable=True)
    timeout_ms: int32 = field("0+")


class DeletableTopicResult(Struct):
    """What became of one topic."""

    name: str | None = field("0+", nullable="6+")
    topic_id: Uuid = field("6+", ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("5+", default=None, nullable="5+", ignorable=True)


class DeleteTopicsResponse(Response, api=20, versions="0-6", flexible="4+"):
    """One entry a topic."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    responses: list[DeletableTopicResult] = field("0+")

"""DeleteShareGroupOffsets (92): an empty share group forgets topics (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """One topic."""

    topic_name: str = field("0+")


class DeleteShareGroupOffsetsRequest(Request, api=92, versions="0", flexible="0+"):
    """The topics whose offsets one group is to forget."""

    group_id: str = field("0+")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field("0+")


class DeleteShareGroupOffsetsResponseTopic(Struct):
    """How it went with one topic."""

    topic_name: str = field("0+")
    topic_id: Uuid = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")


class DeleteShareGroupOffsetsResponse(Response, api=92, versions="0", flexible="0+"):
    """Which topics are forgotten."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field("0+")

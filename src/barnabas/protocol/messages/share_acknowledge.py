"""ShareAcknowledge (79): what became of records that a member of a share group acquired (KIP-932)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32, int64


class AcknowledgementBatch(Struct):
    """A verdict on each record of a range of offsets, or one for all of them."""

    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    acknowledge_types: list[int8] = field("0+")
    """0 gap, 1 accept, 2 release, 3 reject, 4 renew (KIP-1222)."""


class AcknowledgePartition(Struct):
    """Verdicts on one partition."""

    partition_index: int32 = field("0+")
    acknowledgement_batches: list[AcknowledgementBatch] = field("0+")


class AcknowledgeTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[AcknowledgePartition] = field("0+")


class ShareAcknowledgeRequest(Request, api=79, versions="0-2", flexible="0+"):
    """Verdicts, within the member's share session."""

    group_id: str | None = field("0+", default=None, nullable="0+")
    member_id: str | None = field("0+", nullable="0+")
    share_session_epoch: int32 = field("0+")
    """-1 closes the session, any other continues it."""
    is_renew_ack: bool = field("2+")
    topics: list[AcknowledgeTopic] = field("0+")


class LeaderIdAndEpoch(Struct):
    """Who leads, for a client that asked the wrong broker; -1 when unknown."""

    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")


class PartitionData(Struct):
    """How it went with one partition."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch = field("0+")


class ShareAcknowledgeTopicResponse(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class NodeEndpoint(Struct):
    """Where to reach a leader that is named above."""

    node_id: int32 = field("0+")
    host: str = field("0+")
    port: int32 = field("0+")
    rack: str | None = field("0+", default=None, nullable="0+")


class ShareAcknowledgeResponse(Response, api=79, versions="0-2", flexible="0+"):
    """What was taken."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int32 = field("2+", ignorable=True)
    """How long what was renewed stays locked."""
    responses: list[ShareAcknowledgeTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("0+")

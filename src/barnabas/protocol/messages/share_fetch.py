"""ShareFetch (78): records that a member of a share group acquires, and verdicts on earlier ones
(KIP-932).
"""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Records, Uuid, int8, int16, int32, int64


class AcknowledgementBatch(Struct):
    """A verdict on each record of a range of offsets, or one for all of them."""

    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    acknowledge_types: list[int8] = field("0+")
    """0 gap, 1 accept, 2 release, 3 reject, 4 renew (KIP-1222)."""


class FetchPartition(Struct):
    """A partition to read, with verdicts on what was read of it before."""

    partition_index: int32 = field("0+")
    partition_max_bytes: int32 = field("0")
    """0 fetches nothing and only acknowledges."""
    acknowledgement_batches: list[AcknowledgementBatch] = field("0+")


class FetchTopic(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[FetchPartition] = field("0+")


class ForgottenTopic(Struct):
    """Partitions that leave the share session."""

    topic_id: Uuid = field("0+")
    partitions: list[int32] = field("0+")


class ShareFetchRequest(Request, api=78, versions="0-2", flexible="0+"):
    """Reads partitions; waits until there are `min_bytes` or `max_wait_ms` have passed."""

    group_id: str | None = field("0+", default=None, nullable="0+")
    member_id: str | None = field("0+", nullable="0+")
    share_session_epoch: int32 = field("0+")
    """0 opens a session, -1 closes it, any other continues one."""
    max_wait_ms: int32 = field("0+")
    min_bytes: int32 = field("0+")
    max_bytes: int32 = field("0+", default=0x7FFFFFFF)
    max_records: int32 = field("1+")
    """May be exceeded so that batches stay whole."""
    batch_size: int32 = field("1+")
    """How many records a range of acquired ones should have at best."""
    share_acquire_mode: int8 = field("2+", ignorable=True)
    """0 whole batches, 1 never more than `max_records` (KIP-1206)."""
    is_renew_ack: bool = field("2+")
    topics: list[FetchTopic] = field("0+")
    forgotten_topics_data: list[ForgottenTopic] = field("0+")


class LeaderIdAndEpoch(Struct):
    """Who leads, for a client that asked the wrong broker; -1 when unknown."""

    leader_id: int32 = field("0+")
    leader_epoch: int32 = field("0+")


class AcquiredRecords(Struct):
    """A range of offsets that are this member's until its lock expires."""

    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    delivery_count: int16 = field("0+")


class PartitionData(Struct):
    """Records of one partition, those acquired among them, and how the acknowledgements went."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    acknowledge_error_code: int16 = field("0+")
    acknowledge_error_message: str | None = field("0+", default=None, nullable="0+")
    current_leader: LeaderIdAndEpoch = field("0+")
    records: Records = field("0+", nullable="0")
    acquired_records: list[AcquiredRecords] = field("0+")


class ShareFetchableTopicResponse(Struct):
    """Partitions of one topic."""

    topic_id: Uuid = field("0+")
    partitions: list[PartitionData] = field("0+")


class NodeEndpoint(Struct):
    """Where to reach a leader that is named above."""

    node_id: int32 = field("0+")
    host: str = field("0+")
    port: int32 = field("0+")
    rack: str | None = field("0+", default=None, nullable="0+")


class ShareFetchResponse(Response, api=78, versions="0-2", flexible="0+"):
    """What was read and acquired."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    acquisition_lock_timeout_ms: int32 = field("1+")
    """How long what was acquired stays locked."""
    responses: list[ShareFetchableTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("0+")

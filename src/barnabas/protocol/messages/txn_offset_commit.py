"""TxnOffsetCommit (28): positions that become valid with a transaction (KIP-98, KIP-447)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, int64


class TxnOffsetCommitRequestPartition(Struct):
    """The position in one partition, with a note of the consumer's own."""

    partition_index: int32 = field("0+")
    committed_offset: int64 = field("0+")
    committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: str | None = field("0+", nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """Partitions of one topic; named by id from v6 on (KIP-1319)."""

    name: str = field("0-5", ignorable=True)
    topic_id: Uuid = field("6+", ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = field("0+")


class TxnOffsetCommitRequest(Request, api=28, versions="0-6", flexible="3+"):
    """Commits positions inside a transaction; v3+ also names the member, to fence zombies."""

    transactional_id: str = field("0+")
    group_id: str = field("0+")
    producer_id: int64 = field("0+")
    producer_epoch: int16 = field("0+")
    generation_id: int32 = field("3+", default=-1)
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", default=None, nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = field("0+")


class TxnOffsetCommitResponsePartition(Struct):
    """What became of one position."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class TxnOffsetCommitResponseTopic(Struct):
    """Partitions of one topic; named by id from v6 on (KIP-1319)."""

    name: str = field("0-5", ignorable=True)
    topic_id: Uuid = field("6+", ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = field("0+")


class TxnOffsetCommitResponse(Response, api=28, versions="0-6", flexible="3+"):
    """One entry a partition."""

    throttle_time_ms: int32 = field("0+")
    topics: list[TxnOffsetCommitResponseTopic] = field("0+")

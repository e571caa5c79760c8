"""Fetch (1): record batches on their way to consumers and followers (sessions: KIP-227, epochs:
KIP-320, KIP-595).
"""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Records, Uuid, int8, int16, int32, int64


class ReplicaState(Struct):
    """The follower that fetches: its id, and the epoch it registered under (KIP-903)."""

    replica_id: int32 = field("15+", default=-1)
    replica_epoch: int64 = field("15+", default=-1)


class FetchPartition(Struct):
    """From where, and how much, to read of one partition."""

    partition: int32 = field("0+")
    current_leader_epoch: int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: int64 = field("0+")
    last_fetched_epoch: int32 = field("12+", default=-1)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: int32 = field("0+")
    replica_directory_id: Uuid = field("17+", tag=0, ignorable=True)
    high_watermark: int64 = field("18+", default=0x7FFFFFFFFFFFFFFF, tag=1, ignorable=True)


class FetchTopic(Struct):
    """Partitions to read of one topic; named by id from v13 on."""

    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[FetchPartition] = field("0+")


class ForgottenTopic(Struct):
    """Partitions that leave the fetch session."""

    topic: str = field("7-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[int32] = field("7+")


class FetchRequest(Request, api=1, versions="0-18", flexible="12+"):
    """Reads partitions; waits until there are `min_bytes` or `max_wait_ms` have passed."""

    cluster_id: str | None = field("12+", default=None, nullable="12+", tag=0, ignorable=True)
    replica_id: int32 = field("0-14", default=-1)
    """The follower that fetches, -1 for a consumer; v15+ says it in `replica_state`."""
    replica_state: ReplicaState | None = field("15+", default=None, tag=1)
    max_wait_ms: int32 = field("0+")
    min_bytes: int32 = field("0+")
    max_bytes: int32 = field("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int8 = field("4+", ignorable=True)
    session_id: int32 = field("7+", ignorable=True)
    session_epoch: int32 = field("7+", default=-1, ignorable=True)
    """0 opens a session, -1 does without, any other continues one."""
    topics: list[FetchTopic] = field("0+")
    forgotten_topics_data: list[ForgottenTopic] = field("7+")
    rack_id: str = field("11+", ignorable=True)


class EpochEndOffset(Struct):
    """The end of the last epoch that leader and follower have in common (KIP-595)."""

    epoch: int32 = field("12+", default=-1)
    end_offset: int64 = field("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    """Who leads now, for a client that asked the wrong broker."""

    leader_id: int32 = field("12+", default=-1)
    leader_epoch: int32 = field("12+", default=-1)


class SnapshotId(Struct):
    """The snapshot to load instead (KRaft's metadata log only)."""

    end_offset: int64 = field("0+", default=-1)
    epoch: int32 = field("0+", default=-1)


class AbortedTransaction(Struct):
    """An aborted transaction among the records, which a read_committed consumer skips."""

    producer_id: int64 = field("4+")
    first_offset: int64 = field("4+")


class PartitionData(Struct):
    """The records of one partition, with its offsets."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")
    high_watermark: int64 = field("0+")
    last_stable_offset: int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field("12+", default=None, tag=0)
    current_leader: LeaderIdAndEpoch | None = field("12+", default=None, tag=1)
    snapshot_id: SnapshotId | None = field("12+", default=None, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field("4+", nullable="4+", ignorable=True)
    preferred_read_replica: int32 = field("11+", default=-1)
    records: Records = field("0+", nullable="0+")


class FetchableTopicResponse(Struct):
    """Partitions of one topic."""

    topic: str = field("0-12", ignorable=True)
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[PartitionData] = field("0+")


class NodeEndpoint(Struct):
    """Where to reach a leader that is named above (KIP-951)."""

    node_id: int32 = field("16+")
    host: str = field("16+")
    port: int32 = field("16+")
    rack: str | None = field("16+", default=None, nullable="16+")


class FetchResponse(Response, api=1, versions="0-18", flexible="12+"):
    """What was read; in a session, only partitions with news."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("7+", ignorable=True)
    session_id: int32 = field("7+")
    responses: list[FetchableTopicResponse] = field("0+")
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)

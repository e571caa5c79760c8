"""OffsetCommit (types 0 and 1 in `__consumer_offsets`): how far a group has come in a partition."""

from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.schema import field
from barnabas.protocol.wire import Uuid, int32, int64


class LegacyOffsetCommitKey(CoordinatorKey, record_type=0):
    """Group and partition, as Kafka wrote them at first."""

    group: str = field("0")
    topic: str = field("0")
    partition: int32 = field("0")


class LegacyOffsetCommitValue(CoordinatorValue, versions="0"):
    """The offset, as Kafka wrote it at first."""

    offset: int64 = field("0")
    metadata: str = field("0")
    commit_timestamp: int64 = field("0")


class OffsetCommitKey(CoordinatorKey, record_type=1):
    """Group and partition."""

    group: str = field("0")
    topic: str = field("0")
    partition: int32 = field("0")


class OffsetCommitValue(CoordinatorValue, versions="0-4", flexible="4+"):
    """The offset, and what the client left beside it."""

    offset: int64 = field("0+")
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: str = field("0+")
    commit_timestamp: int64 = field("0+")
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    """Only where the client chose the retention itself (OffsetCommit v2-4)."""
    topic_id: Uuid = field("4+", tag=0, ignorable=True)
    """Kafka 4.1 and later; distinguishes a topic from an earlier one of the same name."""

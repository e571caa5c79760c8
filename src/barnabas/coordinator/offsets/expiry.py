"""Which offsets are too old to keep (KIP-211, ``GroupMetadata.removeExpiredOffsets``).

While a group has members its offsets stay. From when it became empty, its offsets live on for
``offsets.retention.minutes``; where nobody ever joined, each offset counts from its own commit. The group
itself knows which of this holds (`Group.offset_expiry`).
"""

from barnabas.coordinator.group import OffsetExpiry
from barnabas.coordinator.offsets.group_offsets import NO_TIMESTAMP, CommittedOffset, GroupOffsets
from barnabas.core.ids import TopicPartition


def expired(
    offsets: GroupOffsets, expiry: OffsetExpiry, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The partitions whose offsets are to go. One with a commit on its way stays."""
    since_ms, subscribed = expiry
    return [
        tp
        for tp, commit in offsets.committed.items()
        if tp.topic not in subscribed
        and not offsets.is_unstable(tp)
        and _is_over(commit, since_ms, now_ms, retention_ms)
    ]


def _is_over(commit: CommittedOffset, since_ms: int | None, now_ms: int, retention_ms: int) -> bool:
    if commit.expire_timestamp != NO_TIMESTAMP:
        return now_ms >= commit.expire_timestamp
    return now_ms - (commit.commit_timestamp if since_ms is None else since_ms) >= retention_ms

"""What one group committed: `GroupOffsets`, and one `CommittedOffset` a partition (``OffsetAndMetadata``)."""

from typing import Final, NamedTuple

from barnabas.core.ids import TopicPartition

NO_TIMESTAMP: Final = -1


class CommittedOffset(NamedTuple):
    """How far a group has come in a partition."""

    offset: int
    leader_epoch: int
    """Of the last record read; -1 when the client did not say."""
    metadata: str
    commit_timestamp: int
    """Milliseconds since 1970."""
    expire_timestamp: int = NO_TIMESTAMP
    """Only where the client chose the retention itself (OffsetCommit v2-4)."""
    journal_offset: int = -1
    """Where the record lies; decides which of two commits, one of a transaction, is the later."""


class GroupOffsets:
    """A group's offsets: committed, waiting for replicas, waiting for the end of a transaction."""

    __slots__ = ("committed", "pending", "transactional")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.pending: dict[TopicPartition, int] = {}
        """How many commits of each partition are written but not yet with the replicas."""
        self.transactional: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        """By producer id: what becomes of the commit is decided by the transaction's marker."""

    def committed_offset(self, tp: TopicPartition) -> CommittedOffset | None:
        """What is committed and acknowledged for a partition."""
        return self.committed.get(tp)

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self.transactional)

    def __repr__(self) -> str:
        return f"<GroupOffsets committed={len(self.committed)} pending={len(self.pending)}>"

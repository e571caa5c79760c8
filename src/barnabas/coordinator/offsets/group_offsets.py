"""What one group committed: `GroupOffsets`, and one `CommittedOffset` a partition (``OffsetAndMetadata``).

Theory of operation
-------------------
A commit is seen only once the replicas have it. Until then it waits::

    plain           stage -> pending       -> acknowledge -> committed
    of a producer   stage -> transactional -> end_transaction -> committed

A transaction ends at some later time, and a plain commit may have been written in between. Which of the two
counts is decided by their places in the journal: an earlier record never replaces a later one. So is what a
marker ends: the replicas may have it so late (or have it twice) that the producer's next transaction has
commits here already. These lie behind the marker, and wait for their own.
When a topic is deleted its waiting commits go too; what is acknowledged after that belonged to the old topic
and is dropped.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

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
    """Of the batch with its record; decides which of two commits is the later, and which a marker ends.
    A plain commit has it once it is acknowledged, and -1 until then.
    """

    def at(self, journal_offset: int) -> "CommittedOffset":
        """The same, with its place in the journal."""
        return CommittedOffset(self[0], self[1], self[2], self[3], self[4], journal_offset)


Commits: TypeAlias = Mapping[TopicPartition, CommittedOffset]


class GroupOffsets:
    """A group's offsets: committed, waiting for replicas, waiting for the end of a transaction."""

    __slots__ = ("committed", "pending", "transactional")

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.pending: dict[TopicPartition, CommittedOffset] = {}
        """The last commit of each partition that is written but not yet with the replicas."""
        self.transactional: dict[int, dict[TopicPartition, CommittedOffset]] = {}
        """By producer id: what becomes of the commit is decided by the transaction's marker."""

    def is_written(self, tp: TopicPartition) -> bool:
        """Whether the journal holds a commit that counts, or will as soon as the replicas have it."""
        return tp in self.committed or tp in self.pending

    def is_unstable(self, tp: TopicPartition) -> bool:
        """Whether a commit is on its way that may still change what is committed (KIP-447)."""
        return tp in self.pending or any(tp in commits for commits in self.transactional.values())

    def among(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """The partitions without those that the group knows nothing of, if they are more than it knows."""
        known = len(self.committed) + len(self.pending)
        if not self.transactional and len(partitions) <= known:
            return partitions
        in_transactions = (tp for commits in self.transactional.values() for tp in commits)
        held = dict.fromkeys((*self.committed, *self.pending, *in_transactions))
        return [tp for tp in held if tp in partitions]

    # Plain commits

    def stage(self, commits: Commits) -> None:
        """They are written, and wait for the replicas."""
        self.pending.update(commits)

    def acknowledge(self, commits: Commits, journal_offset: int) -> None:
        """The replicas have them."""
        for tp, commit in commits.items():
            staged = self.pending.get(tp)
            if staged is None:
                continue
            self.put(tp, commit.at(journal_offset))
            if staged is commit:
                del self.pending[tp]

    def fail(self, commits: Commits) -> None:
        """It is not known whether enough replicas have them; the client will commit again."""
        for tp, commit in commits.items():
            if self.pending.get(tp) is commit:
                del self.pending[tp]

    def put(self, tp: TopicPartition, commit: CommittedOffset) -> None:
        """Committed and acknowledged, unless a later commit is there already."""
        known = self.committed.get(tp)
        if known is None or known.journal_offset < commit.journal_offset:
            self.committed[tp] = commit

    # Commits of transactions

    def stage_transactional(self, producer_id: int, commits: Commits) -> None:
        """They are written, each has its place, and wait for the marker."""
        self.transactional.setdefault(producer_id, {}).update(commits)

    def fail_transactional(self, producer_id: int, commits: Commits) -> None:
        """It is not known whether enough replicas have them; the producer tries again or aborts."""
        waiting = self.transactional.get(producer_id)
        if waiting is None:
            return
        for tp, commit in commits.items():
            if waiting.get(tp) is commit:  # none of the producer's next transaction
                del waiting[tp]
        if not waiting:
            del self.transactional[producer_id]

    def end_transaction(self, producer_id: int, marker_offset: int, *, committed: bool) -> bool:
        """The replicas have the transaction's marker: the commits before it become valid, or never were.

        Whether commits of the producer are left that lie behind the marker.
        """
        commits = self.transactional.pop(producer_id, {})
        later = {tp: commit for tp, commit in commits.items() if commit.journal_offset > marker_offset}
        if later:
            self.transactional[producer_id] = later
        if committed:
            for tp, commit in commits.items():
                if tp not in later:
                    self.put(tp, commit)
        return bool(later)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Their offsets are deleted, with the commits that still waited for replicas or for a marker."""
        for tp in partitions:
            self.committed.pop(tp, None)
            self.pending.pop(tp, None)
            for commits in self.transactional.values():
                commits.pop(tp, None)

    def is_nothing_without(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether nothing is left, or on its way, once these partitions are forgotten."""
        if self.transactional or len(self.committed) > len(partitions):
            return False
        return (self.committed.keys() | self.pending.keys()) <= set(partitions)

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending or self.transactional)

    def __repr__(self) -> str:
        return (
            f"<GroupOffsets committed={len(self.committed)} pending={len(self.pending)} "
            f"transactions={len(self.transactional)}>"
        )

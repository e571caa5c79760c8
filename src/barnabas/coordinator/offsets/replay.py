"""Committed offsets back into a shard: what is done with them while their partition is loaded."""

from collections.abc import Callable
from sys import intern
from typing import Final

from barnabas.coordinator.group import Group
from barnabas.coordinator.offsets.bulk import Commit
from barnabas.coordinator.offsets.group_offsets import CommittedOffset, GroupOffsets
from barnabas.coordinator.offsets.records import commit_of, partition_of
from barnabas.coordinator.runtime.decoding import NO_PRODUCER_ID
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)

# Bound once: half the time of `CommittedOffset._make`.
_new_commit: Final = tuple.__new__


def replay_commit(
    shard: Shard,
    key: OffsetCommitKey | LegacyOffsetCommitKey,
    value: OffsetCommitValue | None,
    *,
    producer_id: int,
    journal_offset: int,
) -> None:
    """Applies one record that went through its schema."""
    commits = _kept(shard, key.group, producer_id)
    if value is None:
        commits.pop(partition_of(key), None)
    else:
        commits[partition_of(key)] = commit_of(value, journal_offset)


def replay_commits(
    shard: Shard,
    piece: tuple[str, str, list[int], list[Commit | None]],
    *,
    producer_id: int,
    memo: dict[str, dict[int, TopicPartition]],
) -> int:
    """Applies a piece that `bulk.decode_commits` made; how many records it was.

    A million offsets come in a big load, so nothing is made here but what stays.
    """
    group_id, topic, partitions, commits = piece
    # One object for each partition: many groups have offsets in the same ones.
    known = memo.get(topic)
    if known is None:
        known = memo[topic] = {}
    kept = _kept(shard, group_id, producer_id)
    for partition, commit in zip(partitions, commits, strict=True):
        tp = known.get(partition)
        if tp is None:
            tp = known[partition] = TopicPartition(intern(topic), partition)
        if commit is None:
            kept.pop(tp, None)
        else:
            kept[tp] = _new_commit(CommittedOffset, commit)
    return len(commits)


def _kept(shard: Shard, group_id: str, producer_id: int) -> dict[TopicPartition, CommittedOffset]:
    """Where the group's commits go: those of a transaction wait for its marker."""
    offsets = shard.offsets.get(group_id)
    if offsets is None:
        offsets = shard.offsets[group_id] = GroupOffsets()
    if producer_id == NO_PRODUCER_ID:
        return offsets.committed
    shard.open_transactions.setdefault(producer_id, set()).add(group_id)
    return offsets.transactional.setdefault(producer_id, {})


@steps
def place_groups(shard: Shard, clock: Clock, create_group: Callable[[Shard, str], Group]) -> Steps[None]:
    """All records were applied: groups that only kept offsets get a place among the groups."""
    slices = Slices(clock)
    for group_id in list(shard.offsets):
        if not shard.offsets[group_id]:
            del shard.offsets[group_id]
        elif group_id not in shard.groups:
            create_group(shard, group_id)
        if slices.over():
            yield slices.next_turn()

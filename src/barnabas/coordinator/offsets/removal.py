"""Taking offsets away: tombstones first, and the group after its last offset.

Offsets go by OffsetDelete, with their group (DeleteGroups), with their topic, or because they are too old
(KIP-211): while a group has members its offsets stay; from when it became empty, they live on for
``offsets.retention.minutes``; where no member ever joined, each offset counts from its own commit. The group
itself knows which of this holds (`Group.offset_expiry`).

A group's tombstones are one batch, unless that would be larger than a topic takes: then they are several
(Kafka's are refused as too large, and its offsets come back with the next leader). They do not wait for the
replicas: tombstones that are lost are written again by the next check, or by the next leader's
(``GroupMetadataManager.cleanupGroupMetadata``).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeAlias

from barnabas.coordinator.group import Group, OffsetExpiry
from barnabas.coordinator.offsets.commits import Codes, commit_error, forget_transaction
from barnabas.coordinator.offsets.group_offsets import NO_TIMESTAMP, CommittedOffset, GroupOffsets
from barnabas.coordinator.offsets.records import tombstone
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices

Choice: TypeAlias = Callable[[Group, GroupOffsets], Collection[TopicPartition]]
"""Which offsets of a group are to go."""

BATCH_BYTES_MAX: Final = 512 * 1024
"""Of tombstones together; half of what a topic takes by default (``max.message.bytes``)."""
_TOMBSTONE_BYTES: Final = 300
"""Of one, besides the name of its group: a topic's name and what holds a record together."""

_events = EventLog("coordinator.offsets")


# --- what a client asks for -------------------------------------------------------------------------------


def delete_offsets(
    shard: Shard, group_id: str, partitions: Iterable[TopicPartition], *, keeps_group: bool
) -> Codes:
    """Deletes the offsets of partitions that no member reads (KIP-496, ``handleDeleteOffsets``). A group of
    which nothing is left goes too, unless `keeps_group` leaves it to `expire_offsets`.

    Raises KafkaError when there is no such group, when it may not lose offsets, or when the tombstones
    cannot be written (Kafka forgets the offsets then until the next load, and says nothing).
    """
    group = shard.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    group.validate_offset_delete()
    codes = {
        tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(tp.topic) else ErrorCode.NONE
        for tp in partitions
    }
    unread = [tp for tp, code in codes.items() if code is ErrorCode.NONE]
    try:
        if unread:
            take_away(shard, group, unread, keeps_group=keeps_group)
    except KafkaError as error:
        raise KafkaError(commit_error(error)) from error
    return codes


def delete_group(shard: Shard, group: Group) -> None:
    """Deletes a group with all that it committed (``handleDeleteGroups``)."""
    offsets = _offsets_of(shard, group)
    records = [tombstone(group.group_id, tp) for tp in {**offsets.committed, **offsets.pending}]
    records += group.tombstones()
    forget_group(shard, group)
    try:
        write_tombstones(shard, group.group_id, records)
    except KafkaError as error:
        # The next leader finds what is lost expired again.
        _events.error("tombstones.not_written", partition=shard.partition, reason=error)
    _events.info("group.deleted", group=group.group_id, tombstones=len(records))


# --- what goes by itself ----------------------------------------------------------------------------------


def expire_offsets(shard: Shard, clock: Clock, retention_ms: int) -> Pending[int]:
    """Takes away offsets that are too old, and groups that keep nothing (``cleanupExpiredOffsets``).

    How many offsets, when done.
    """
    now_ms = clock.time_ms()

    def too_old(group: Group, offsets: GroupOffsets) -> list[TopicPartition]:
        expiry = group.offset_expiry()
        return [] if expiry is None else _expired(offsets, expiry, now_ms, retention_ms)

    return _sweep(shard, clock, too_old, keeps_group=False)


def delete_partitions(
    shard: Shard, clock: Clock, partitions: Collection[TopicPartition], *, keeps_group: bool
) -> Pending[int]:
    """Takes away the offsets of deleted partitions (``onPartitionsDeleted``); how many, when done.
    `keeps_group` as in `delete_offsets`.

    Each group is asked what it has of them, so the partitions are best a set, or the keys of a dict.
    """
    return _sweep(shard, clock, lambda _group, offsets: offsets.among(partitions), keeps_group=keeps_group)


def _expired(
    offsets: GroupOffsets, expiry: OffsetExpiry, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The partitions whose offsets are too old. One with a commit on its way stays."""
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


@steps
def _sweep(shard: Shard, clock: Clock, choose: Choice, *, keeps_group: bool) -> Steps[int]:
    """Goes through all groups in slices; how many offsets were taken away."""
    slices = Slices(clock)
    removed = 0
    for group_id in list(shard.groups):
        # Other requests were served in between: the group may be deleted, the shard given up.
        group = shard.groups.get(group_id)
        if group is not None:
            try:
                chosen = choose(group, _offsets_of(shard, group))
                removed += take_away(shard, group, chosen, keeps_group=keeps_group)
            except KafkaError as error:
                # Nothing has changed, and the next check finds the same offsets again.
                _events.warning("tombstones.not_written", group=group_id, reason=error)
        if slices.over():
            yield slices.next_turn()
    if removed:
        _events.info("offsets.removed", partition=shard.partition, offsets=removed)
    return removed


def take_away(
    shard: Shard, group: Group, partitions: Collection[TopicPartition], *, keeps_group: bool
) -> int:
    """Takes away the offsets of these partitions, and the group if it is Empty and keeps nothing then, unless
    `keeps_group`.

    Raises KafkaError when the tombstones cannot be written; nothing has changed then.
    """
    offsets = _offsets_of(shard, group)
    removed = sum(tp in offsets.committed for tp in partitions)
    # A commit on its way is in the journal already: without a tombstone behind it the next leader would find
    # it.
    records = [tombstone(group.group_id, tp) for tp in partitions if offsets.is_written(tp)]
    is_over = not keeps_group and group.is_empty and offsets.is_nothing_without(partitions)
    if is_over:
        records += group.tombstones()
    write_tombstones(shard, group.group_id, records)
    offsets.forget(partitions)
    if is_over:
        forget_group(shard, group)
    return removed


def write_tombstones(shard: Shard, group_id: str, records: Sequence[CoordinatorRecord]) -> None:
    """Appends the tombstones of a group without a wait for the replicas. Raises KafkaError.

    What was written before a refusal stays written: it is said again with the rest.
    """
    most = max(1, BATCH_BYTES_MAX // (_TOMBSTONE_BYTES + len(group_id.encode())))
    for start in range(0, len(records), most):
        shard.journal.append(records[start : start + most], acks=0)


def forget_group(shard: Shard, group: Group) -> None:
    """Takes a group that is no more out of the shard, with all that it committed."""
    shard.groups.pop(group.group_id, None)
    shard.offsets.pop(group.group_id, None)
    for producer_id in list(shard.open_transactions):
        forget_transaction(shard, producer_id, group.group_id)
    group.close()


def _offsets_of(shard: Shard, group: Group) -> GroupOffsets:
    return shard.offsets.get(group.group_id) or GroupOffsets()

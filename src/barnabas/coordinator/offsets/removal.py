"""Taking offsets away: tombstones first, and the group after its last offset.

A group's tombstones are one batch, unless they are so many that no topic would take it: then they are several
(Kafka's are refused as too large, and its offsets come back with the next leader). Nobody waits for the replicas: tombstones that are lost are written again by the next check, or by the next
leader's (``GroupMetadataManager.cleanupGroupMetadata``).
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from barnabas.coordinator.group import Group
from barnabas.coordinator.offsets.group_offsets import GroupOffsets
from barnabas.coordinator.offsets.records import tombstone
from barnabas.coordinator.offsets.writes import forget_transaction
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.core.slices import Slices

Choice: TypeAlias = Callable[[Group, GroupOffsets], Collection[TopicPartition]]
"""Which offsets of a group are to go."""

BATCH_BYTES_MAX: Final = 512 * 1024
"""Of tombstones together; half of what a topic takes unless it is told otherwise (``max.message.bytes``)."""
_TOMBSTONE_BYTES: Final = 300
"""Of one, besides the name of its group: a topic's name and what holds a record together."""

_events = EventLog("coordinator.offsets")


@steps
def sweep(shard: Shard, clock: Clock, choose: Choice) -> Steps[int]:
    """Goes through all groups in slices; how many offsets were taken away."""
    slices = Slices(clock)
    removed = 0
    for group_id in list(shard.groups):
        # Other requests were served in between: the group, or the whole shard, may be gone.
        group = shard.groups.get(group_id)
        if group is not None:
            removed += _try_to_take_away(shard, group, choose)
        if slices.over():
            yield slices.next_turn()
    if removed:
        _events.info("offsets.removed", partition=shard.partition, offsets=removed)
    return removed


def _try_to_take_away(shard: Shard, group: Group, choose: Choice) -> int:
    try:
        return take_away(shard, group, choose(group, _offsets_of(shard, group)))
    except KafkaError as error:
        # Nothing has changed, and the next check finds the same offsets again.
        _events.warning("tombstones.not_written", group=group.group_id, reason=error)
        return 0


def take_away(shard: Shard, group: Group, partitions: Collection[TopicPartition]) -> int:
    """Takes away the offsets of these partitions, and the group if it is Empty and keeps nothing then.

    Raises KafkaError when the tombstones cannot be written; nothing has changed then.
    """
    offsets = _offsets_of(shard, group)
    removed = sum(tp in offsets.committed for tp in partitions)
    # A commit on its way is in the journal already: without a tombstone behind it the next leader would find it.
    records = [tombstone(group.group_id, tp) for tp in partitions if offsets.is_written(tp)]
    is_over = group.is_empty and offsets.is_nothing_without(partitions)
    if is_over:
        records += group.tombstones()
    write_tombstones(shard, group.group_id, records)
    offsets.forget(partitions)
    if is_over:
        forget_group(shard, group)
    return removed


def write_tombstones(shard: Shard, group_id: str, records: Sequence[CoordinatorRecord]) -> None:
    """Appends the tombstones of a group; nobody waits for the replicas. Raises KafkaError.

    What was written before a refusal stays written: it is said again with the rest.
    """
    most = max(1, BATCH_BYTES_MAX // (_TOMBSTONE_BYTES + len(group_id.encode())))
    for start in range(0, len(records), most):
        shard.journal.append(records[start : start + most], acks=0)


def forget_group(shard: Shard, group: Group) -> None:
    """The group is no more: takes it out of the shard with all that it committed."""
    shard.groups.pop(group.group_id, None)
    shard.offsets.pop(group.group_id, None)
    for producer_id in list(shard.open_transactions):
        forget_transaction(shard, producer_id, group.group_id)
    group.close()


def _offsets_of(shard: Shard, group: Group) -> GroupOffsets:
    return shard.offsets.get(group.group_id) or GroupOffsets()

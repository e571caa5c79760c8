"""Uniform assignment where all members read the same topics (``UniformHomogeneousAssignmentBuilder``).

Theory of operation
-------------------
Everybody gets the same number of partitions, some one more: those first who have one more already. Each
member keeps what it has, up to its quota; what is above goes back. Then what nobody has fills up those who
have too little. Both are linear, and a partition moves only when it must.
"""

from collections.abc import Iterator

from barnabas.coordinator.consumer.assignment import Assignment, pairs
from barnabas.coordinator.consumer.assignors.spec import GroupSpec
from barnabas.core.ids import Uuid


def assign_homogeneous(group: GroupSpec) -> dict[str, Assignment]:
    """The new target of each member."""
    topics = sorted(next(iter(group.members.values())).subscribed)
    free = list(_unassigned(group, topics))
    quota, extra = divmod(sum(group.partition_counts[topic] for topic in topics), len(group.members))
    targets: dict[str, Assignment] = {}
    unfilled: list[tuple[str, int]] = []
    # Kafka gives the extra ones in no order that means anything; this one moves the least.
    order = sorted(group.members.items(), key=lambda item: _size(item[1].assigned, topics) <= quota)
    for place, (member_id, member) in enumerate(order):
        kept, room = _keep(member.assigned, frozenset(topics), quota + (place < extra), free)
        targets[member_id] = kept
        if room:
            unfilled.append((member_id, room))
    _fill(targets, unfilled, iter(free))
    return targets


def _unassigned(group: GroupSpec, topics: list[Uuid]) -> Iterator[tuple[Uuid, int]]:
    assigned = {one for member in group.members.values() for one in pairs(member.assigned)}
    for topic_id in topics:
        for partition in range(group.partition_counts[topic_id]):
            if (topic_id, partition) not in assigned:
                yield topic_id, partition


def _size(assigned: Assignment, topics: list[Uuid]) -> int:
    return sum(len(assigned[topic_id]) for topic_id in topics if topic_id in assigned)


def _keep(
    assigned: Assignment, topics: frozenset[Uuid], quota: int, free: list[tuple[Uuid, int]]
) -> tuple[Assignment, int]:
    """What a member keeps of what it has, and how many more it may get; the rest becomes free."""
    kept: dict[Uuid, frozenset[int]] = {}
    for topic_id, partitions in assigned.items():
        if topic_id not in topics:
            continue
        if len(partitions) <= quota:
            kept[topic_id] = partitions
        else:
            in_order = sorted(partitions)
            free.extend((topic_id, partition) for partition in in_order[quota:])
            if quota:
                kept[topic_id] = frozenset(in_order[:quota])
        quota -= len(kept.get(topic_id, ()))
    return kept, quota


def _fill(
    targets: dict[str, Assignment], unfilled: list[tuple[str, int]], free: Iterator[tuple[Uuid, int]]
) -> None:
    for member_id, room in unfilled:
        added: dict[Uuid, set[int]] = {}
        for _, (topic_id, partition) in zip(range(room), free, strict=False):
            added.setdefault(topic_id, set()).add(partition)
        if added:
            target = dict(targets[member_id])
            for topic_id, partitions in added.items():
                target[topic_id] = target.get(topic_id, frozenset()) | partitions
            targets[member_id] = target

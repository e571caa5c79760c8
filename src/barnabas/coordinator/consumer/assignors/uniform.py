"""The ``uniform`` assignor: as even and as sticky as it can be (``UniformAssignor``).

Theory of operation
-------------------
Where all members read the same topics (``UniformHomogeneousAssignmentBuilder``), each gets the same number of
partitions, some one more: those first who have one more already. Each member keeps what it has, up to its
quota; what is above goes back. Then the free partitions fill up the members that have too few. Both are
linear, and a partition moves only when it must. Groups whose members read different topics are in
`heterogeneous`.
"""

import itertools
from collections.abc import Iterator

from barnabas.coordinator.consumer.assignment import Assignment, merged
from barnabas.coordinator.consumer.assignors.heterogeneous import assign_heterogeneous
from barnabas.coordinator.consumer.assignors.spec import GroupSpec
from barnabas.core.ids import Uuid
from barnabas.core.slices import Sliced


def assign_uniformly(group: GroupSpec) -> Sliced[dict[str, Assignment]]:
    """Shares all partitions of all topics; no member has two more than another that could have them."""
    if not group.members:
        return {}
    return (yield from (_assign_homogeneous if group.homogeneous else assign_heterogeneous)(group))


def _assign_homogeneous(group: GroupSpec) -> Sliced[dict[str, Assignment]]:
    topics = next(iter(group.members.values())).subscribed
    free = yield from _unassigned(group, sorted(topics))
    quota, extra = divmod(sum(group.partition_counts[topic_id] for topic_id in topics), len(group.members))
    sizes = {member_id: _size(member.assigned, topics) for member_id, member in group.members.items()}
    targets: dict[str, Assignment] = {}
    unfilled: list[tuple[str, int]] = []
    # Kafka hands out the extra ones in no particular order. This order moves the fewest partitions.
    for place, member_id in enumerate(sorted(sizes, key=lambda member_id: sizes[member_id] <= quota)):
        most, has = quota + (place < extra), sizes[member_id]
        assigned = group.members[member_id].assigned
        if has <= most and assigned.keys() <= topics:
            targets[member_id] = assigned
        else:
            targets[member_id] = _keep(assigned, topics, most, free)
        if has < most:
            unfilled.append((member_id, most - has))
        yield
    yield from _fill(targets, unfilled, iter(free))
    return targets


def _size(assigned: Assignment, topics: frozenset[Uuid]) -> int:
    return sum(len(partitions) for topic_id, partitions in assigned.items() if topic_id in topics)


def _unassigned(group: GroupSpec, topics: list[Uuid]) -> Sliced[list[tuple[Uuid, int]]]:
    assigned: dict[Uuid, set[int]] = {topic_id: set() for topic_id in topics}
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            if topic_id in assigned:
                assigned[topic_id] |= partitions
        yield
    free: list[tuple[Uuid, int]] = []
    for topic_id, taken in assigned.items():
        count = group.partition_counts[topic_id]
        free += [(topic_id, partition) for partition in range(count) if partition not in taken]
        yield
    return free


def _keep(
    assigned: Assignment, topics: frozenset[Uuid], most: int, free: list[tuple[Uuid, int]]
) -> Assignment:
    """What a member keeps of what it has; what is above its quota becomes free."""
    kept: dict[Uuid, frozenset[int]] = {}
    for topic_id, partitions in assigned.items():
        if topic_id not in topics:
            continue
        in_order = sorted(partitions)
        free.extend((topic_id, partition) for partition in in_order[most:])
        if most:
            kept[topic_id] = frozenset(in_order[:most])
        most = max(most - len(in_order), 0)
    return kept


def _fill(
    targets: dict[str, Assignment], unfilled: list[tuple[str, int]], free: Iterator[tuple[Uuid, int]]
) -> Sliced[None]:
    for member_id, room in unfilled:
        added: dict[Uuid, set[int]] = {}
        for topic_id, partition in itertools.islice(free, room):
            added.setdefault(topic_id, set()).add(partition)
        if added:
            new = {topic_id: frozenset(partitions) for topic_id, partitions in added.items()}
            targets[member_id] = merged(targets[member_id], new)
        yield

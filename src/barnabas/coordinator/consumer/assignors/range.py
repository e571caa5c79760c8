"""The ``range`` assignor: of each topic, each member gets partitions that follow each other
(``RangeAssignor``).

Members stand in one order for all topics, static ones first by their instance id, so the first partitions of
two topics with as many partitions and the same subscribers go to the same member, and a join of the two can
be computed where it is read.
"""

from barnabas.coordinator.consumer.assignment import Assignment
from barnabas.coordinator.consumer.assignors.spec import GroupSpec
from barnabas.core.ids import Uuid
from barnabas.core.slices import Sliced


def assign_ranges(group: GroupSpec) -> Sliced[dict[str, Assignment]]:
    """Shares each topic among its subscribers; of what is left over, the first members get one each."""
    order = sorted(group.members, key=lambda member_id: _place(group, member_id))
    targets: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in order}
    by_topic = yield from _subscribers(group, order)
    for topic_id, subscribers in by_topic.items():
        quota, extra = divmod(group.partition_counts[topic_id], len(subscribers))
        start = 0
        for place, member_id in enumerate(subscribers):
            end = start + quota + (place < extra)
            if end > start:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
        yield
    return dict(targets)


def _place(group: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)


def _subscribers(group: GroupSpec, order: list[str]) -> Sliced[dict[Uuid, list[str]]]:
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in order:
        for topic_id in group.members[member_id].subscribed:
            subscribers.setdefault(topic_id, []).append(member_id)
        yield
    return subscribers

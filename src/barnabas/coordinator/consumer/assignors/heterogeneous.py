"""Uniform assignment where members read different topics (``UniformHeterogeneousAssignmentBuilder``).

Theory of operation
-------------------
Members keep what they have. A free partition goes to the subscriber with the fewest partitions. Topics with
the most partitions for each subscriber come first, because they leave the least choice. Then partitions move,
one at a time, from a member to another subscriber of the topic that has at least two fewer, until there is no
such pair. Each move makes the sum of squares of all sizes smaller, so it ends; at the end no single move
makes the sizes more even.
"""

import heapq

from barnabas.coordinator.consumer.assignment import Assignment
from barnabas.coordinator.consumer.assignors.spec import GroupSpec
from barnabas.core.ids import Uuid
from barnabas.core.slices import Sliced


def assign_heterogeneous(group: GroupSpec) -> Sliced[dict[str, Assignment]]:
    builder = _Builder(group)
    yield from builder.keep_assigned()
    yield from builder.place_unassigned()
    yield from builder.balance()
    return (yield from builder.targets())


class _Builder:
    """An assignment in the making."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._subscribers: dict[Uuid, list[str]] = {}
        self._topics: list[Uuid] = []
        """In the order in which they are looked at."""
        self._previous: dict[tuple[Uuid, int], str] = {}
        self._owners: dict[Uuid, dict[str, set[int]]] = {}
        self._sizes = dict.fromkeys(group.members, 0)

    def keep_assigned(self) -> Sliced[None]:
        """Each member begins with what it has of the topics that it reads."""
        for member_id, member in self._group.members.items():
            for topic_id in member.subscribed:
                self._subscribers.setdefault(topic_id, []).append(member_id)
            for topic_id in member.assigned.keys() & member.subscribed:
                for partition in member.assigned[topic_id]:
                    self._previous[topic_id, partition] = member_id
            yield
        self._topics = sorted(self._subscribers, key=self._choice)
        self._owners = {topic_id: {} for topic_id in self._topics}
        for (topic_id, partition), member_id in self._previous.items():
            self._give(topic_id, partition, member_id)
            yield

    def _choice(self, topic_id: Uuid) -> tuple[float, int, Uuid]:
        """Topics with the most partitions for each subscriber come first."""
        subscribers = len(self._subscribers[topic_id])
        return -self._group.partition_counts[topic_id] / subscribers, subscribers, topic_id

    def place_unassigned(self) -> Sliced[None]:
        """Gives each free partition to the subscriber with the fewest."""
        for topic_id in self._topics:
            by_size = [(self._sizes[member_id], member_id) for member_id in self._subscribers[topic_id]]
            heapq.heapify(by_size)
            for partition in range(self._group.partition_counts[topic_id]):
                if (topic_id, partition) not in self._previous:
                    size, member_id = by_size[0]
                    self._give(topic_id, partition, member_id)
                    heapq.heapreplace(by_size, (size + 1, member_id))
                yield
            yield

    def balance(self) -> Sliced[None]:
        """Moves partitions until no single move makes the sizes more even."""
        contested = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        moved = True
        while moved:
            moved = False
            for topic_id in contested:
                moved |= yield from self._balance(topic_id)

    def _balance(self, topic_id: Uuid) -> Sliced[bool]:
        """Evens one topic out; returns whether a partition moved."""
        moved = False
        owners, subscribers = self._owners[topic_id], self._subscribers[topic_id]
        while owners:
            yield
            giver = max(owners, key=lambda member_id: (self._sizes[member_id], member_id))
            taker = min(subscribers, key=lambda member_id: (self._sizes[member_id], member_id))
            if self._sizes[giver] <= self._sizes[taker] + 1:
                break
            self._move(topic_id, giver, taker)
            moved = True
        return moved

    def _move(self, topic_id: Uuid, giver: str, taker: str) -> None:
        # What the taker had before comes first, what the giver had before last: so the least moves for
        # members.
        partition = min(
            self._owners[topic_id][giver],
            key=lambda one: (
                self._previous.get((topic_id, one)) != taker,
                self._previous.get((topic_id, one)) == giver,
                one,
            ),
        )
        self._owners[topic_id][giver].discard(partition)
        if not self._owners[topic_id][giver]:
            del self._owners[topic_id][giver]
        self._sizes[giver] -= 1
        self._give(topic_id, partition, taker)

    def _give(self, topic_id: Uuid, partition: int, member_id: str) -> None:
        self._owners[topic_id].setdefault(member_id, set()).add(partition)
        self._sizes[member_id] += 1

    def targets(self) -> Sliced[dict[str, Assignment]]:
        targets: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in self._group.members}
        for topic_id, owners in self._owners.items():
            for member_id, partitions in owners.items():
                targets[member_id][topic_id] = frozenset(partitions)
            yield
        return dict(targets)

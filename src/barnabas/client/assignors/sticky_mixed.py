"""`MixedSubscriptions`: the sticky assignment of members that want different topics, approached step by step.

Theory of operation
-------------------
Every member keeps what it had and still may have. What has no owner goes to the member with the fewest
partitions that wants the topic. Then partitions move, one by one, from members that have at least two more
than another one that wants the topic too, until no move helps: first only those that were unassigned before
(unless something had to be revoked anyway), then any. A move prefers the member that had the partition in an
earlier generation. If all this moving did not make the balance better, it is undone.

Topics that only one member wants, and members that nothing can be given to or taken from, are left out of the
moving. (``AbstractStickyAssignor.GeneralAssignmentBuilder``.)
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from barnabas.client.assignors.assignor import Assignment, Subscription, Topics, partitions_of
from barnabas.client.assignors.partition_moves import PartitionMoves
from barnabas.client.assignors.sticky_members import PreviousOwners
from barnabas.client.assignors.sticky_racks import Racks
from barnabas.core.ids import TopicPartition


class Loads:
    """Members by how many partitions they have, the fewest first."""

    def __init__(self, assignment: Assignment) -> None:
        self._counts = {member_id: len(partitions) for member_id, partitions in assignment.items()}
        self._order = sorted((count, member_id) for member_id, count in self._counts.items())

    def __iter__(self) -> Iterator[str]:
        return iter([member_id for _, member_id in self._order])

    def __getitem__(self, member_id: str) -> int:
        return self._counts[member_id]

    @property
    def spread(self) -> int:
        """The difference between the most and the fewest."""
        return self._order[-1][0] - self._order[0][0] if self._order else 0

    def change(self, member_id: str, by: int) -> None:
        count = self._counts[member_id]
        del self._order[bisect_left(self._order, (count, member_id))]
        self._counts[member_id] = count + by
        insort(self._order, (count + by, member_id))

    def score(self) -> int:
        """0 is balanced: the sum of the differences between all pairs of members."""
        counts = [count for count, _ in self._order]
        return sum(count * (2 * index - len(counts) + 1) for index, count in enumerate(counts))


class MixedSubscriptions:
    """One such assignment; `divide` once."""

    def __init__(
        self,
        topics: Topics,
        racks: Racks,
        owners: PreviousOwners,
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._wants = {
            member_id: dict.fromkeys(topic for topic in one.topics if topic in topics)
            for member_id, one in subscriptions.items()
        }
        self._wanted_by = {
            topic: [member_id for member_id, wants in self._wants.items() if topic in wants]
            for topic in topics
        }
        self._earlier = owners.earlier()
        self._moves = PartitionMoves()
        self._revoking = False
        self._assignment = {
            member_id: self._keep(member_id, owned) for member_id, owned in owners.owned.items()
        }
        self._owner = {
            tp: member_id for member_id, partitions in self._assignment.items() for tp in partitions
        }
        self._loads = Loads(self._assignment)

    def _keep(self, member_id: str, owned: Iterable[TopicPartition]) -> list[TopicPartition]:
        kept = []
        for tp in owned:
            if tp.topic in self._wants[member_id] and not self._racks.mismatch(member_id, tp):
                kept.append(tp)
            else:
                self._revoking = True
        return kept

    def divide(self) -> Assignment:
        everything = self._all_partitions()
        unassigned = [tp for tp in everything if tp not in self._owner]
        fresh = not self._owner
        left = unassigned
        if self._racks.matter:
            left = [tp for tp in left if not self._assign(tp, near=True)]
        for tp in left:
            self._assign(tp, near=False)
        self._balance(
            [tp for tp in everything if self._movable(tp.topic)],
            [tp for tp in unassigned if self._movable(tp.topic)],
            fresh=fresh,
        )
        return self._assignment

    def _all_partitions(self) -> list[TopicPartition]:
        """Those that the fewest members want come first."""
        order = sorted(self._topics, key=lambda topic: (len(self._wanted_by[topic]), topic))
        return [tp for topic in order for tp in partitions_of(topic, self._topics)]

    def _assign(self, tp: TopicPartition, *, near: bool) -> bool:
        for member_id in self._loads:
            if tp.topic in self._wants[member_id] and not (near and self._racks.mismatch(member_id, tp)):
                self._assignment[member_id].append(tp)
                self._owner[tp] = member_id
                self._loads.change(member_id, 1)
                return True
        return False

    def _movable(self, topic: str) -> bool:
        return len(self._wanted_by[topic]) >= 2

    def _balance(
        self, everything: Sequence[TopicPartition], unassigned: Sequence[TopicPartition], *, fresh: bool
    ) -> None:
        members = [member_id for member_id in self._assignment if self._takes_part(member_id)]
        self._loads = Loads({member_id: self._assignment[member_id] for member_id in members})
        before = {member_id: list(self._assignment[member_id]) for member_id in members}
        score = self._loads.score()
        if not self._revoking:
            self._move_all(unassigned)
        moved = self._move_all(everything)
        if moved and not fresh and self._loads.score() >= score:
            self._assignment.update(before)

    def _takes_part(self, member_id: str) -> bool:
        """Whether anything can be given to the member, or taken from it."""
        possible = sum(len(self._topics[topic]) for topic in self._wants[member_id])
        owned = self._assignment[member_id]
        return len(owned) < possible or any(self._movable(tp.topic) for tp in owned)

    def _move_all(self, partitions: Sequence[TopicPartition]) -> bool:
        """Moves what helps, again and again until nothing does; whether anything moved."""
        ever, moved = False, True
        while moved:
            moved = False
            for tp in partitions:
                if self._balanced():
                    break
                target = self._better_owner(tp)
                if target is not None:
                    self._move(tp, target)
                    ever = moved = True
        return ever

    def _balanced(self) -> bool:
        return self._loads.spread <= 1 or not any(map(self._could_get_more, self._loads))

    def _could_get_more(self, member_id: str) -> bool:
        """Whether a partition that the member wants has an owner with at least two more."""
        limit = self._loads[member_id] + 1
        return any(
            self._loads[self._owner[tp]] > limit
            for topic in self._wants[member_id]
            if self._movable(topic)
            for tp in partitions_of(topic, self._topics)
        )

    def _better_owner(self, tp: TopicPartition) -> str | None:
        limit = self._loads[self._owner[tp]] - 1
        earlier = self._earlier.get(tp)
        if (
            earlier is not None
            and earlier[0] in self._wanted_by[tp.topic]
            and self._loads[earlier[0]] < limit
        ):
            return earlier[0]
        candidates = self._wanted_by[tp.topic]
        if any(self._loads[member_id] < limit for member_id in candidates):
            return next(member_id for member_id in self._loads if tp.topic in self._wants[member_id])
        return None

    def _move(self, tp: TopicPartition, target: str) -> None:
        tp = self._moves.better_candidate(tp, self._owner[tp], target)
        source = self._owner[tp]
        self._moves.record(tp, source, target)
        self._assignment[source].remove(tp)
        self._assignment[target].append(tp)
        self._owner[tp] = target
        self._loads.change(source, -1)
        self._loads.change(target, 1)

    def __repr__(self) -> str:
        return f"<MixedSubscriptions {len(self._assignment)} members, {len(self._topics)} topics>"

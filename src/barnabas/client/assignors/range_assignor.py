"""`RangeAssignor`: consecutive partitions of each topic to each member, the same ones of every topic.

Theory of operation
-------------------
Each topic is divided by itself: with 7 partitions and 3 members the first member gets 3, the others 2. As
the members stand in the same order for every topic, topics of equal size are divided alike, which joins of
topics rely on. Where consumers name their racks and not every rack has every partition (KIP-881), a first
round hands out only what matches: topics of the same size and members together, partition by partition, so
that they stay divided alike. The second round hands out the rest in the plain way.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from barnabas.client.assignors.assignor import (
    Assignment,
    Assignor,
    Subscription,
    Topics,
    members_in_order,
    partitions_of,
    racks_matter,
)
from barnabas.core.ids import TopicPartition


class RangeAssignor(Assignor):
    """Ranges of each topic; keeps to racks where it can."""

    name = "range"

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in subscriptions}
        divisions = _divisions(topics, subscriptions, assignment)
        by_rack = any(division.by_rack for division in divisions)
        if by_rack:
            _match_racks(divisions)
        for division in divisions:
            division.hand_out(lambda _member_id, _tp: True)
        if by_rack:
            for partitions in assignment.values():
                partitions.sort()
        return assignment


class _Division:
    """One topic while it is divided."""

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        racks: Sequence[frozenset[str]],
        consumers: Mapping[str, str | None],
        assignment: Assignment,
    ) -> None:
        self.consumers = consumers
        """The rack of each member that subscribes, in the order in which they are served."""
        self.partitions = partitions
        self.by_rack = racks_matter({rack for rack in consumers.values() if rack}, racks)
        self._racks = dict(zip(partitions, racks, strict=True))
        self._left = dict.fromkeys(partitions)
        self._taken = dict.fromkeys(consumers, 0)
        self._share, self._larger_shares = divmod(len(partitions), len(consumers))
        self._assignment = assignment

    def room(self, member_id: str) -> int:
        return max(0, self._share + (self._larger_shares > 0) - self._taken[member_id])

    def matches(self, member_id: str, tp: TopicPartition) -> bool:
        """Whether a replica is in the member's rack; a member without one matches all."""
        rack = self.consumers[member_id]
        return rack is None or rack in self._racks[tp]

    def hand_out(self, allowed: Callable[[str, TopicPartition], bool]) -> None:
        """To each member in turn what it may get of what is left."""
        for member_id in self.consumers:
            suitable = [tp for tp in self._left if allowed(member_id, tp)]
            self.give(member_id, suitable[: self.room(member_id)])

    def give(self, member_id: str, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        self._taken[member_id] += len(partitions)
        if self._taken[member_id] > self._share:
            self._larger_shares -= 1
        for tp in partitions:
            del self._left[tp]
        self._assignment[member_id] += partitions


def _divisions(
    topics: Topics, subscriptions: Mapping[str, Subscription], assignment: Assignment
) -> list[_Division]:
    order = members_in_order(subscriptions)
    divisions = []
    for topic in sorted(topics):
        consumers = {
            member_id: subscriptions[member_id].rack or None
            for member_id in order
            if topic in subscriptions[member_id].topics
        }
        if consumers and topics[topic]:
            divisions.append(_Division(partitions_of(topic, topics), topics[topic], consumers, assignment))
    return divisions


def _match_racks(divisions: Sequence[_Division]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Division]] = defaultdict(list)
    for division in divisions:
        alike[tuple(division.consumers), len(division.partitions)].append(division)
    for group in alike.values():
        if len(group) > 1:
            _match_racks_together(group)
        elif group[0].by_rack:
            group[0].hand_out(group[0].matches)


def _match_racks_together(group: Sequence[_Division]) -> None:
    """Partition n of all these topics to one member, if one suits all of them."""
    for number in range(len(group[0].partitions)):
        for member_id in group[0].consumers:
            if all(one.matches(member_id, one.partitions[number]) and one.room(member_id) for one in group):
                for one in group:
                    one.give(member_id, [one.partitions[number]])
                break

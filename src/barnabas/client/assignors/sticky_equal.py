"""`EqualSubscriptions`: the sticky assignment of members that all want the same topics, counted out.

Theory of operation
-------------------
With P partitions and M members each gets P // M (the quota), and P % M of them one more. Every member first
keeps what it had, up to what it may have: those who had more than the quota may keep one more while such
places last. The rest is dealt out in turn to members below the quota, then, one each, to members that stand
at it. Where racks matter, what is far from its member is not kept, and a round of dealing that looks at racks
comes before the plain one. (``AbstractStickyAssignor.ConstrainedAssignmentBuilder``.)
"""

from collections.abc import Sequence

from barnabas.client.assignors.assignor import Assignment, Topics, partitions_of
from barnabas.client.assignors.sticky_members import PreviousOwners
from barnabas.client.assignors.sticky_racks import Racks
from barnabas.core.ids import TopicPartition


class EqualSubscriptions:
    """One such assignment; `divide` once."""

    def __init__(self, topics: Topics, racks: Racks, owners: PreviousOwners) -> None:
        self.changing_hands: dict[TopicPartition, str] = {}
        """What a member got that another one had, or may have had."""
        self._topics = topics
        self._racks = racks
        self._owners = owners
        total = sum(map(len, topics.values()))
        self._quota, self._larger_places = divmod(total, max(1, len(owners.owned)))
        self._assignment: Assignment = {member_id: [] for member_id in owners.owned}
        self._below: list[str] = []
        """Members with less than the quota."""
        self._at_quota: list[str] = []
        """Members with just the quota that may get one more."""
        self._given_up: dict[TopicPartition, str] = {}

    def divide(self) -> Assignment:
        for member_id in self._assignment:
            self._keep(member_id)
        if not self._larger_places:
            self._at_quota.clear()
        self._below.sort()
        self._at_quota.sort()
        left = self._racks.hardest_first(self._unassigned())
        if self._racks.matter:
            left = self._deal_near(left)
        self._deal(left)
        assert not self._below, "every member has its quota"
        return self._assignment

    def _keep(self, member_id: str) -> None:
        owned = []
        for tp in sorted(self._owners.owned[member_id], key=lambda tp: (tp.partition, tp.topic)):
            if self._racks.mismatch(member_id, tp):
                self._given_up[tp] = member_id
            else:
                owned.append(tp)  # what two members claim is in neither's list
        room = self._quota
        if len(owned) > self._quota and self._larger_places:
            self._larger_places -= 1
            room += 1
        elif len(owned) < self._quota:
            self._below.append(member_id)
        else:
            self._at_quota.append(member_id)
        self._assignment[member_id] += owned[:room]
        self._given_up.update(dict.fromkeys(owned[room:], member_id))

    def _unassigned(self) -> list[TopicPartition]:
        assigned = {tp for partitions in self._assignment.values() for tp in partitions}
        return [
            tp
            for topic in sorted(self._topics)
            for tp in partitions_of(topic, self._topics)
            if tp not in assigned
        ]

    def _give(self, member_id: str, tp: TopicPartition) -> None:
        self._assignment[member_id].append(tp)
        if self._given_up.get(tp, member_id) != member_id or tp in self._owners.disputed:
            self.changing_hands[tp] = member_id

    def _deal_near(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Deals what is near a member with room; the rest."""
        turn = 0
        far = []
        for tp in partitions:
            index = self._racks.next_near(tp, self._below, turn)
            if index is not None:
                turn = self._give_below(index, tp)
            elif (index := self._racks.next_near(tp, self._at_quota, 0)) is not None:
                self._give_larger_place(index, tp)
            else:
                far.append(tp)
        return far

    def _deal(self, partitions: Sequence[TopicPartition]) -> None:
        turn = 0
        for tp in partitions:
            if self._below:
                turn = self._give_below(turn % len(self._below), tp)
            else:
                self._give_larger_place(0, tp)

    def _give_below(self, index: int, tp: TopicPartition) -> int:
        """To a member below the quota; whose turn is next."""
        member_id = self._below[index]
        self._give(member_id, tp)
        if len(self._assignment[member_id]) < self._quota:
            return index + 1
        del self._below[index]
        if self._larger_places:
            self._at_quota.append(member_id)
        return index

    def _give_larger_place(self, index: int, tp: TopicPartition) -> None:
        """To a member at the quota, which then has one more."""
        self._give(self._at_quota.pop(index), tp)
        self._larger_places -= 1
        if not self._larger_places:
            self._at_quota.clear()

    def __repr__(self) -> str:
        return f"<EqualSubscriptions quota={self._quota} below={self._below} at={self._at_quota}>"

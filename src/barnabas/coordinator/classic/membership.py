"""`Membership`: who is in a classic group, who leads it, and what all of them support.

Counts are kept as members come and change, never by walking over all of them: a JoinGroup into a group of five
hundred costs what it costs in a group of one. Knows no states and no time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.coordinator.classic.member import ClassicMember, MemberTerms, ParkedJoin
from barnabas.coordinator.classic.voting import winner

if TYPE_CHECKING:
    from barnabas.core.clock import Timer


class Membership:
    """Members by id, in the order of their coming, and those who only have been given an id."""

    __slots__ = ("_joined", "_members", "_supporters", "leader_id", "pending", "static")

    def __init__(self) -> None:
        self._members: dict[str, ClassicMember] = {}
        self._supporters: Counter[str] = Counter()
        self._joined = 0
        self.static: dict[str, str] = {}
        """Member id by ``group.instance.id``."""
        self.pending: dict[str, Timer] = {}
        """Ids given out with MEMBER_ID_REQUIRED (KIP-394) and not come back yet, with the end of the wait."""
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self._members.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._members[member_id]

    def get(self, member_id: str) -> ClassicMember | None:
        """The member of this id, if there is one."""
        return self._members.get(member_id)

    @property
    def ids(self) -> Iterable[str]:
        """The ids of all members."""
        return self._members.keys()

    @property
    def joined(self) -> int:
        """How many have a JoinGroup parked."""
        return self._joined

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missed any more, also none that was asked to come back with an id."""
        return self._joined == len(self._members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.terms.rebalance_timeout_ms for member in self), default=0)

    # Coming, changing, going

    def add(self, member: ClassicMember) -> None:
        """Takes in a new member; the first becomes the leader."""
        assert member.member_id not in self._members, f"{member} is already a member"
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static, f"{member} is there under another id"
            self.static[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._members[member.member_id] = member
        self._count(member, +1)
        self._joined += member.parked_join is not None
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Forgets a member or a pending id; whoever is left becomes the leader if it led.

        What was parked stays the caller's to answer.
        """
        self.forget_pending(member_id)
        member = self._members.pop(member_id, None)
        if member is None:
            return None
        self._count(member, -1)
        self._joined -= member.parked_join is not None
        if member.group_instance_id is not None:
            self.static.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._members), None)
        if member.session is not None:
            member.session.end()
        return member

    def update(self, member: ClassicMember, terms: MemberTerms) -> None:
        """The member says something new about itself."""
        self._count(member, -1)
        member.terms = terms
        self._count(member, +1)

    def replace_static(self, member: ClassicMember, new_member_id: str) -> None:
        """The same instance under a new member id, with all that it had, leadership too."""
        assert member.group_instance_id is not None, f"{member} is not static"
        old_member_id = member.member_id
        del self._members[old_member_id]
        member.member_id = new_member_id
        self._members[new_member_id] = member
        self.static[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id

    def forget_pending(self, member_id: str) -> None:
        """The id is used or given up; the wait for it ends."""
        timer = self.pending.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    # Parked joins

    def park_join(self, member: ClassicMember, parked: ParkedJoin) -> ParkedJoin | None:
        """The member has joined and waits; the request that it takes the place of, if there was one."""
        replaced = self.unpark_join(member)
        member.parked_join = parked
        self._joined += 1
        return replaced

    def unpark_join(self, member: ClassicMember) -> ParkedJoin | None:
        """The member's parked request, which is to be answered now."""
        parked, member.parked_join = member.parked_join, None
        self._joined -= parked is not None
        return parked

    def elect_joined_leader(self) -> bool:
        """Keeps the leader if it joined, else takes one that did; False when nobody did."""
        if self.leader_id is None:
            return False
        if self._members[self.leader_id].parked_join is not None:
            return True
        joined = next((member for member in self if member.parked_join is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    # Protocols

    def support_any(self, protocols: Iterable[str]) -> bool:
        """Whether all members support one of these."""
        size = len(self._members)
        return any(self._supporters[name] == size for name in protocols)

    def select_protocol(self) -> str:
        """Of what all support, that which most members like best."""
        size = len(self._members)
        assert size, "nobody is there to choose a protocol"
        candidates = {name for name, supporters in self._supporters.items() if supporters == size}
        return winner(member.vote(candidates) for member in self)

    def _count(self, member: ClassicMember, change: int) -> None:
        # A name given twice counts once: Kafka counts it twice and then finds no candidate at all.
        for name in {name for name, _ in member.terms.protocols}:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]

    def __repr__(self) -> str:
        return f"<Membership {len(self)} joined={self._joined} pending={len(self.pending)}>"

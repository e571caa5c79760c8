"""Who had which partition before a sticky assignment; a claim of a newer generation beats an older one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition

NO_GENERATION: Final = -1

_log = EventLog("client.assignor")


@dataclass(frozen=True, slots=True)
class MemberData:
    """What a member had, and in which generation (None where it cannot say)."""

    partitions: Sequence[TopicPartition]
    generation: int | None

    @property
    def age(self) -> int:
        return NO_GENERATION if self.generation is None else self.generation


class PreviousOwners:
    """The claims of all members, settled."""

    def __init__(self, topics: Collection[str], members: Mapping[str, MemberData]) -> None:
        self.members = members
        self.newest = max((member.age for member in members.values()), default=NO_GENERATION)
        self.owned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        """Each member's partitions that still exist and that no newer claim took away."""
        self.disputed: set[TopicPartition] = set()
        """Claimed by two members of one generation:
        without an owner, since neither is sure to have stopped.
        """
        self._owner: dict[TopicPartition, str] = {}
        for member_id, member in members.items():
            for tp in member.partitions:
                if tp.topic in topics:
                    self._claim(member_id, tp)

    def _claim(self, member_id: str, tp: TopicPartition) -> None:
        rival = self._owner.get(tp)
        if rival is None:
            self._take(member_id, tp)
            return
        ours, theirs = self.members[member_id].age, self.members[rival].age
        _log.warning(
            "assignor.claimed_twice", partition=tp, members=f"{rival},{member_id}", newer=ours != theirs
        )
        if ours >= theirs and tp in self.owned[rival]:
            self.owned[rival].remove(tp)
        if ours > theirs:
            self._take(member_id, tp)
        elif ours == theirs:
            self._owner[tp] = member_id
            self.disputed.add(tp)

    def _take(self, member_id: str, tp: TopicPartition) -> None:
        self.owned[member_id].append(tp)
        self._owner[tp] = member_id
        self.disputed.discard(tp)

    def earlier(self) -> dict[TopicPartition, tuple[str, int]]:
        """Who had a partition in the latest of the generations before the newest, and in which."""
        found: dict[TopicPartition, tuple[str, int]] = {}
        for member_id, member in self.members.items():
            if member.age < self.newest:
                for tp in member.partitions:
                    if tp not in found or member.age > found[tp][1]:
                        found[tp] = (member_id, member.age)
        return found

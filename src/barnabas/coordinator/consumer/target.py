"""`TargetAssignment`: what each member of a group is to have."""

from typing import Final

from barnabas.coordinator.consumer.assignment import NOTHING, Assignment

NEVER_ASSIGNED: Final = -1


class TargetAssignment:
    """The last assignment that an assignor made, and the group's epoch that it was made for."""

    __slots__ = ("_by_member", "epoch")

    def __init__(self) -> None:
        self.epoch = 0
        self._by_member: dict[str, Assignment] = {}

    def of(self, member_id: str | None) -> Assignment:
        """What a member is to have; nothing for one that no assignment knew."""
        return NOTHING if member_id is None else self._by_member.get(member_id, NOTHING)

    def get(self, member_id: str) -> Assignment | None:
        """What a member is to have; None for one that no assignment knew."""
        return self._by_member.get(member_id)

    def set(self, member_id: str, assignment: Assignment | None) -> None:
        """Takes over what a member is to have; None forgets it."""
        if assignment is None:
            self._by_member.pop(member_id, None)
        else:
            self._by_member[member_id] = assignment

    def __len__(self) -> int:
        return len(self._by_member)

    def __repr__(self) -> str:
        return f"<TargetAssignment epoch={self.epoch} members={len(self)}>"

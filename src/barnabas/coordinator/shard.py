"""`Shard`: the groups of one partition of ``__consumer_offsets`` that this broker leads
(``GroupCoordinatorShard``).
"""

from dataclasses import dataclass, field

from barnabas.coordinator.group import Group
from barnabas.coordinator.offsets.group_offsets import GroupOffsets
from barnabas.coordinator.runtime.state_machine import CoordinatorShard


@dataclass(slots=True)
class Shard(CoordinatorShard):
    """The groups of one partition, what they committed, and the journal that it is written to."""

    groups: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, GroupOffsets] = field(default_factory=dict)
    """By group; a group's entry outlives a change of its protocol, and goes when it holds nothing."""
    open_transactions: dict[int, set[str]] = field(default_factory=dict)
    """The groups that each producer (by id) has commits pending for."""

    def __repr__(self) -> str:
        return f"<Shard {self.partition} epoch={self.leader_epoch} groups={len(self.groups)}>"

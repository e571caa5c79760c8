"""What an assignor is given, and what it returns (``GroupSpec``)."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from barnabas.coordinator.consumer.assignment import NOTHING, Assignment
from barnabas.core.ids import Uuid
from barnabas.core.slices import Sliced


class MemberSpec(NamedTuple):
    """A member, as an assignor sees it."""

    subscribed: frozenset[Uuid]
    assigned: Assignment = NOTHING
    """Its target so far, which a good assignor changes as little as it can."""
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(NamedTuple):
    """A group, as an assignor sees it."""

    members: dict[str, MemberSpec]
    partition_counts: Mapping[Uuid, int]
    homogeneous: bool
    """Whether all members subscribe to the same topics."""


Assignor: TypeAlias = Callable[[GroupSpec], Sliced[dict[str, Assignment]]]
"""Makes the new target of each member, in slices: there may be very many members, topics and partitions.
A member without an entry gets nothing.
"""

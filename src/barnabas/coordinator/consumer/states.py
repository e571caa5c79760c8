"""The states of a member on its way to its target assignment, and of a group (KIP-848).

Theory of operation
-------------------
A member is told its partitions in two steps: first it gives up what others are to have, then it gets what
others have given up. Each heartbeat asks how far it has come; the answer is an `Outcome`, and `TRANSITIONS`
says into which state that leads. The diagram in the documentation is drawn from this table.

==============  ===================================================================================
STABLE          it has its target, or nobody has asked yet whether there is a newer one
UNREVOKED       it was told to give partitions up and has not confirmed that it did
UNRELEASED      it gave up what it had to; some of what it is to get is still with others
UNKNOWN         a later Kafka wrote a state that this one does not know; the member starts again
==============  ===================================================================================
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Final


class MemberState(IntEnum):
    """Where a member stands; the value is what is written down (``MemberState``)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> "MemberState":
        """The state with this number; UNKNOWN for one of a later version."""
        return _BY_VALUE.get(value, cls.UNKNOWN)


_BY_VALUE: Final = {int(state): state for state in MemberState}


class Outcome(Enum):
    """What a heartbeat of a member came to."""

    HOLDS = "it still holds what it must give up"
    REVOKE = "it must give partitions up"
    AWAIT = "it waits for partitions that others hold"
    SETTLE = "it has its target"


_FORWARD: Final = {
    Outcome.REVOKE: MemberState.UNREVOKED_PARTITIONS,
    Outcome.AWAIT: MemberState.UNRELEASED_PARTITIONS,
    Outcome.SETTLE: MemberState.STABLE,
}

TRANSITIONS: Final[Mapping[MemberState, Mapping[Outcome, MemberState]]] = MappingProxyType(
    {
        MemberState.STABLE: MappingProxyType(_FORWARD),
        MemberState.UNREVOKED_PARTITIONS: MappingProxyType(
            {Outcome.HOLDS: MemberState.UNREVOKED_PARTITIONS, **_FORWARD}
        ),
        MemberState.UNRELEASED_PARTITIONS: MappingProxyType(_FORWARD),
        MemberState.UNKNOWN: MappingProxyType(_FORWARD),
    }
)
"""Only a member that was told to give something up can still hold it."""


class ConsumerGroupState(Enum):
    """The state of a group as tools print it (``ConsumerGroup.ConsumerGroupState``)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"

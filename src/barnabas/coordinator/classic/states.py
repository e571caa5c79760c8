"""The states of a classic group, and which may follow which (``ClassicGroupState``, ``GroupState``).

The rows are Kafka's ``validPreviousStates``, each cell with what leads from one state to the other; the
figure in ``docs/groups.md`` and the test that walks every cell both come from here.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ClassicGroupState(Enum):
    """The state of a group; tools print the value."""

    EMPTY = "Empty"
    """No members. New ones may come; offsets stay until they expire. Also a group that only commits."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """JoinGroup requests are parked until every member has joined or the rebalance time-out is over."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """There is a new generation; SyncGroup requests are parked until the leader brings the assignment."""
    STABLE = "Stable"
    """Every member has its assignment and says so from time to time."""
    DEAD = "Dead"
    """Given up, by deletion, by expiry or because another broker leads the partition now."""


_S = ClassicGroupState

TRANSITIONS: Final[Mapping[ClassicGroupState, Mapping[ClassicGroupState, str]]] = {
    _S.PREPARING_REBALANCE: {
        _S.EMPTY: "a member joins",
        _S.STABLE: "a member joins again, changes, leaves or is silent",
        _S.COMPLETING_REBALANCE: "a member joins, changes, leaves, is silent or does not sync",
    },
    _S.COMPLETING_REBALANCE: {_S.PREPARING_REBALANCE: "the members have joined"},
    _S.STABLE: {_S.COMPLETING_REBALANCE: "the leader's assignment is written"},
    _S.EMPTY: {_S.PREPARING_REBALANCE: "all members are gone"},
    _S.DEAD: dict.fromkeys(_S, "deleted, expired or unloaded"),
}
"""To reach a state, a group must be in one of these; the words say what moves it."""

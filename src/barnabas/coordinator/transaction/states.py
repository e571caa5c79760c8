"""The states of a transaction, and which may follow which (``TransactionState``).

The rows are Kafka's ``validPreviousStates``, each cell with what leads from one state to the other; the
figure in ``docs/transactions.md`` and the test that walks every cell both come from here.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The state of a transaction; records have the number."""

    EMPTY = 0
    """The id has a producer, and no transaction yet."""
    ONGOING = 1
    """Partitions were added; the producer writes to them."""
    PREPARE_COMMIT = 2
    """It is decided to commit: the markers are on their way."""
    PREPARE_ABORT = 3
    """It is decided to abort: the markers are on their way."""
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id has expired: its tombstone is being written. Only pending, never written itself."""
    PREPARE_EPOCH_FENCE = 7
    """The producer is being fenced, and its transaction aborted. Only pending, never written."""

    @property
    def label(self) -> str:
        """The name that tools and the wire know: ``PrepareCommit``."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided, and markers are on their way."""
        return self in (_S.PREPARE_COMMIT, _S.PREPARE_ABORT)


_S = TransactionState
_LABELS: Final = {state: state.name.title().replace("_", "") for state in _S}
BY_LABEL: Final = {label: state for state, label in _LABELS.items()}

_BEGINS: Final = "a producer begins"
_ADDED: Final = "a partition or a group is added"
_EXPIRED: Final = "the id has expired"
_WRITTEN: Final = "all markers are written"
_NOTHING: Final = "a transaction without partitions is aborted (version 2)"

TRANSITIONS: Final[Mapping[TransactionState, Mapping[TransactionState, str]]] = {
    _S.EMPTY: {_S.EMPTY: _BEGINS, _S.COMPLETE_COMMIT: _BEGINS, _S.COMPLETE_ABORT: _BEGINS},
    _S.ONGOING: {
        _S.ONGOING: "another partition or group is added",
        _S.EMPTY: _ADDED,
        _S.COMPLETE_COMMIT: _ADDED,
        _S.COMPLETE_ABORT: _ADDED,
    },
    _S.PREPARE_COMMIT: {_S.ONGOING: "the producer commits"},
    _S.PREPARE_ABORT: {
        _S.ONGOING: "the producer aborts",
        _S.PREPARE_EPOCH_FENCE: "the epoch is bumped",
        _S.EMPTY: _NOTHING,
        _S.COMPLETE_COMMIT: _NOTHING,
        _S.COMPLETE_ABORT: _NOTHING,
    },
    _S.COMPLETE_COMMIT: {_S.PREPARE_COMMIT: _WRITTEN},
    _S.COMPLETE_ABORT: {_S.PREPARE_ABORT: _WRITTEN},
    _S.DEAD: {_S.EMPTY: _EXPIRED, _S.COMPLETE_COMMIT: _EXPIRED, _S.COMPLETE_ABORT: _EXPIRED},
    _S.PREPARE_EPOCH_FENCE: {_S.ONGOING: "a new producer begins, or the time is over"},
}
"""To reach a state, a transaction must be in one of these; the words say what moves it."""

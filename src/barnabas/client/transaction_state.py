"""The states of a transactional producer, as one table, and what each code of a coordinator does to them.

```
                     begin                commit                 the end is written
 READY ----------------------> IN_TRANSACTION ----> COMMITTING ----------------------> READY
   ^                             |     | abort          |
   | a producer id               |     v                | a batch or a request failed
 INITIALIZING <-- UNINITIALIZED  |  ABORTING <-----.    v
   ^                             |     |    abort  `-- ABORTABLE_ERROR
   `-----------------------------|-----' a new epoch is needed     ^
                                 `---------------------------------' a batch or a request failed

 any state --- fenced, not authorised, or not foreseen ---> FATAL_ERROR
```

``TransactionManager.State`` of Java's client, without its pending transitions: here a call that ends a
transaction is a task, and a caller that calls again waits for the same one.
"""

from enum import Enum, auto
from typing import Final

from barnabas.core.errors import ErrorCode


class TransactionState(Enum):
    """Where a transactional producer is."""

    UNINITIALIZED = auto()
    INITIALIZING = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    FATAL_ERROR = auto()


_S = TransactionState

VALID_SOURCES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset(),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.ABORTING}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTABLE_ERROR}),
    _S.FATAL_ERROR: frozenset(_S),
}
"""From which states each state may be entered (``isTransitionValid``)."""


class TransactionOutcome(Enum):
    """What the answer to a transactional request leads to."""

    DONE = auto()
    AGAIN = auto()
    """The same again, after a pause."""
    SOON = auto()
    """So too, but the markers of the transaction before are on their way: it takes milliseconds."""
    UNKNOWN = auto()
    """There was no answer: the coordinator may have done it."""
    MOVED = auto()
    """The coordinator is looked up again first."""
    ABORT = auto()
    """The transaction can only be aborted."""
    BUMP = auto()
    """So too, and the producer takes a new epoch before the next one (KIP-360)."""
    FENCED = auto()
    """Another producer has the transactional id: this one can only be closed."""
    DIE = auto()
    """Not authorised, or not foreseen: this producer can only be closed."""


_O = TransactionOutcome
_C = ErrorCode

_COMMON: Final[dict[ErrorCode, TransactionOutcome]] = {
    _C.NONE: _O.DONE,
    _C.COORDINATOR_NOT_AVAILABLE: _O.MOVED,
    _C.NOT_COORDINATOR: _O.MOVED,
    _C.COORDINATOR_LOAD_IN_PROGRESS: _O.AGAIN,
    _C.CONCURRENT_TRANSACTIONS: _O.AGAIN,
    _C.INVALID_PRODUCER_EPOCH: _O.FENCED,
    _C.PRODUCER_FENCED: _O.FENCED,
    _C.UNKNOWN_PRODUCER_ID: _O.BUMP,
    _C.INVALID_PRODUCER_ID_MAPPING: _O.BUMP,
    _C.TRANSACTION_ABORTABLE: _O.ABORT,
}
INIT_PRODUCER_ID: Final = {
    **_COMMON,
    _C.UNKNOWN_PRODUCER_ID: _O.DIE,
    _C.INVALID_PRODUCER_ID_MAPPING: _O.DIE,
}
# What begins the next transaction: ``AddPartitionsToTxnHandler`` of Java's client asks again after 20 ms.
_BEGINS: Final = {**_COMMON, _C.CONCURRENT_TRANSACTIONS: _O.SOON}
ADD_PARTITIONS: Final = {
    **_BEGINS,
    _C.UNKNOWN_TOPIC_OR_PARTITION: _O.AGAIN,
    _C.TOPIC_AUTHORIZATION_FAILED: _O.ABORT,
    _C.OPERATION_NOT_ATTEMPTED: _O.ABORT,
    _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _O.DIE,
    _C.INVALID_TXN_STATE: _O.DIE,
}
ADD_OFFSETS: Final = {**_BEGINS, _C.GROUP_AUTHORIZATION_FAILED: _O.ABORT}
OFFSET_COMMIT: Final = {
    **_BEGINS,
    _C.REQUEST_TIMED_OUT: _O.MOVED,
    _C.UNKNOWN_TOPIC_OR_PARTITION: _O.AGAIN,
    _C.GROUP_AUTHORIZATION_FAILED: _O.ABORT,
    _C.FENCED_INSTANCE_ID: _O.ABORT,
    _C.UNKNOWN_MEMBER_ID: _O.ABORT,
    _C.ILLEGAL_GENERATION: _O.ABORT,
    _C.STALE_MEMBER_EPOCH: _O.ABORT,
}
END: Final = _COMMON
"""What each code means by the request that it answers; a code that is not there is `TransactionOutcome.DIE`
(of ADD_PARTITIONS: `TransactionOutcome.ABORT`).
"""

FATAL_IN_PRODUCE: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Codes of a refused batch after which no transaction of this producer can continue
(``maybeTransitionToErrorState``).
"""

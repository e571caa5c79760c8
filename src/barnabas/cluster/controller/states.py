"""The states of partitions and replicas, and which may follow which: tables, and what both state machines ask
them.

The rows are Kafka's ``validPreviousStates``; the diagram in the documentation and the test that walks every
cell both come from here. What a transition does is in `partition_state_machine` and `replica_state_machine`.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final, TypeVar

from barnabas.core.errors import IllegalTransitionError


class PartitionPhase(Enum):
    """Where a partition stands (``PartitionState``)."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaPhase(Enum):
    """Where a replica stands (``ReplicaState``)."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


_P, _R = PartitionPhase, ReplicaPhase

PARTITION_TRANSITIONS: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = {
    _P.NEW: frozenset({_P.NON_EXISTENT}),
    _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
    _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
}
"""To reach a phase, a partition must be in one of these."""

REPLICA_TRANSITIONS: Final[Mapping[ReplicaPhase, frozenset[ReplicaPhase]]] = {
    _R.NEW: frozenset({_R.NON_EXISTENT}),
    _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
    _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
    _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
    _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED}),
    _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
}
"""To reach a phase, a replica must be in one of these."""

NAMED_MAX: Final = 10
"""How many partitions or replicas are named in one line of the log."""

Phase = TypeVar("Phase", PartitionPhase, ReplicaPhase)
Thing = TypeVar("Thing")


def check_transition(
    what: object, current: Phase, target: Phase, table: Mapping[Phase, frozenset[Phase]]
) -> None:
    """Raises IllegalTransitionError where the table has no such transition."""
    if current not in table[target]:
        allowed = ", ".join(sorted(phase.value for phase in table[target]))
        raise IllegalTransitionError(
            f"{what} should be in one of {allowed} before moving to {target.value}; it is in {current.value}"
        )


def movable(
    things: Iterable[Thing],
    phases: dict[Thing, Phase],
    target: Phase,
    table: Mapping[Phase, frozenset[Phase]],
    log: Callable[..., None],
) -> list[Thing]:
    """The partitions or replicas that may move to a phase;
    the others are logged and stay (``logInvalidTransition``).
    """
    able = []
    refused: dict[Thing, object] = {}
    for thing in things:
        try:
            check_transition(thing, phases.setdefault(thing, type(target).NON_EXISTENT), target, table)
        except IllegalTransitionError as error:
            refused[thing] = error
        else:
            able.append(thing)
    log_failures(log, "illegal_transition", refused)
    return able


def log_failures(log: Callable[..., None], event: str, failures: Mapping[Any, Any], **fields: Any) -> None:
    """One line for what went wrong with many partitions: a broker that dies may take thousands along."""
    if failures:
        named = ",".join(str(each) for each in islice(failures, NAMED_MAX))
        more = ",..." if len(failures) > NAMED_MAX else ""
        reason = next(iter(failures.values()))
        log(event, count=len(failures), partitions=f"{named}{more}", reason=reason, **fields)

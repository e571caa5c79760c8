"""Every cell of the transition tables, against Kafka's validPreviousStates."""

import pytest

from barnabas.cluster.controller.states import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionPhase,
    ReplicaPhase,
    check_transition,
)
from barnabas.core.errors import IllegalTransitionError

# Rows: where it is. Columns: where it is moved to, in the order of the enumeration.
PARTITIONS = """
                     NonExistent New Online Offline
NonExistentPartition .           x   .      .
NewPartition         .           .   x      x
OnlinePartition      .           .   x      x
OfflinePartition     x           .   x      x
"""
REPLICAS = """
                          NonExistent New Online Offline Started Successful Ineligible
NonExistentReplica        .           x   .      .       .       .          .
NewReplica                .           .   x      x       .       .          .
OnlineReplica             .           .   x      x       .       .          .
OfflineReplica            .           .   x      x       x       .          x
ReplicaDeletionStarted    .           .   .      .       .       x          x
ReplicaDeletionSuccessful x           .   .      .       .       .          .
ReplicaDeletionIneligible .           .   x      x       .       .          .
"""


def cells(picture, phases, table):
    for line in picture.strip().splitlines()[1:]:
        name, *marks = line.split()
        for mark, target in zip(marks, phases, strict=True):
            yield pytest.param(phases(name), target, table, mark == "x", id=f"{name}-{target.value}")


@pytest.mark.parametrize(
    ("current", "target", "table", "legal"),
    [
        *cells(PARTITIONS, PartitionPhase, PARTITION_TRANSITIONS),
        *cells(REPLICAS, ReplicaPhase, REPLICA_TRANSITIONS),
    ],
)
def test_each_cell(current, target, table, legal):
    if legal:
        check_transition("t-0", current, target, table)
    else:
        with pytest.raises(
            IllegalTransitionError, match=f"before moving to {target.value}; it is in {current.value}"
        ):
            check_transition("t-0", current, target, table)


def test_all_cells_are_walked():
    assert PARTITION_TRANSITIONS.keys() == set(PartitionPhase)
    assert REPLICA_TRANSITIONS.keys() == set(ReplicaPhase)

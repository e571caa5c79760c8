"""Every cell of the table of states, against the validPreviousStates of Kafka's TransactionState."""

import pytest

from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.coordinator.transaction.states import TRANSITIONS, TransactionState
from barnabas.core.errors import IllegalTransitionError

# Rows: where it is. Columns: what is prepared, in the order of the enumeration.
PICTURE = """
                  Empty Ongoing PrepCommit PrepAbort CompCommit CompAbort Dead Fence
Empty             x     x       .          x         .          .         x    .
Ongoing           .     x       x          x         .          .         .    x
PrepareCommit     .     .       .          .         x          .         .    .
PrepareAbort      .     .       .          .         .          x         .    .
CompleteCommit    x     x       .          x         .          .         x    .
CompleteAbort     x     x       .          x         .          .         x    .
Dead              .     .       .          .         .          .         .    .
PrepareEpochFence .     .       .          x         .          .         .    .
"""
PREPARE = [
    lambda each, _: each.prepare_producer(None, new_producer_id=-1, timeout_ms=1, now_ms=2),
    lambda each, version: each.prepare_add_partitions({}, 2, client_version=version),
    lambda each, version: each.prepare_end(2, committed=True, client_version=version),
    lambda each, version: each.prepare_end(2, committed=False, client_version=version),
    lambda each, _: each.prepare_complete(2),
    lambda each, _: each.prepare_complete(2),
    lambda each, _: each.prepare_dead(),
    lambda each, version: each.prepare_epoch_fence_and_abort(2, server_version=version),
]


def cells():
    for line in PICTURE.strip().splitlines()[1:]:
        name, *marks = line.split()
        current = next(state for state in TransactionState if state.label == name)
        for mark, target in zip(marks, TransactionState, strict=True):
            yield pytest.param(current, target, mark == "x", id=f"{name}-{target.label}")


def metadata_in(state):
    return TransactionMetadata(
        "id", producer_id=7, producer_epoch=3, timeout_ms=1, last_update_ms=0, state=state
    )


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(("current", "target", "allowed"), list(cells()))
def test_a_transaction_moves_where_the_table_says(current, target, allowed, version):
    assert (current in TRANSITIONS[target]) is allowed
    metadata = metadata_in(current)
    before = metadata.producer
    # The fence is passed through in the moment in which it is prepared.
    fence = target is TransactionState.PREPARE_EPOCH_FENCE
    pending = TransactionState.PREPARE_ABORT if fence else target
    try:
        transition = PREPARE[target](metadata, version)
    except IllegalTransitionError:
        assert not allowed
        assert metadata.pending_state is None
        assert metadata.producer == before
    else:
        assert (metadata.pending_state is pending) is allowed
        assert metadata.state is current
        if transition is not None and allowed:
            assert transition.state is pending
            metadata.complete(transition)
            assert (metadata.state, metadata.pending_state) == (pending, None)


@pytest.mark.parametrize("target", TransactionState)
def test_nothing_is_prepared_while_something_is_pending(target):
    for state in TransactionState:
        metadata = metadata_in(state)
        metadata.pending_state = TransactionState.ONGOING
        with pytest.raises(IllegalTransitionError):
            PREPARE[target](metadata, 0)


def test_what_is_taken_back_can_be_prepared_again():
    metadata = metadata_in(TransactionState.ONGOING)
    metadata.prepare_end(1, committed=True, client_version=0)

    metadata.take_back()

    assert metadata.prepare_end(2, committed=False, client_version=0).state is TransactionState.PREPARE_ABORT


def test_only_what_is_pending_is_completed():
    metadata = metadata_in(TransactionState.ONGOING)
    commit = metadata.prepare_end(1, committed=True, client_version=0)
    metadata.take_back()
    metadata.prepare_end(1, committed=False, client_version=0)

    with pytest.raises(IllegalTransitionError):
        metadata.complete(commit)


def test_every_way_says_what_leads_along_it():
    assert set(TRANSITIONS) == set(TransactionState)
    assert all(reason for ways in TRANSITIONS.values() for reason in ways.values())

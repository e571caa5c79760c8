"""EndTxn: the decision, and when it is answered."""

import pytest
from transaction_rig import ORDERS, PAYMENTS, Rig, settled

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import partitions_in

E = ErrorCode


@pytest.fixture
def rig():
    return Rig()


@pytest.mark.parametrize(
    ("committed", "prepared", "complete"), [(True, 2, 4), (False, 3, 5)], ids=["commit", "abort"]
)
def test_the_decision_is_written_then_the_markers_then_the_end(rig, committed, prepared, complete):
    producer = rig.ongoing(ORDERS, PAYMENTS)

    assert rig.end(producer, committed=committed) is None
    assert rig.journal.states[-1] == prepared
    rig.turn()
    ((broker, (marker,), _),) = rig.channel.sent
    assert (broker, marker.producer, marker.committed) == (1, producer, committed)
    assert (marker.coordinator_epoch, list(partitions_in(marker.partitions))) == (5, [ORDERS, PAYMENTS])
    assert rig.journal.states[-1] == prepared
    rig.channel.answer()

    assert rig.journal.states[-1] == complete
    assert rig.journal.values[-1].transaction_partitions == []
    assert (rig.metadata().state, list(partitions_in(rig.metadata().partitions))) == (complete, [])


def test_the_answer_and_the_markers_wait_for_the_replicas(rig):
    producer = rig.ongoing()
    rig.journal.waits = True
    ending = rig.end(producer)
    rig.turn()

    assert not ending.done
    assert rig.channel.sent == []
    rig.journal.replicate()
    assert settled(ending) == producer
    assert rig.channel.sent == []  # answered before any marker is sent
    rig.turn()
    assert len(rig.channel.sent) == 1


def test_a_decision_that_the_replicas_do_not_get_is_none(rig):
    producer = rig.ongoing()
    rig.journal.waits = True
    ending = rig.end(producer)
    rig.journal.replicate(E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    rig.turn()

    assert settled(ending) is E.COORDINATOR_NOT_AVAILABLE
    assert (rig.state(), rig.channel.sent) == ("Ongoing", [])
    # The producer may change its mind.
    rig.journal.waits = False
    assert rig.end(producer, committed=False) is None
    assert rig.state() == "PrepareAbort"


def test_a_decision_that_counts_under_another_coordinator_sends_no_marker_from_here(rig):
    producer = rig.ongoing()
    rig.journal.waits = True
    ending = rig.end(producer)
    rig.coordinator.resigned(0, 6)
    rig.journal.replicate()
    rig.turn()

    assert settled(ending) is E.NOT_COORDINATOR
    assert rig.channel.sent == []


OUTCOMES = {
    # state: (asked to commit, asked to abort)
    "Empty": (E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    "PrepareCommit": (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    "PrepareAbort": (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    "CompleteCommit": (None, E.INVALID_TXN_STATE),
    "CompleteAbort": (E.INVALID_TXN_STATE, None),
}


@pytest.mark.parametrize("state", OUTCOMES)
def test_asked_again(rig, state):
    committed = "Commit" in state
    if state == "Empty":
        producer = rig.init()
    elif "Complete" in state:
        producer = rig.ended(committed=committed)
    else:
        producer = rig.ongoing()
        rig.end(producer, committed=committed)
    assert rig.state() == state
    written = len(rig.journal.written)

    assert tuple(rig.end(producer, committed=each) for each in (True, False)) == OUTCOMES[state]
    assert (rig.state(), len(rig.journal.written)) == (state, written)


@pytest.mark.parametrize("committed", [True, False])
def test_a_prepared_end_that_nobody_completes_any_more_is_answered_by_its_kind(rig, committed):
    """After KAFKA_STORAGE_ERROR for the last record, nothing is pending;
    the next coordinator completes it.
    """
    producer = rig.ongoing()
    rig.end(producer, committed=committed)
    rig.journal.refuses = E.KAFKA_STORAGE_ERROR
    rig.turn()
    rig.channel.answer()

    assert rig.metadata().pending_state is None
    assert rig.end(producer, committed=committed) is E.CONCURRENT_TRANSACTIONS
    assert rig.end(producer, committed=not committed) is E.INVALID_TXN_STATE

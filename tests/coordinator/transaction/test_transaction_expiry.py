"""Transactions that are open for too long; what is listed of transactions."""

import pytest
from transaction_rig import ID, PAYMENTS, TIMEOUT_MS, Rig

from barnabas.core.errors import ErrorCode, KafkaError

E = ErrorCode
SWEEP_MS = 10_000


@pytest.fixture
def rig():
    return Rig()


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced(rig):
    producer = rig.ongoing()
    rig.turn(TIMEOUT_MS)
    assert rig.state() == "Ongoing"  # the time is not over before its last moment is
    rig.turn(SWEEP_MS)

    assert (rig.state(), rig.metadata().producer) == ("PrepareAbort", (1000, 1))
    rig.turn()
    rig.channel.answer()
    assert rig.state() == "CompleteAbort"
    assert rig.end(producer) is E.PRODUCER_FENCED


def test_a_producer_of_before_the_fence_is_not_taken_for_one_that_asks_again(rig):
    """KIP-360: a request with the epoch before is repeated; after a fence there is no such epoch."""
    first = rig.init()
    second = rig.init(first)
    assert rig.add(second) is None
    rig.turn(TIMEOUT_MS + SWEEP_MS)
    rig.turn()
    rig.channel.answer()

    assert rig.state() == "CompleteAbort"
    assert rig.init(first) is rig.init(second) is E.PRODUCER_FENCED
    assert rig.init() == (1000, 3)


def test_the_time_counts_from_the_first_partition(rig):
    rig.init()
    rig.turn(10 * TIMEOUT_MS)

    assert rig.add((1000, 0)) is None
    rig.turn(TIMEOUT_MS - SWEEP_MS)
    assert rig.state() == "Ongoing"


def test_a_transaction_with_something_pending_is_left_alone(rig):
    producer = rig.ongoing()
    rig.journal.waits = True
    rig.end(producer)
    rig.turn(2 * TIMEOUT_MS)

    assert rig.metadata().producer == producer
    rig.journal.replicate()
    assert rig.state() == "PrepareCommit"


def test_a_time_out_that_could_not_be_written_is_told_and_tried_again(rig, caplog):
    rig.ongoing()
    rig.journal.refuses = E.NOT_ENOUGH_REPLICAS
    rig.turn(TIMEOUT_MS + 3 * SWEEP_MS)
    assert (rig.state(), rig.metadata().producer) == ("Ongoing", (1000, 1))
    told = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert told
    assert all(each.startswith("transaction.not_aborted") for each in told)
    rig.journal.refuses = None
    rig.turn(SWEEP_MS)

    assert (rig.state(), rig.metadata().producer) == ("PrepareAbort", (1000, 1))


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_a_wall_clock_that_jumps_ends_a_transaction_early_or_late_and_never_twice(rig, jump_ms):
    """Time-outs count by the wall clock, as in Kafka: forward it fences at once, back it waits for longer."""
    producer = rig.ongoing()
    of_wall = rig.clock.time_ms
    rig.clock.time_ms = lambda: of_wall() + jump_ms
    rig.turn(10_000)

    if jump_ms > 0:
        assert rig.state() == "PrepareAbort"
        assert rig.end(producer) is E.PRODUCER_FENCED
    else:
        assert rig.add(producer, PAYMENTS) is None
        assert rig.end(producer) is None
        rig.turn()
    assert len(rig.channel.sent) == 1
    rig.channel.answer()
    rig.turn(10_000)
    assert rig.channel.sent == []
    assert isinstance(rig.init(), tuple)


def test_the_sweep_comes_as_often_as_configured():
    rig = Rig(transaction_abort_timed_out_transaction_cleanup_interval_ms=1000)
    rig.ongoing()
    rig.turn(TIMEOUT_MS + 1000)

    assert rig.state() == "PrepareAbort"


# --- what is listed and described


def test_ids_are_listed_by_state_producer_and_duration(rig):
    open_since = rig.clock.time_ms()
    for name in ("a", "b", "c"):
        producer = rig.init(transactional_id=name)
        if name != "c":
            rig.add(producer, transactional_id=name)
            rig.turn(100)

    assert rig.listed() == ["a", "b", "c"]
    assert rig.listed(state_names={"Ongoing"}) == ["a", "b"]
    assert rig.listed(state_names={"Empty", "Unknown"}) == ["c"]
    assert rig.listed(state_names={"Unknown"}) == []
    assert rig.listed(producer_ids={1001, 1002}) == ["b", "c"]
    assert rig.clock.time_ms() == open_since + 200
    # An id without a transaction began one at -1, in the eyes of Kafka.
    assert rig.listed(duration_ms=100) == ["a", "c"]
    assert rig.listed(duration_ms=0) == ["a", "b", "c"]


def test_an_id_that_is_not_known(rig):
    for name, code in (("unknown", E.TRANSACTIONAL_ID_NOT_FOUND), ("", E.INVALID_REQUEST)):
        with pytest.raises(KafkaError) as refused:
            rig.coordinator.describe(name)
        assert refused.value.code is code


def test_before_the_start_and_after_the_end_nothing_is_told(rig):
    rig.coordinator.shutdown()

    for ask in (rig.listed, lambda: rig.coordinator.describe(ID)):
        with pytest.raises(KafkaError) as refused:
            ask()
        assert refused.value.code is E.COORDINATOR_NOT_AVAILABLE
    assert rig.init() is E.NOT_COORDINATOR


def test_start_and_end_are_told(caplog):
    caplog.set_level("INFO")
    Rig().coordinator.shutdown()

    assert "transactions.startup.complete partitions=1" in caplog.text
    assert "transactions.shutdown.complete" in caplog.text

"""Transactions that are open for too long, and ids that nothing happens to; what is listed of them."""

import pytest
from transaction_rig import ID, PAYMENTS, TIMEOUT_MS, Rig

from barnabas.core.errors import ErrorCode, KafkaError

E = ErrorCode
SWEEP_MS = 10_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


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


# --- ids


@pytest.mark.parametrize("left", ["init", "ended"])
def test_an_id_that_nothing_happens_to_is_forgotten(rig, left, caplog):
    caplog.set_level("INFO")
    getattr(rig, left)()
    rig.turn(WEEK_MS - HOUR_MS)
    assert rig.listed() == [ID]
    rig.turn(HOUR_MS)

    assert rig.listed() == []
    assert rig.journal.written[-1][0].key.transactional_id == ID
    assert rig.journal.values[-1] is None
    assert rig.journal.timeouts[-1] == 30_000
    assert "expiry.finished partition=0 ids=1" in caplog.text


def test_an_id_whose_time_is_over_may_be_used_before_it_is_looked_for(rig):
    rig.init()
    rig.turn(WEEK_MS - 1)
    rig.init()
    rig.turn(HOUR_MS)

    assert rig.listed() == [ID]


def test_an_open_transaction_never_expires(rig):
    rig.ongoing()
    rig.metadata().timeout_ms = 10 * WEEK_MS
    rig.turn(2 * WEEK_MS)

    assert rig.state() == "Ongoing"


def test_nobody_gets_the_id_while_its_tombstone_is_not_replicated(rig):
    rig.init()
    rig.journal.waits = True
    rig.turn(WEEK_MS)

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    rig.journal.replicate()
    assert rig.listed() == []


def test_an_id_with_something_pending_stays_and_is_in_nobodys_way(rig):
    for name in "ab":
        rig.init(transactional_id=name)
    rig.turn(WEEK_MS - HOUR_MS)
    rig.journal.waits = True
    rig.init(transactional_id="a")
    rig.turn(HOUR_MS)
    rig.journal.replicate()

    assert rig.listed() == ["a"]


def test_an_id_whose_tombstone_could_not_be_written_stays(rig):
    rig.init()
    rig.journal.refuses = E.NOT_ENOUGH_REPLICAS
    rig.turn(WEEK_MS)
    assert rig.listed() == [ID]
    rig.journal.refuses = None
    assert rig.init() == (1000, 1)


def test_tombstones_go_in_batches_that_the_topic_takes(rig):
    names = [f"copier-{number:03}" for number in range(100)]
    for name in names:
        rig.init(transactional_id=name)
    rig.log.config = type("config", (), {"max_message_bytes": 500})
    rig.journal.written.clear()
    rig.turn(WEEK_MS)

    assert rig.listed() == []
    sizes = [len(records) for records in rig.journal.written]
    assert sum(sizes) == 100
    assert all(1 < size <= 10 for size in sizes[:-1])


def test_a_tombstone_above_what_the_topic_takes_goes_alone(rig):
    """The topic refuses it or not; nothing is written beside it, and no batch of none before it."""
    for name in ("copier-1", "copier-2", "copier-3"):
        rig.init(transactional_id=name)
    rig.log.config = type("config", (), {"max_message_bytes": 50})
    rig.journal.written.clear()
    rig.turn(WEEK_MS)

    assert [len(records) for records in rig.journal.written] == [1, 1, 1]
    assert rig.listed() == []


def test_both_are_as_long_as_configured():
    rig = Rig(
        transactional_id_expiration_ms=5000, transaction_remove_expired_transaction_cleanup_interval_ms=1000
    )
    rig.init()
    rig.turn(4000)
    assert rig.listed() == [ID]
    rig.turn(1000)

    assert rig.listed() == []


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

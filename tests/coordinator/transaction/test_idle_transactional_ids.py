"""Transactional ids that nothing happens to are forgotten."""

import pytest
from transaction_rig import ID, Rig

from barnabas.core.errors import ErrorCode

E = ErrorCode
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


@pytest.fixture
def rig():
    """Looks once an hour for transactions that are open for too long: every 10 s, a week takes seconds."""
    return Rig(transaction_abort_timed_out_transaction_cleanup_interval_ms=HOUR_MS)


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

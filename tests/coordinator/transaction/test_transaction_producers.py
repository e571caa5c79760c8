"""InitProducerId: who the producer is, and who is fenced (KIP-98, KIP-360)."""

import pytest
from transaction_rig import ID, TIMEOUT_MS, Rig, settled

from barnabas.coordinator.transaction.metadata import EPOCH_MAX
from barnabas.core.errors import ErrorCode, IllegalTransitionError
from barnabas.core.pending import Pending

E = ErrorCode
EXHAUSTED = EPOCH_MAX - 1


@pytest.fixture
def rig():
    return Rig()


def with_epoch(rig, epoch, *, last_epoch=-1):
    """The id as if it had come so far."""
    producer_id, _ = rig.init()
    rig.metadata().producer_epoch = epoch
    rig.metadata().last_producer_epoch = last_epoch
    return producer_id


def test_a_new_id_begins_with_epoch_0_and_each_producer_has_the_next(rig):
    assert [rig.init() for _ in range(3)] == [(1000, 0), (1000, 1), (1000, 2)]
    first, *_ = rig.journal.values
    assert (first.producer_id, first.producer_epoch, first.transaction_partitions) == (1000, 0, None)
    assert first.transaction_timeout_ms == TIMEOUT_MS
    assert (first.transaction_start_timestamp_ms, first.transaction_last_update_timestamp_ms) == (
        -1,
        rig.clock.time_ms(),
    )


def test_records_wait_for_all_replicas_as_long_as_the_transaction_may_take(rig):
    rig.init(timeout_ms=12_345)

    assert (rig.journal.acks, rig.journal.timeouts) == ({-1}, [12_345])


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"transactional_id": ""}, E.INVALID_REQUEST),
        ({"timeout_ms": 0}, E.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, E.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_what_no_producer_may_ask_for(rig, asked, code):
    assert rig.init(**asked) is code


def test_the_longest_transaction_may_be_asked_for(rig):
    assert rig.init(timeout_ms=900_000) == (1000, 0)


def test_the_next_producer_may_ask_for_another_time(rig):
    rig.init()
    rig.init(timeout_ms=1)

    assert rig.metadata().timeout_ms == 1


def test_an_id_that_is_coordinated_elsewhere(rig):
    rig.coordinator.resigned(0, 6)

    assert rig.init() is E.NOT_COORDINATOR


def test_everybody_else_waits_while_the_replicas_have_not_got_it(rig):
    rig.journal.waits = True
    first = rig.init()

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    rig.journal.replicate()
    assert settled(first) == (1000, 0)


@pytest.mark.parametrize(
    ("log", "client"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.RECORD_LIST_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.INVALID_RECORD, E.INVALID_RECORD),
    ],
)
def test_what_could_not_be_written_is_taken_back(rig, log, client):
    rig.journal.refuses = log
    assert rig.init() is client
    rig.journal.refuses = None
    rig.journal.waits = True
    later = rig.init()
    rig.journal.replicate(log)
    assert settled(later) is client

    rig.journal.waits = False
    assert rig.init() == (1000, 0)


def test_a_name_that_no_record_has_room_for_does_not_stay_pending(rig):
    name = "x" * 40_000
    for _ in range(2):
        assert rig.init(transactional_id=name) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_while_the_controller_gives_no_ids_producers_are_told_to_wait(rig):
    rig.next_id = Pending()
    first, second = rig.init(), rig.init()
    rig.next_id.complete(7)

    # The first one made the id, so the second bumps its epoch: neither has the epoch of the other.
    assert (settled(first), settled(second)) == ((7, 0), (7, 1))


def test_a_coordinator_that_resigns_while_the_controller_is_asked(rig):
    rig.next_id = Pending()
    waiting = rig.init()
    rig.coordinator.resigned(0, 6)
    rig.next_id.complete(7)

    assert settled(waiting) is E.NOT_COORDINATOR


# --- an earlier transaction


def test_a_transaction_that_was_left_open_is_aborted_first(rig):
    rig.ongoing()

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    assert (rig.state(), rig.metadata().producer) == ("PrepareAbort", (1000, 1))
    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    rig.turn()
    ((_, (marker,), _),) = rig.channel.sent
    assert (marker.producer, marker.committed) == ((1000, 1), False)
    rig.channel.answer()
    # The epoch that fenced belongs to nobody.
    assert rig.init() == (1000, 2)


def test_the_fenced_producer_can_do_nothing(rig):
    zombie = rig.ongoing()
    rig.init()

    assert (
        rig.add(zombie) is E.CONCURRENT_TRANSACTIONS
    )  # the next one may come under another id (KAFKA-18660)
    rig.turn()
    rig.channel.answer()
    assert rig.add(zombie) is E.PRODUCER_FENCED
    assert rig.end(zombie) is E.PRODUCER_FENCED
    assert rig.verify(zombie) is E.PRODUCER_FENCED


def test_a_fence_that_could_not_be_written_is_used_again(rig):
    zombie = rig.ongoing()
    rig.journal.refuses = E.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        assert rig.init() is E.COORDINATOR_NOT_AVAILABLE
        assert (rig.state(), rig.metadata().producer) == ("Ongoing", (1000, 1))
    # It holds all the same: whatever this producer does now would be undone by the abort.
    assert rig.end(zombie) is E.PRODUCER_FENCED
    rig.journal.refuses = None

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    assert (rig.state(), rig.metadata().producer) == ("PrepareAbort", (1000, 1))
    assert not rig.metadata().has_failed_epoch_fence


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_whose_markers_are_on_their_way_is_waited_for(rig, committed):
    producer = rig.ongoing()
    rig.end(producer, committed=committed)

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    rig.turn()
    rig.channel.answer()
    assert rig.init() == (1000, 1)


# --- a producer that had an error and begins again (KIP-360)


def test_a_producer_that_knows_its_epoch_has_the_next(rig):
    rig.init()

    assert rig.init((1000, 0)) == (1000, 1)
    assert rig.init((1000, 1)) == (1000, 2)


def test_a_producer_that_has_not_had_the_answer_gets_it_again(rig):
    rig.init()
    rig.init((1000, 0))

    assert rig.init((1000, 0)) == (1000, 1)
    assert rig.init((1000, 0)) == (1000, 1)


def test_a_producer_that_another_one_came_after_is_fenced(rig):
    rig.init()
    rig.init()

    assert rig.init((1000, 0)) is E.PRODUCER_FENCED
    assert rig.init((999, 1)) is E.PRODUCER_FENCED
    assert rig.init() == (1000, 2)


def test_the_one_that_fenced_is_not_to_be_mistaken_for_an_answer_that_was_lost(rig):
    zombie = rig.ongoing()
    rig.init()
    rig.turn()
    rig.channel.answer()

    assert rig.init(zombie) is E.PRODUCER_FENCED


def test_a_producer_of_an_id_that_has_expired_may_go_on(rig):
    assert rig.init((55, 3)) == (1000, 0)


def test_the_producer_of_a_transaction_may_itself_begin_again(rig):
    producer = rig.ongoing()

    assert rig.init(producer) is E.CONCURRENT_TRANSACTIONS
    assert rig.state() == "PrepareAbort"


# --- epochs that run out


def test_the_last_epoch_is_for_fencing_alone(rig):
    with_epoch(rig, EXHAUSTED - 1)

    assert rig.init() == (1000, EXHAUSTED)
    assert rig.init() == (1001, 0)
    assert rig.init() == (1001, 1)


def test_a_producer_that_knows_the_last_epoch_gets_a_new_id(rig):
    with_epoch(rig, EXHAUSTED)

    assert rig.init((1000, EXHAUSTED)) == (1001, 0)
    assert rig.init((1000, EXHAUSTED)) == (1001, 0)  # it has not had the answer
    assert rig.init((1000, EXHAUSTED - 1)) is E.PRODUCER_FENCED


def test_nobody_who_did_not_know_the_last_epoch_gets_the_new_id(rig):
    with_epoch(rig, EXHAUSTED)
    rig.init()

    assert rig.init((1000, EXHAUSTED)) is E.PRODUCER_FENCED


def test_the_former_id_is_known_by_its_last_epoch_alone(rig):
    with_epoch(rig, EXHAUSTED)
    rig.init((1000, EXHAUSTED))

    assert rig.init((1000, 0)) is E.PRODUCER_FENCED
    assert rig.metadata().producer == (1001, 0)


def test_a_producer_that_knows_an_earlier_epoch_than_the_last(rig):
    with_epoch(rig, EXHAUSTED, last_epoch=EXHAUSTED - 1)

    # Kafka 3.9 answers UNKNOWN_SERVER_ERROR, which is what this becomes.
    with pytest.raises(IllegalTransitionError):
        rig.init((1000, EXHAUSTED - 1))
    assert rig.init() == (1001, 0)


def test_a_transaction_of_the_last_epoch_can_be_fenced(rig):
    with_epoch(rig, EXHAUSTED)
    rig.add((1000, EXHAUSTED))

    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    assert rig.metadata().producer == (1000, EPOCH_MAX)
    rig.turn()
    rig.channel.answer()
    assert rig.init() == (1001, 0)


def test_a_fence_of_the_last_epoch_that_could_not_be_written_is_used_again(rig):
    with_epoch(rig, EXHAUSTED)
    rig.add((1000, EXHAUSTED))
    rig.journal.refuses = E.NOT_ENOUGH_REPLICAS
    assert rig.init() is E.COORDINATOR_NOT_AVAILABLE
    rig.journal.refuses = None

    # Kafka 3.9 can neither fence nor abort it any more.
    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    assert (rig.state(), rig.metadata().producer) == ("PrepareAbort", (1000, EPOCH_MAX))
    rig.turn()
    rig.channel.answer()
    assert rig.init() == (1001, 0)


def test_the_id_is_known_by_its_name(rig):
    rig.init()

    assert rig.metadata().transactional_id == ID
    assert rig.init(transactional_id="other") == (1001, 0)

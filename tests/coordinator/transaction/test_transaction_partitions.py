"""AddPartitionsToTxn, and what the leaders of partitions ask (KIP-890)."""

import pytest
from transaction_rig import ID, ORDERS, PAYMENTS, TIMEOUT_MS, Rig, settled

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition, partitions_in

E = ErrorCode

MORE_ORDERS = TopicPartition("orders", 1)


@pytest.fixture
def rig():
    return Rig()


def test_a_transaction_begins_with_its_first_partition(rig):
    producer = rig.init()
    rig.clock.advance(10)

    assert rig.add(producer, ORDERS, PAYMENTS) is None

    value = rig.journal.values[-1]
    assert (value.transaction_status, value.transaction_start_timestamp_ms) == (1, rig.clock.time_ms())
    assert [(each.topic, each.partition_ids) for each in value.transaction_partitions] == [
        ("orders", [0]),
        ("payments", [3]),
    ]
    assert (rig.state(), list(partitions_in(rig.metadata().partitions))) == ("Ongoing", [ORDERS, PAYMENTS])


def test_it_grows_and_keeps_its_beginning(rig):
    producer = rig.ongoing(ORDERS)
    began_ms = rig.clock.time_ms()
    rig.clock.advance(10)
    rig.add(producer, PAYMENTS, MORE_ORDERS)

    assert list(partitions_in(rig.metadata().partitions)) == [ORDERS, MORE_ORDERS, PAYMENTS]
    assert rig.journal.values[-1].transaction_start_timestamp_ms == began_ms == rig.metadata().start_ms
    assert rig.metadata().last_update_ms == began_ms + 10


def test_what_it_has_already_is_not_written_again(rig):
    producer = rig.ongoing(ORDERS, PAYMENTS)
    written = len(rig.journal.written)

    assert rig.add(producer, PAYMENTS) is None
    assert len(rig.journal.written) == written
    assert rig.add(producer, PAYMENTS, MORE_ORDERS) is None
    assert len(rig.journal.written) == written + 1


@pytest.mark.parametrize("committed", [True, False])
def test_the_next_transaction_has_none_of_the_last_one(rig, committed):
    producer = rig.ended(committed=committed)
    rig.clock.advance(10)
    rig.add(producer, PAYMENTS)

    assert list(partitions_in(rig.metadata().partitions)) == [PAYMENTS]
    assert rig.metadata().start_ms == rig.clock.time_ms()


@pytest.mark.parametrize("ask", ["add", "verify", "end"])
def test_who_may_not_ask(rig, ask):
    producer_id, epoch = rig.ongoing()
    ask = getattr(rig, ask)

    assert ask((producer_id, epoch), transactional_id="") is E.INVALID_REQUEST
    assert ask((producer_id, epoch), transactional_id="unknown") is E.INVALID_PRODUCER_ID_MAPPING
    assert ask((producer_id + 1, epoch)) is E.INVALID_PRODUCER_ID_MAPPING
    assert ask((producer_id, epoch + 1)) is E.PRODUCER_FENCED
    assert ask((producer_id, epoch - 1)) is E.PRODUCER_FENCED
    rig.coordinator.resigned(0, 6)
    assert ask((producer_id, epoch)) is E.NOT_COORDINATOR


def test_nothing_counts_before_the_replicas_have_it(rig):
    producer = rig.init()
    rig.journal.waits = True
    adding = rig.add(producer)

    assert rig.add(producer, PAYMENTS) is E.CONCURRENT_TRANSACTIONS
    assert rig.end(producer) is E.CONCURRENT_TRANSACTIONS
    assert rig.verify(producer) == {ORDERS: E.TRANSACTION_ABORTABLE}
    rig.journal.replicate()
    assert settled(adding) is None
    assert rig.verify(producer) == {ORDERS: E.NONE}


def test_what_the_replicas_do_not_get_is_not_added(rig):
    producer = rig.init()
    rig.journal.waits = True
    adding = rig.add(producer)
    rig.journal.replicate(E.REQUEST_TIMED_OUT)

    assert settled(adding) is E.COORDINATOR_NOT_AVAILABLE
    assert (rig.state(), list(partitions_in(rig.metadata().partitions))) == ("Empty", [])
    rig.journal.waits = False
    assert rig.add(producer) is None


def test_a_success_for_an_earlier_coordinator_changes_nothing(rig):
    producer = rig.init()
    metadata = rig.metadata()
    rig.journal.waits = True
    adding = rig.add(producer)
    rig.coordinator.resigned(0, 6)
    rig.journal.replicate()

    assert settled(adding) is E.NOT_COORDINATOR
    assert metadata.state.label == "Empty"


@pytest.mark.parametrize("committed", [True, False])
def test_while_it_ends_nothing_is_added_and_nothing_is_verified(rig, committed):
    producer = rig.ongoing()
    rig.end(producer, committed=committed)

    assert rig.add(producer) is E.CONCURRENT_TRANSACTIONS
    assert rig.verify(producer) is E.CONCURRENT_TRANSACTIONS


def test_a_partition_is_verified_as_long_as_it_belongs_to_the_open_transaction(rig):
    producer = rig.ongoing(ORDERS)
    assert rig.verify(producer, ORDERS, MORE_ORDERS, PAYMENTS) == {
        ORDERS: E.NONE,
        MORE_ORDERS: E.TRANSACTION_ABORTABLE,
        PAYMENTS: E.TRANSACTION_ABORTABLE,
    }
    rig.end(producer)
    rig.turn()
    rig.channel.answer()

    assert rig.verify(producer) == {ORDERS: E.TRANSACTION_ABORTABLE}
    assert rig.metadata(ID).timeout_ms == TIMEOUT_MS

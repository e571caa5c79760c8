"""The markers on their way: queues, answers, and what is done again (``TransactionMarkerChannelManager``)."""

import pytest
from transaction_rig import ID, ORDERS, PAYMENTS, Rig

from barnabas.coordinator.transaction.markers import REQUEST_PARTITIONS_MAX, RETRY_MS
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_BROKER, TopicPartition, partitions_in

E = ErrorCode


@pytest.fixture
def rig():
    return Rig()


def ending(rig, *partitions):
    producer = rig.ongoing(*(partitions or (ORDERS, PAYMENTS)))
    rig.end(producer)
    rig.turn()
    return producer


@pytest.mark.parametrize(
    "code",
    [
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_LEADER_OR_FOLLOWER,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.REQUEST_TIMED_OUT,
        E.KAFKA_STORAGE_ERROR,
    ],
)
def test_what_can_succeed_elsewhere_goes_to_the_leader_of_that_moment(rig, code):
    ending(rig)
    rig.channel.leaders[PAYMENTS] = 2
    rig.channel.answer(payments=code)

    assert (rig.state(), list(partitions_in(rig.metadata().partitions))) == ("PrepareCommit", [PAYMENTS])
    assert rig.channel.sent == []
    rig.turn(RETRY_MS)
    assert rig.channel.partitions == [(2, [[PAYMENTS]])]
    rig.channel.answer()
    assert rig.state() == "CompleteCommit"


@pytest.mark.parametrize(
    "code", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED, E.CORRUPT_MESSAGE]
)
def test_what_says_that_the_transaction_is_over_sends_nothing_any_more(rig, code):
    ending(rig)
    rig.channel.answer(orders=code, payments=E.NOT_LEADER_OR_FOLLOWER)
    rig.turn(10 * RETRY_MS)

    assert rig.channel.sent == []
    assert rig.state() == "PrepareCommit"
    assert not rig.coordinator.markers.waiting_for(ID)


@pytest.mark.parametrize("code", [E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION])
def test_a_partition_that_can_have_no_transactions_needs_no_marker(rig, code):
    ending(rig)
    rig.channel.answer(payments=code)

    assert rig.state() == "CompleteCommit"


def test_a_partition_that_the_metadata_does_not_have_is_done(rig):
    rig.channel.leaders = {ORDERS: None}
    ending(rig)

    assert rig.channel.partitions == [(1, [[PAYMENTS]])]
    rig.channel.answer()
    assert rig.state() == "CompleteCommit"


def test_all_partitions_are_deleted(rig):
    rig.channel.leaders = {ORDERS: None, PAYMENTS: None}
    ending(rig)

    assert (rig.channel.sent, rig.state()) == ([], "CompleteCommit")


def test_a_broker_that_is_gone_loses_nothing(rig):
    ending(rig)
    rig.channel.leaders = {ORDERS: 2, PAYMENTS: NO_BROKER}
    rig.channel.disconnect()
    rig.turn(RETRY_MS)

    assert rig.channel.partitions == [(2, [[ORDERS]])]
    rig.channel.answer()
    assert rig.coordinator.markers.unknown_destination_queue_size == 1
    rig.channel.leaders[PAYMENTS] = 3
    rig.coordinator.metadata_changed({"payments"})
    rig.turn()
    assert rig.channel.partitions == [(3, [[PAYMENTS]])]
    rig.channel.answer()
    assert rig.state() == "CompleteCommit"
    assert rig.coordinator.markers.unknown_destination_queue_size == 0


def test_a_leader_that_nobody_tells_of_is_found_all_the_same(rig):
    rig.channel.leaders = {ORDERS: NO_BROKER, PAYMENTS: NO_BROKER}
    ending(rig)
    rig.turn(5 * RETRY_MS)
    assert rig.channel.sent == []
    rig.channel.leaders.clear()
    rig.turn(RETRY_MS)

    assert rig.channel.partitions == [(1, [[ORDERS, PAYMENTS]])]


def test_one_request_a_broker_is_in_flight_and_takes_all_that_waits(rig):
    producers = {}
    for name in ("a", "b", "c"):
        producers[name] = rig.init(transactional_id=name)
        rig.add(producers[name], ORDERS, transactional_id=name)
    rig.end(producers["a"], transactional_id="a")
    rig.turn()
    for name in ("b", "c"):
        rig.end(producers[name], transactional_id=name, committed=False)
    rig.turn(10)

    assert rig.channel.partitions == [(1, [[ORDERS]])]
    rig.channel.answer()
    rig.turn()
    assert rig.channel.partitions == [(1, [[ORDERS], [ORDERS]])]
    rig.channel.answer()
    assert [rig.state(name) for name in "abc"] == ["CompleteCommit", "CompleteAbort", "CompleteAbort"]


def test_what_comes_in_one_turn_goes_in_one_request(rig):
    producers = [rig.init(transactional_id=name) for name in "ab"]
    for name, producer in zip("ab", producers, strict=True):
        rig.add(producer, ORDERS, transactional_id=name)
    for name, producer in zip("ab", producers, strict=True):
        rig.end(producer, transactional_id=name)
    rig.turn()

    assert [len(markers) for _, markers, _ in rig.channel.sent] == [2]


def test_every_leader_gets_its_own(rig):
    rig.channel.leaders = {ORDERS: 2, PAYMENTS: 3}
    ending(rig)

    assert rig.channel.partitions == [(2, [[ORDERS]]), (3, [[PAYMENTS]])]
    rig.channel.answer()
    assert rig.state() == "PrepareCommit"
    rig.channel.answer()
    assert rig.state() == "CompleteCommit"


def test_a_partition_that_the_answer_leaves_out_is_asked_again(rig):
    ending(rig)
    _, (marker,), answer = rig.channel.sent.pop()
    answer.complete({marker.producer.producer_id: {ORDERS.topic: {ORDERS.partition: E.NONE}}})
    rig.turn(RETRY_MS)

    assert rig.channel.partitions == [(1, [[PAYMENTS]])]


def test_the_markers_of_a_large_transaction_go_in_several_requests_one_at_a_time(rig):
    several = 2 * REQUEST_PARTITIONS_MAX + 1
    large = [TopicPartition("orders", each) for each in range(several)]
    ending(rig, *large, PAYMENTS)
    told = []
    while rig.channel.sent:
        ((_, (partitions,)),) = rig.channel.partitions
        assert len(partitions) <= REQUEST_PARTITIONS_MAX
        told += partitions
        assert rig.state() == "PrepareCommit"
        rig.channel.answer()
        rig.turn()

    assert (sorted(told), rig.state()) == (sorted([*large, PAYMENTS]), "CompleteCommit")


def test_many_transactions_share_requests_up_to_a_number_of_partitions(rig):
    half = REQUEST_PARTITIONS_MAX // 2
    for name in "abc":
        producer = rig.init(transactional_id=name)
        partitions = [TopicPartition(name, each) for each in range(half)]
        rig.add(producer, *partitions, transactional_id=name)
        rig.end(producer, transactional_id=name)
    rig.turn()

    assert [len(each) for _, each in rig.channel.partitions] == [2]
    rig.channel.answer()
    rig.turn()
    assert [len(each) for _, each in rig.channel.partitions] == [1]


# --- the last record


def test_the_last_record_is_written_again_until_the_replicas_have_it(rig, caplog):
    producer = ending(rig)
    rig.journal.waits = True
    rig.channel.answer()
    rig.journal.replicate(E.REQUEST_TIMED_OUT)
    assert rig.coordinator.markers.log_append_retry_queue_size == 1
    # Pending all the time: nobody may come in between.
    assert rig.add(producer) is E.CONCURRENT_TRANSACTIONS
    rig.turn(RETRY_MS)
    rig.journal.replicate()

    assert rig.state() == "CompleteCommit"
    assert rig.journal.states[-2:] == [4, 4]
    assert rig.coordinator.markers.log_append_retry_queue_size == 0
    assert rig.add(producer) is not E.CONCURRENT_TRANSACTIONS
    assert "markers.not_completed" not in caplog.text


def test_a_last_record_that_the_topic_never_takes_is_told_and_not_repeated(rig, caplog):
    """The next coordinator finds the decision, and ends the transaction."""
    ending(rig)
    rig.journal.refuses = E.MESSAGE_TOO_LARGE
    rig.channel.answer()

    assert "markers.not_completed" in caplog.text
    assert rig.coordinator.markers.log_append_retry_queue_size == 0
    assert rig.state() == "PrepareCommit"


# --- another coordinator


@pytest.mark.parametrize("answered", [True, False])
def test_after_the_resignation_no_answer_changes_anything(rig, answered):
    ending(rig)
    metadata, written = rig.metadata(), len(rig.journal.written)
    rig.coordinator.resigned(0, 6)
    rig.channel.answer() if answered else rig.channel.disconnect()
    rig.turn(10 * RETRY_MS)

    assert rig.channel.sent == []
    assert (metadata.state.label, len(rig.journal.written)) == ("PrepareCommit", written)


def test_what_waits_for_a_broker_is_dropped_with_the_resignation(rig):
    producer = rig.init(transactional_id="a")
    rig.add(producer, ORDERS, transactional_id="a")
    ending(rig)
    rig.end(producer, transactional_id="a")  # waits behind the request in flight
    rig.coordinator.resigned(0, 6)
    rig.channel.answer()
    rig.turn(10 * RETRY_MS)

    assert rig.channel.sent == []


def test_an_answer_after_the_shutdown_changes_nothing(rig):
    ending(rig)
    metadata = rig.metadata()
    written = len(rig.journal.written)
    rig.coordinator.shutdown()
    rig.channel.answer()

    assert list(partitions_in(metadata.partitions)) == [ORDERS, PAYMENTS]
    assert len(rig.journal.written) == written


def test_after_the_shutdown_nothing_is_sent(rig):
    ending(rig)
    rig.channel.disconnect()
    rig.coordinator.shutdown()
    rig.turn(10 * RETRY_MS)

    assert rig.channel.sent == []

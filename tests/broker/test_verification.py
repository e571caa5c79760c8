"""A partition asks the coordinator before the first batch of a transaction (KIP-890), over the wire."""

import dataclasses

import pytest

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.log import verification
from barnabas.log.validator import RECORDS_AT_ONCE
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.verification import TransactionOf, TransactionSupport

E = ErrorCode
ID = "copier"


class Held:
    """Stands before the verifier: questions wait until `answer`."""

    def __init__(self, verifier):
        self.enabled = True
        self.asked = []
        self._verifier = verifier

    def verify(self, transaction, partitions, support):
        answer = Pending()
        self.asked.append((answer, self._verifier.verify(transaction, partitions, support)))
        return answer

    def later(self, tries):
        return self._verifier.later(tries)

    def answer(self):
        """What the coordinator said at the time of the question."""
        for answer, said in self.asked:
            answer.complete(said.result())
        self.asked.clear()


@pytest.fixture
def world(make_world):
    """It leads all there is, and coordinates all transactions."""
    world = make_world(verifies=True)
    for topic, count in ((GROUP_METADATA_TOPIC, 50), (TRANSACTION_STATE_TOPIC, 50), ("t", 3)):
        world.create(topic, count)
    return world


@pytest.fixture
def producer(world):
    answer = world.send(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 5)
    return answer.producer_id, answer.producer_epoch


def add(world, producer, *partitions, topic="t"):
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
    )
    answer = world.send(request, 3).results_by_topic_v3_and_below[0]
    assert {each.partition_error_code for each in answer.results_by_partition} == {0}


def end(world, producer, *, committed=False):
    request = EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )
    assert world.send(request, 4).error_code == 0
    world.clock.advance()


def request_of(make_batch, *entries, name=ID, acks=-1):
    """A Produce of (partition, producer, sequence) entries."""
    data = [
        PartitionProduceData(
            index=partition,
            records=make_batch(
                producer_id=producer[0],
                producer_epoch=producer[1],
                base_sequence=sequence,
                transactional=True,
            ),
        )
        for partition, producer, sequence in entries
    ]
    topic = TopicProduceData(name="t", partition_data=data)
    return ProduceRequest(transactional_id=name, acks=acks, timeout_ms=1000, topic_data=[topic])


def codes_of(answer):
    return [E.of(each.error_code) for each in answer.responses[0].partition_responses]


def produce(world, make_batch, producer, sequence=0, *, partition=0, version=11):
    request = request_of(make_batch, (partition, producer, sequence))
    return world.send(request, version).responses[0].partition_responses[0]


def log_end(world, partition=0):
    return world.partition("t", partition).log.log_end_offset


def marker(world, producer, partition=0, topic="t"):
    """A marker of the producer from a coordinator."""
    topic = WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])
    world.send(
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    transaction_result=False,
                    coordinator_epoch=0,
                    topics=[topic],
                )
            ]
        ),
        1,
    )


@pytest.mark.parametrize(
    ("version", "code"), [(11, E.TRANSACTION_ABORTABLE), (10, E.INVALID_TXN_STATE), (9, E.INVALID_TXN_STATE)]
)
def test_a_batch_of_no_transaction_is_refused_as_its_client_knows_it(
    world, make_batch, producer, version, code
):
    answer = produce(world, make_batch, producer, version=version)

    assert (E.of(answer.error_code), answer.base_offset) == (code, -1)
    if code is E.INVALID_TXN_STATE:
        assert answer.error_message == "Partition was not added to the transaction"
    assert log_end(world) == 0


def test_a_late_batch_opens_no_transaction(world, make_batch, producer):
    add(world, producer, 0)
    assert produce(world, make_batch, producer).error_code == 0
    end(world, producer)
    stood = log_end(world)

    assert E.of(produce(world, make_batch, producer, 1).error_code) is E.TRANSACTION_ABORTABLE

    assert log_end(world) == stood
    assert not world.partition("t").log.producers.ongoing


def test_of_a_transaction_that_has_written_nobody_is_asked_again(world, make_batch, producer):
    add(world, producer, 0)
    assert produce(world, make_batch, producer).error_code == 0
    world.replicas.appender.verifier = held = Held(world.verifier)

    assert produce(world, make_batch, producer, 1).error_code == 0

    assert not held.asked
    assert log_end(world) == 2


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (lambda producer: (producer[0], producer[1] + 1), E.INVALID_PRODUCER_EPOCH),
        (lambda producer: (producer[0] + 9, producer[1]), E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_another_producer_is_refused_with_the_coordinators_code(world, make_batch, producer, given, code):
    add(world, producer, 0)
    assert E.of(produce(world, make_batch, given(producer)).error_code) is code


def test_a_coordinator_that_cannot_be_asked_makes_the_producer_try_again(make_world, make_batch):
    world = make_world(verifies=True)
    world.create("t", 1)
    answer = produce(world, make_batch, (7, 0))
    assert E.of(answer.error_code) is E.NOT_ENOUGH_REPLICAS
    assert answer.error_message == (
        "Unable to verify the partition has been added to the transaction."
        " Underlying error: COORDINATOR_NOT_AVAILABLE"
    )


def test_producers_that_are_made_up_do_not_cost_a_real_one_its_answer(
    world, make_batch, producer, monkeypatch
):
    monkeypatch.setattr(verification, "QUESTIONS_MAX", 3)
    add(world, producer, 0)
    world.replicas.appender.verifier = held = Held(world.verifier)
    answer = world.start(request_of(make_batch, (0, producer, 0)), 11)
    world.replicas.appender.verifier = world.verifier
    for made_up in range(1, 9):
        refused = produce(world, make_batch, (producer[0] + made_up, 0))
        assert E.of(refused.error_code) is E.INVALID_PRODUCER_ID_MAPPING
    held.answer()
    world.clock.advance(0)

    assert codes_of(answer()) == [E.NONE]


def test_a_marker_between_question_and_answer_makes_the_append_fail(world, make_batch, producer):
    add(world, producer, 0)
    world.replicas.appender.verifier = held = Held(world.verifier)
    answer = world.start(request_of(make_batch, (0, producer, 0)), 11)
    assert answer() is None

    marker(world, producer)
    held.answer()
    world.clock.advance(0)

    assert codes_of(answer()) == [E.INVALID_TXN_STATE]
    assert not world.partition("t").log.producers.ongoing
    assert log_end(world) == 1  # the marker alone


def test_an_answer_to_an_earlier_question_does_not_count_for_the_next_one(world, make_batch, producer):
    """ABA: asked, ended, asked again; the first answer comes late."""
    add(world, producer, 0)
    world.replicas.appender.verifier = held = Held(world.verifier)
    first = world.start(request_of(make_batch, (0, producer, 0)), 11)
    (early,) = held.asked
    held.asked.clear()
    marker(world, producer)
    log = world.partition("t").log
    log.producers.start_verification(*producer, 0, 0, bumped=False)  # the producer's next transaction asks

    early[0].complete(early[1].result())
    world.clock.advance(0)

    assert codes_of(first()) == [E.INVALID_TXN_STATE]


def test_an_answer_does_not_count_for_a_topic_that_was_made_anew_meanwhile(world, make_batch, producer):
    """Also where the producer's transaction has written to the new one already."""
    add(world, producer, 0)
    verifier = world.verifier
    world.replicas.appender.verifier = held = Held(verifier)
    waiting = world.start(request_of(make_batch, (0, producer, 0)), 11)
    assert waiting() is None

    world.delete_replicas("t", 3)
    world.delete("t")
    world.create("t", 3)
    world.replicas.appender.verifier = verifier
    assert codes_of(world.send(request_of(make_batch, (0, producer, 5)), 11)) == [E.NONE]
    held.answer()
    world.clock.advance(0)

    assert codes_of(waiting()) == [E.NOT_LEADER_OR_FOLLOWER]
    assert log_end(world) == 1


def test_a_later_batch_does_not_overtake_one_that_is_being_asked_about(world, make_batch, producer):
    add(world, producer, 0)
    world.replicas.appender.verifier = held = Held(world.verifier)
    first = world.start(request_of(make_batch, (0, producer, 0)), 11)
    second = world.start(request_of(make_batch, (0, producer, 1)), 11)
    held.asked.reverse()  # the second one's answer comes first

    held.answer()
    world.clock.advance(0)

    assert codes_of(second()) == [E.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert codes_of(first()) == [E.NONE]


def test_several_partitions_are_asked_about_at_once_and_judged_one_by_one(world, make_batch, producer):
    add(world, producer, 0, 2)
    world.replicas.appender.verifier = held = Held(world.verifier)
    answer = world.start(request_of(make_batch, *((each, producer, 0) for each in range(3))), 11)
    assert len(held.asked) == 1

    held.answer()
    world.clock.advance(0)

    assert codes_of(answer()) == [E.NONE, E.TRANSACTION_ABORTABLE, E.NONE]
    assert [log_end(world, each) for each in range(3)] == [1, 0, 1]


@pytest.mark.parametrize("written", [0, 1], ids=["the first batch", "a later batch"])
def test_a_marker_while_another_process_looks_into_a_batch_makes_the_append_fail(world, producer, written):
    world.log_config = dataclasses.replace(world.log_config, cleanup_policy="compact")
    world.create("keyed", 1)
    add(world, producer, 0, topic="keyed")

    def start(count, sequence):
        records = build_batch(
            [Record(each, 0, b"k", b"v") for each in range(count)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name="keyed", partition_data=[data])
        sent = ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=[topic])
        return world.start(sent, 11)

    if written:
        assert codes_of(start(1, 0)()) == [E.NONE]
    world.elsewhere.waits = True
    answer = start(RECORDS_AT_ONCE + 1, written)
    assert answer() is None
    marker(world, producer, topic="keyed")
    world.elsewhere.finish()
    world.clock.advance(0)

    assert codes_of(answer()) == [E.INVALID_TXN_STATE]
    assert not world.partition("keyed").log.producers.ongoing


@pytest.mark.parametrize("producer", [(7, 0), (-1, -1)], ids=["a producer", "nobody"])
@pytest.mark.parametrize("count", [2, 150])
def test_a_request_without_the_right_to_its_transactional_id_writes_nothing(
    make_world, make_batch, count, producer
):
    """Also where the batches before the transactional one are in no transaction."""
    world = make_world(verifies=True)
    world.create("t", count)
    request = request_of(make_batch, *((each, producer, 0) for each in range(count)), name=None)
    for entry in request.topic_data[0].partition_data[:-1]:
        entry.records = make_batch()
    answer = world.start(request, 11)
    while answer() is None:
        world.clock.advance(0)
    assert set(codes_of(answer())) == {E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert {log_end(world, number) for number in range(count)} == {0}


@pytest.mark.parametrize("count", [2, 150])
def test_two_producers_in_one_request_write_nothing(make_world, make_batch, count):
    world = make_world(verifies=True)
    world.create("t", count)
    entries = [(number, (7, 0) if number else (8, 0), 0) for number in range(count)]
    answer = world.start(request_of(make_batch, *entries), 11)
    while answer() is None:
        world.clock.advance(0)
    assert set(codes_of(answer())) == {E.INVALID_PRODUCER_ID_MAPPING}
    assert {log_end(world, number) for number in range(count)} == {0}


def test_without_the_key_nobody_is_asked(world, make_batch, producer):
    world.verifier.enabled = False
    assert produce(world, make_batch, producer).error_code == 0


def commit_offset(world, producer, version=4):
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    return world.start(request, version)


def committed_code(answer):
    return E.of(answer().topics[0].partitions[0].error_code)


def add_group(world, producer):
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
    )
    assert world.send(request, 3).error_code == 0


@pytest.mark.parametrize(
    ("version", "code"), [(4, E.TRANSACTION_ABORTABLE), (3, E.INVALID_TXN_STATE), (0, E.INVALID_TXN_STATE)]
)
def test_offsets_of_no_transaction_are_refused(world, producer, version, code):
    answer = commit_offset(world, producer, version)
    world.clock.advance(0)
    assert committed_code(answer) is code


def test_offsets_of_a_transaction_are_taken_unless_it_ends_before_the_answer(world, producer):
    add_group(world, producer)
    world.replicas.appender.verifier = held = Held(world.verifier)
    late = commit_offset(world, producer)
    tp = TopicPartition(GROUP_METADATA_TOPIC, world.coordinator.partition_for("g"))
    world.partition(*tp).log.producers._verifications = None
    held.answer()
    world.clock.advance(0)
    assert committed_code(late) is E.INVALID_TXN_STATE

    taken = commit_offset(world, producer)
    held.answer()
    world.clock.advance(0)
    assert committed_code(taken) is E.NONE


def test_a_marker_between_two_slices_of_a_commit_makes_the_append_fail(world, producer):
    """Nobody is asked about a transaction that has written here, and a large commit takes its time."""
    add_group(world, producer)
    first = commit_offset(world, producer)
    world.clock.advance(0)
    assert committed_code(first) is E.NONE

    tp = TopicPartition(GROUP_METADATA_TOPIC, world.coordinator.partition_for("g"))
    transaction = TransactionOf(ID, *producer)
    check = world.replicas.appender.verify_commit(tp, transaction, TransactionSupport.ABORTABLE).result()
    check()
    marker(world, producer, tp.partition, topic=GROUP_METADATA_TOPIC)
    with pytest.raises(KafkaError) as refused:
        check()
    assert refused.value.code is E.INVALID_TXN_STATE


@pytest.mark.parametrize("count", [2, 150])
def test_garbage_in_one_partition_refuses_the_whole_request(make_world, make_batch, count):
    world = make_world(verifies=True)
    world.create("t", count)
    request = request_of(make_batch, *((number, (7, 0), 0) for number in range(count)), name=ID)
    request.topic_data[0].partition_data[-1].records = b"x" * 70
    answer = world.start(request, 11)
    while answer() is None:
        world.clock.advance(0)
    (topic,) = answer().responses
    assert {(E.of(each.error_code), each.error_message) for each in topic.partition_responses} == {
        (E.CORRUPT_MESSAGE, "Invalid magic found in record: 120")
    }
    assert {log_end(world, number) for number in range(count)} == {0}


def test_of_a_partition_that_is_named_twice_the_producer_named_last_counts(world, make_batch, producer):
    add(world, producer, 0)
    answer = world.send(request_of(make_batch, (0, (producer[0] + 9, 0), 0), (0, producer, 0)), 11)
    assert codes_of(answer) == [E.NONE]


def test_a_transactional_batch_of_no_producer_is_nobodys(world, make_batch):
    assert produce(world, make_batch, (-1, -1), -1).error_code == 0

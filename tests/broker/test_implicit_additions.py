"""The second part of KIP-890 at the broker: what writes to a partition adds it to its transaction."""

import dataclasses

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.core.pending import Pending
from barnabas.log.validator import RECORDS_AT_ONCE
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

E = ErrorCode
ORDERS, STRANGE = b"o" * 16, b"s" * 16
ID = "copier"
FIRST = {"base_sequence": 0, "transactional": True}


@pytest.fixture(params=[True, False], ids=["verifies", "does not verify"])
def world(make_world, request):
    """Whether partitions are added does not depend on ``transaction.partition.verification.enable``."""
    world = make_world(barnabas_api_profile="4.4", verifies=request.param)
    world.verifies = request.param
    world.create(GROUP_METADATA_TOPIC, 50, topic_id=b"g" * 16)
    world.create(TRANSACTION_STATE_TOPIC, 50, topic_id=b"t" * 16)
    world.create("orders", 2, topic_id=ORDERS)
    return world


def data(topic, *partitions, **batch):
    """A topic of a request, by its id or by its name."""
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
    records = build_batch([Record(0, 1_700_000_000_000, None, b"x")], **batch)
    return TopicProduceData(
        **named, partition_data=[PartitionProduceData(index=each, records=records) for each in partitions]
    )


def produce(world, topic, version):
    """The code and the offset of the one partition that is written to."""
    request = ProduceRequest(transactional_id=ID, acks=1, timeout_ms=1000, topic_data=[topic])
    answer = world.start(request, version)
    world.clock.advance(10)
    (found,) = answer().responses[0].partition_responses
    return E.of(found.error_code), found.base_offset


def begun(world):
    answer = world.send(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 5)
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def in_transaction(world):
    (state,) = world.send(DescribeTransactionsRequest(transactional_ids=[ID]), 0).transaction_states
    return state.transaction_state, sorted((topic.topic, topic.partitions) for topic in state.topics)


@pytest.mark.parametrize(("version", "orders"), [(12, "orders"), (13, ORDERS)])
def test_the_first_batch_adds_its_partition_to_the_transaction(world, version, orders):
    batch = {**begun(world), "base_sequence": 0, "transactional": True}

    assert produce(world, data(orders, 1, **batch), version) == (E.NONE, 0)
    assert in_transaction(world) == ("Ongoing", [("orders", [1])])


def test_a_marker_while_another_process_looks_into_the_first_batch_makes_the_append_fail(world):
    """Nobody would end the transaction that the batch opens."""
    world.log_config = dataclasses.replace(world.log_config, cleanup_policy="compact")
    world.create("keyed", 1, topic_id=STRANGE)
    producer = begun(world)
    records = build_batch(
        [Record(each, 1_700_000_000_000, b"k", b"v") for each in range(RECORDS_AT_ONCE + 1)],
        **producer,
        base_sequence=0,
        transactional=True,
    )
    topic = TopicProduceData(
        topic_id=STRANGE, partition_data=[PartitionProduceData(index=0, records=records)]
    )
    world.elsewhere.waits = True
    request = ProduceRequest(transactional_id=ID, acks=1, timeout_ms=1000, topic_data=[topic])
    answer = world.start(request, 13)
    world.clock.advance(10)
    assert (answer(), in_transaction(world)) == (None, ("Ongoing", [("keyed", [0])]))

    assert world.send(EndTxnRequest(transactional_id=ID, committed=False, **producer), 4).error_code == 0
    world.clock.advance(10)
    world.elsewhere.finish()
    world.clock.advance(10)

    (found,) = answer().responses[0].partition_responses
    assert E.of(found.error_code) is E.INVALID_TXN_STATE
    assert in_transaction(world)[0] == "CompleteAbort"
    assert not world.partition("keyed").log.producers.ongoing


def test_before_that_version_it_has_to_be_added_first(world):
    batch = {**begun(world), "base_sequence": 0, "transactional": True}

    refused = E.TRANSACTION_ABORTABLE, -1
    assert produce(world, data("orders", 1, **batch), 11) == (refused if world.verifies else (E.NONE, 0))
    assert in_transaction(world) == ("Empty", [])


def test_a_fenced_producer_adds_nothing(world):
    batch = {**begun(world), "base_sequence": 0, "transactional": True}
    begun(world)

    assert produce(world, data(ORDERS, 1, **batch), 13) == (E.INVALID_PRODUCER_EPOCH, -1)
    assert in_transaction(world) == ("Empty", [])


@pytest.mark.parametrize(("version", "named"), [(5, {"name": "orders"}), (6, {"topic_id": ORDERS})])
def test_a_commit_of_offsets_adds_the_groups_partition(world, version, named):
    producer = begun(world)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        **producer,
        topics=[TxnOffsetCommitRequestTopic(**named, partitions=[partition])],
    )
    answer = world.start(request, version)
    world.clock.advance(10)

    ((code,),) = [[each.error_code for each in topic.partitions] for topic in answer().topics]
    assert E.of(code) is E.NONE
    state, topics = in_transaction(world)
    assert (state, [topic for topic, _ in topics]) == ("Ongoing", [GROUP_METADATA_TOPIC])


def test_a_commit_in_a_transaction_for_an_unknown_id(world):
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        **begun(world),
        topics=[TxnOffsetCommitRequestTopic(topic_id=STRANGE, partitions=[partition])],
    )
    answer = world.start(request, 6)
    world.clock.advance(10)

    (topic,) = answer().topics
    assert (topic.topic_id, topic.partitions[0].error_code) == (STRANGE, E.UNKNOWN_TOPIC_ID)
    assert in_transaction(world) == ("Empty", [])


# --- the next transaction, while the markers of the last one are on their way


def ended(world, producer):
    """The producer of the next transaction; no marker is sent yet."""
    answer = world.send(EndTxnRequest(transactional_id=ID, committed=True, **producer), 5)
    assert answer.error_code == 0
    assert in_transaction(world)[0] == "PrepareCommit"
    return {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def test_the_next_transaction_may_begin_where_the_last_one_is_being_ended(world):
    """The marker of the last one comes between the question and its answer, and is none of the next one's."""
    producer = begun(world)
    for number in range(3):
        batch = {**producer, "base_sequence": 0, "transactional": True}
        assert produce(world, data(ORDERS, 1, **batch), 13) == (E.NONE, 2 * number)
        assert in_transaction(world) == ("Ongoing", [("orders", [1])])
        producer = ended(world, producer)
    assert producer["producer_epoch"] == 3


def test_so_may_its_offsets(world):
    producer = begun(world)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    for _ in range(3):
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id="g",
            **producer,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])],
        )
        answer = world.start(request, 5)
        world.clock.advance(10)
        assert answer().topics[0].partitions[0].error_code == E.NONE
        producer = ended(world, producer)


class Busy:
    """The way to the coordinator, on which another request is: a question waits until `go_on`."""

    enabled = True

    def __init__(self, verifier):
        self._verifier, self._waiting = verifier, []
        self.later = verifier.later

    def verify(self, *question):
        answer = Pending()
        self._waiting.append((answer, question))
        return answer

    def go_on(self):
        waiting, self._waiting = self._waiting, []
        for answer, question in waiting:
            self._verifier.verify(*question).when_done(
                lambda done, answer=answer: answer.complete(done.result())
            )
        return len(waiting)


def settled(world, busy, answer):
    """The answer, where the markers are written before the first question goes."""
    world.clock.advance(10)
    assert in_transaction(world)[0] == "CompleteCommit"
    tries = 0
    while answer() is None:
        tries += busy.go_on()
        world.clock.advance(10)
    assert tries == 2, "once with the guard that the marker has dropped"
    return answer()


def test_a_question_that_waits_until_the_last_transaction_is_over_is_asked_again(world):
    """Found by franz-go's suite on a busy machine: its batch was refused with INVALID_TXN_STATE."""
    producer = begun(world)
    for partition in (0, 1):
        assert produce(world, data(ORDERS, partition, **producer, **FIRST), 13) == (E.NONE, 0)
    producer = ended(world, producer)
    world.replicas.appender.verifier = busy = Busy(world.replicas.appender.verifier)
    topic = data(ORDERS, 0, 1, **producer, **FIRST)
    answer = world.start(ProduceRequest(transactional_id=ID, acks=1, timeout_ms=1000, topic_data=[topic]), 13)

    codes = [each.error_code for each in settled(world, busy, answer).responses[0].partition_responses]
    assert codes == [E.NONE, E.NONE]
    assert in_transaction(world) == ("Ongoing", [("orders", [0, 1])])


def test_so_is_one_about_offsets(world):
    producer = begun(world)
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])]
    commit = {"transactional_id": ID, "group_id": "g", "topics": topics}
    answer = world.start(TxnOffsetCommitRequest(**commit, **producer), 5)
    world.clock.advance(10)
    assert answer().topics[0].partitions[0].error_code == E.NONE
    producer = ended(world, producer)
    world.replicas.appender.verifier = busy = Busy(world.replicas.appender.verifier)
    answer = world.start(TxnOffsetCommitRequest(**commit, **producer), 5)

    assert settled(world, busy, answer).topics[0].partitions[0].error_code == E.NONE


def test_a_question_that_fails_by_an_error_of_ours_acknowledges_nothing(world, monkeypatch):
    def verify(*_question):
        raise ZeroDivisionError

    batch = {**begun(world), **FIRST}
    monkeypatch.setattr(world.replicas.appender.verifier, "verify", verify)
    assert produce(world, data(ORDERS, 0, **batch), 13) == (E.UNKNOWN_SERVER_ERROR, -1)


class Twice:
    """A coordinator that is asked twice: the first answer is CONCURRENT_TRANSACTIONS, the second good."""

    enabled = True

    def __init__(self):
        self.answers = [Pending(), Pending()]
        self.again = Pending()
        self._asked = iter(self.answers)

    def verify(self, _transaction, partitions, _support):
        self.partitions = partitions
        return next(self._asked)

    def later(self, tries):
        return None if tries else self.again


def test_where_the_transaction_has_written_meanwhile_its_end_is_noticed_too(world):
    """Asked again, the partition had no question to guard: the batch opened a transaction without an end."""
    appender, producer = world.replicas.appender, begun(world)
    coordinator, appender.verifier = appender.verifier, (twice := Twice())
    second = data("orders", 1, **producer, base_sequence=1, transactional=True)
    answer = world.start(
        ProduceRequest(transactional_id=ID, acks=1, timeout_ms=1000, topic_data=[second]), 12
    )
    appender.verifier = coordinator
    assert produce(world, data("orders", 1, **producer, **FIRST), 12) == (E.NONE, 0)
    appender.verifier = twice
    twice.answers[0].complete(dict.fromkeys(twice.partitions, E.CONCURRENT_TRANSACTIONS))
    twice.again.complete(None)

    assert world.send(EndTxnRequest(transactional_id=ID, committed=True, **producer), 4).error_code == 0
    world.clock.advance(10)
    twice.answers[1].complete({})
    world.clock.advance(10)

    (found,) = answer().responses[0].partition_responses
    assert E.of(found.error_code) is E.INVALID_TXN_STATE
    assert not world.partition("orders", 1).log.producers.ongoing


class Concurrent:
    """A coordinator whose last transaction does not end."""

    enabled = True

    def __init__(self, verifier):
        self.tries = 0
        self.later = verifier.later

    def verify(self, _transaction, partitions, _support):
        self.tries += 1
        return Pending.of(dict.fromkeys(partitions, E.CONCURRENT_TRANSACTIONS))


@pytest.mark.parametrize(("version", "tries"), [(12, 10), (11, 1)])
def test_the_patience_with_the_last_one_ends(world, version, tries):
    """A client of before is not waited for: it has added the partition before."""
    if not world.verifies:
        pytest.skip("no question of a client of before")
    appender = world.replicas.appender
    appender.verifier = coordinator = Concurrent(appender.verifier)
    batch = {**begun(world), "base_sequence": 0, "transactional": True}
    request = ProduceRequest(
        transactional_id=ID, acks=1, timeout_ms=1000, topic_data=[data("orders", 1, **batch)]
    )
    answer = world.start(request, version)
    for _ in range(100):
        world.clock.advance(1)

    (found,) = answer().responses[0].partition_responses
    assert (E.of(found.error_code), coordinator.tries) == (E.NOT_ENOUGH_REPLICAS, tries)

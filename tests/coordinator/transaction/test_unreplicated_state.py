"""``__transaction_state`` has fewer replicas in sync than it needs, in the middle of a transaction.

The answers are those of two brokers of Apache Kafka 3.9.2, asked the same while one of them was stopped.
"""

from bare_requests import Asker
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.testing import Kafka
from waiting import until

ID = "below"
SETTINGS = {
    "barnabas.api.profile": "3.9",
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 2,
}
NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"


def init(had=(-1, -1), name=ID):
    return InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=60_000, producer_id=had[0], producer_epoch=had[1]
    )


def add(producer, partition):
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
    )


def verify(producer):
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=ID,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=True,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def end(producer, *, committed=True):
    return EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )


def begin(asker, had=(-1, -1)):
    made = until(lambda: (answer := asker.ask(init(had), 4)).error_code == 0 and answer)
    return made.producer_id, made.producer_epoch


def coordinator_of(kafka, askers):
    """The broker that leads the one partition of ``__transaction_state``, once it is loaded."""
    askers[0].ask(FindCoordinatorRequest(key=ID, key_type=1), 3)

    def found():
        return next((each for each in askers if askers[each].code(init(name="probe"), 4) == "NONE"), None)

    return until(lambda: (leader := found()) is not None and (leader,))[0]


def in_sync(asker):
    """The replicas in sync of the one partition of ``__transaction_state``."""
    (topic,) = asker.ask(MetadataRequest(topics=[MetadataRequestTopic(name="__transaction_state")]), 9).topics
    return topic.partitions[0].isr_nodes


def test_the_answers_of_a_coordinator_whose_records_are_not_replicated():
    with Kafka(2, settings=SETTINGS) as kafka:
        kafka.create_topic("t", partitions=100)
        ports = [int(each.rpartition(":")[2]) for each in kafka.bootstrap_servers.split(",")]
        askers = {number: Asker(port) for number, port in enumerate(ports)}
        leader = coordinator_of(kafka, askers)
        asker = askers[leader]
        producer = begin(asker)
        assert until(lambda: asker.code(add(producer, 0), 3) == "NONE")
        kafka.stop_broker(1 - leader)
        # What is appended before the set shrinks waits for request.timeout.ms, longer than this test does.
        assert until(lambda: in_sync(asker) == [leader])
        fresh = iter(range(1, 99))
        assert until(lambda: asker.code(add(producer, next(fresh)), 3) == NOT_AVAILABLE)

        group = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        assert [asker.code(add(producer, 99), version) for version in range(4)] == [NOT_AVAILABLE] * 4
        assert [asker.code(group, version) for version in (0, 3)] == [NOT_AVAILABLE] * 2
        assert asker.code(add(producer, 0), 3) == "NONE", "there is nothing to write"
        assert asker.code(verify(producer), 4) == "NONE"
        assert [asker.code(end(producer), version) for version in range(5)] == [NOT_AVAILABLE] * 5
        assert asker.code(end(producer, committed=False), 3) == NOT_AVAILABLE
        (state,) = asker.ask(DescribeTransactionsRequest(transactional_ids=[ID]), 0).transaction_states
        assert state.transaction_state == "Ongoing"
        # Whoever fences writes, and cannot; the fence counts all the same.
        assert [asker.code(init(producer), version) for version in (3, 5)] == [NOT_AVAILABLE] * 2
        assert [asker.code(init(), version) for version in (0, 5)] == [NOT_AVAILABLE] * 2
        assert [asker.code(end(producer), version) for version in (1, 3)] == [
            "INVALID_PRODUCER_EPOCH",
            "PRODUCER_FENCED",
        ]
        assert asker.code(init(name="another"), 5) == NOT_AVAILABLE

        kafka.restart(1 - leader)
        assert until(lambda: asker.code(init(name="probe"), 4) == "NONE")
        assert asker.code(end(producer), 3) == "PRODUCER_FENCED"
        later = begin(asker)
        assert later == (producer[0], producer[1] + 2)
        assert [asker.code(end(producer), version) for version in (1, 3)] == [
            "INVALID_PRODUCER_EPOCH",
            "PRODUCER_FENCED",
        ]
        assert asker.code(add(later, 0), 3) == "NONE"
        assert asker.code(end(later), 3) == "NONE"

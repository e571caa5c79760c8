"""`admin.transactions`: which answers lead to another attempt, at whom, and which are a result."""

import pytest

from barnabas.admin import (
    AbortTransactionSpec,
    AsyncAdmin,
    FencedProducer,
    TransactionListing,
    TransactionState,
)
from barnabas.client import TopicPartition
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages import describe_transactions as described
from barnabas.protocol.messages import list_transactions as listed
from barnabas.protocol.messages import write_txn_markers as markers
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
TP = TopicPartition("t", 0)
SPEC = AbortTransactionSpec(TP, 7, 3, 1)
VERSIONS = {
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 1),
    ApiKey.WRITE_TXN_MARKERS: (0, 1),
}


class Script:
    """A cluster whose answers are said beforehand, and an admin client."""

    def __init__(self, cluster, admin):
        self.cluster, self.transactions = cluster, admin.transactions
        self.asked = []
        """Who was asked, request by request."""

    def will(self, api, *answers):
        for answer in answers:

            def serve(_request, node, answer=answer):
                self.asked.append((api.name, node))
                return answer

            self.cluster.faults[api].append(serve)

    def coordinators(self, *nodes):
        """FindCoordinator names these, one after the other."""
        self.will(
            ApiKey.FIND_COORDINATOR,
            *(
                FindCoordinatorResponse(
                    coordinators=[
                        Coordinator(key="id", node_id=node, host="127.0.0.1", port=self.cluster.ports[node])
                    ]
                )
                for node in nodes
            ),
        )

    def asked_for(self, api):
        return [node for name, node in self.asked if name == api.name]


@pytest.fixture
def scripted(run, fake):
    def played(body, nodes=2):
        async def scenario():
            async with fake(nodes) as cluster:
                cluster.versions |= VERSIONS
                cluster.add_topic("t")
                async with AsyncAdmin(cluster.bootstrap, **FAST) as admin:
                    await body(Script(cluster, admin))

        run(scenario())

    return played


def description(code=ErrorCode.NONE):
    state = described.TransactionState(
        error_code=code,
        transactional_id="id",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=5,
        producer_id=7,
        producer_epoch=3,
        topics=[described.TopicData(topic="t", partitions=[0, 2])],
    )
    return described.DescribeTransactionsResponse(transaction_states=[state])


def test_a_coordinator_that_loads_is_asked_again_and_one_that_moved_is_looked_up(scripted):
    async def body(script):
        script.coordinators(1, 2)
        script.will(
            ApiKey.DESCRIBE_TRANSACTIONS,
            description(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            description(ErrorCode.NOT_COORDINATOR),
            description(),
        )
        found = (await script.transactions.describe(["id"]))["id"]
        assert script.asked_for(ApiKey.DESCRIBE_TRANSACTIONS) == [1, 1, 2]
        assert (found.coordinator_id, found.state) == (2, TransactionState.ONGOING)
        assert (found.producer_id, found.producer_epoch, found.timeout_ms) == (7, 3, 60_000)
        assert (found.start_time_ms, list(found.partitions)) == (5, [TP, TopicPartition("t", 2)])

    scripted(body)


def test_an_id_that_may_not_be_described_is_an_error_in_javas_words(scripted):
    async def body(script):
        script.coordinators(1)
        script.will(
            ApiKey.DESCRIBE_TRANSACTIONS, description(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        )
        with pytest.raises(KafkaError, match="transactionalId `id` failed due to authorization failure"):
            await script.transactions.describe(["id"])
        answer = Coordinator(key="id", node_id=-1, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        script.will(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[answer]))
        with pytest.raises(
            KafkaError, match=r"transactionalId `CoordinatorKey\(idValue='id', type=TRANSACTION"
        ):
            await script.transactions.describe(["id"])

    scripted(body)


def listing(name, code=ErrorCode.NONE, state="Ongoing"):
    one = listed.TransactionState(transactional_id=name, producer_id=7, transaction_state=state)
    return listed.ListTransactionsResponse(error_code=code, transaction_states=[one])


def test_every_broker_lists_its_transactions_and_those_that_load_are_waited_for(scripted):
    async def body(script):
        async def by_node(_request, node):
            script.asked.append(("list", node))
            if script.asked.count(("list", node)) == 1 and node == 2:
                return listing("none", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return listing(f"of {node}", state="Strange" if node == 2 else "Empty")

        script.cluster.faults[ApiKey.LIST_TRANSACTIONS].extend([by_node] * 3)
        assert await script.transactions.list() == [
            TransactionListing("of 1", 7, TransactionState.EMPTY, 1),
            TransactionListing("of 2", 7, TransactionState.UNKNOWN, 2),
        ]
        script.cluster.faults[ApiKey.LIST_TRANSACTIONS].extend(
            [lambda *_: listing("", ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 2
        )
        with pytest.raises(KafkaError, match="broker 1 failed because the coordinator is shutting down"):
            await script.transactions.list()

    scripted(body)


def test_a_broker_that_cannot_filter_by_duration_is_not_asked(scripted):
    async def body(script):
        script.cluster.versions[ApiKey.LIST_TRANSACTIONS] = (0, 0)
        with pytest.raises(UnsupportedVersionError):
            await script.transactions.list(longer_than_ms=5)
        assert script.cluster.requests(ApiKey.LIST_TRANSACTIONS) == []

    scripted(body)


def test_a_broker_that_cannot_filter_by_pattern_is_not_asked(scripted):
    async def body(script):
        script.cluster.versions[ApiKey.LIST_TRANSACTIONS] = (0, 1)
        with pytest.raises(UnsupportedVersionError):
            await script.transactions.list(pattern="a.*")
        assert script.cluster.requests(ApiKey.LIST_TRANSACTIONS) == []

    scripted(body)


def written(code=ErrorCode.NONE, producer_id=7):
    result = markers.WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
    topic = markers.WritableTxnMarkerTopicResult(name="t", partitions=[result])
    marker = markers.WritableTxnMarkerResult(producer_id=producer_id, topics=[topic])
    return markers.WriteTxnMarkersResponse(markers=[marker])


def test_an_abort_goes_to_the_leader_of_the_partition(scripted):
    async def body(script):
        def moved(_request, node):
            script.asked.append(("WRITE_TXN_MARKERS", node))
            script.cluster.leaders["t", 0] = 2
            return written(ErrorCode.NOT_LEADER_OR_FOLLOWER)

        script.cluster.faults[ApiKey.WRITE_TXN_MARKERS].append(moved)
        script.will(ApiKey.WRITE_TXN_MARKERS, written(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), written())
        await script.transactions.abort(SPEC)
        assert script.asked_for(ApiKey.WRITE_TXN_MARKERS) == [1, 2, 2]
        [marker] = script.cluster.requests(ApiKey.WRITE_TXN_MARKERS)[-1].markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 1)
        assert marker.transaction_result is False

    scripted(body)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (written(ErrorCode.INVALID_PRODUCER_EPOCH), "failed due an invalid producer epoch"),
        (written(ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "failed due to cluster authorization error"),
        (
            written(ErrorCode.KAFKA_STORAGE_ERROR),
            "failed due to unexpected error: Disk error when trying to access log file on the disk.",
        ),
        (written(producer_id=8), "got an answer about something else"),
    ],
)
def test_an_abort_that_is_refused_is_an_error_in_javas_words(scripted, answer, words):
    async def body(script):
        script.will(ApiKey.WRITE_TXN_MARKERS, answer)
        with pytest.raises(KafkaError) as caught:
            await script.transactions.abort(SPEC)
        assert str(caught.value) == f"WriteTxnMarkers request with {SPEC} {words}"

    scripted(body)


def test_fencing_waits_for_the_end_of_what_was_open(scripted):
    async def body(script):
        script.coordinators(1, 1)
        script.will(
            ApiKey.INIT_PRODUCER_ID,
            InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS),
            InitProducerIdResponse(producer_id=7, producer_epoch=4),
        )
        assert await script.transactions.fence("id") == {"id": FencedProducer(7, 4)}
        first, second = script.cluster.requests(ApiKey.INIT_PRODUCER_ID)
        assert first == second
        assert (first.transactional_id, first.producer_id, first.producer_epoch) == ("id", -1, -1)
        assert first.transaction_timeout_ms == 30_000, "request.timeout.ms, as Java's client since 3.9"

        script.will(
            ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        )
        found = await script.transactions.try_fence(["id"], timeout_ms=9_000)
        assert str(found["id"]).endswith("transactionalId `id` failed due to cluster authorization failure")
        assert script.cluster.requests(ApiKey.INIT_PRODUCER_ID)[-1].transaction_timeout_ms == 9_000

    scripted(body)

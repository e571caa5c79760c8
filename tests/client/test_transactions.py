"""Transactions of a producer: what goes to whom in which order, and what each refusal leads to."""

import asyncio
import contextlib

import pytest
from fake_transactions import FakeTransactions, added, committed

from barnabas.client import (
    AbortableTransactionError,
    AsyncProducer,
    ClientTimeoutError,
    ConsumerGroupMetadata,
    FatalTransactionError,
    InvalidRecordError,
    Producer,
    ProducerFencedError,
    RecordTooLargeError,
    TopicPartition,
    TransactionStateError,
    transactions,
)
from barnabas.client.retries import Deadline
from barnabas.client.transaction_state import VALID_SOURCES, TransactionState
from barnabas.core.errors import ConfigError, ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.protocol.messages.end_txn import EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.records.batch import parse_header
from fake_cluster import hangup, produce_error

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
GROUP = ConsumerGroupMetadata("g", 3, "m", None)


@contextlib.asynccontextmanager
async def world(fake, nodes=1, **options):
    """A cluster with a coordinator, and a transactional producer that is ready."""
    async with fake(nodes) as cluster:
        cluster.add_topic("t", partitions=4)
        coordinator = FakeTransactions(cluster)
        options = {"transactional_id": "tx", **FAST, **options}
        async with AsyncProducer(cluster.bootstrap, **options) as producer:
            await producer.init_transactions()
            yield cluster, coordinator, producer


def apis(cluster):
    """The transactional requests in their order, and Produce."""
    wanted = {
        ApiKey.ADD_PARTITIONS_TO_TXN: "add",
        ApiKey.ADD_OFFSETS_TO_TXN: "add-offsets",
        ApiKey.TXN_OFFSET_COMMIT: "offsets",
        ApiKey.PRODUCE: "produce",
        ApiKey.END_TXN: "end",
        ApiKey.INIT_PRODUCER_ID: "init",
    }
    return [wanted[api] for api, _ in cluster.seen if api in wanted]


def test_a_commit_ends_after_the_last_record_and_nothing_goes_before_its_partition(run, fake):
    async def scenario():
        async with world(fake, nodes=2) as (cluster, coordinator, producer):
            async with producer.transaction():
                for number in range(40):
                    await producer.send("t", f"{number}", partition=number % 4)
            assert coordinator.ended == [(True, [("t", number) for number in range(4)], [])]
            order = apis(cluster)
            assert order.index("add") < order.index("produce")
            assert order[-1] == "end"
            for number in range(4):
                for batch in cluster.logs["t", number]:
                    header = parse_header(batch)
                    assert (header.is_transactional, header.producer_id, header.producer_epoch) == (
                        True,
                        77,
                        0,
                    )
                assert [record.value for record in cluster.records("t", number)] == [
                    f"{each}".encode() for each in range(number, 40, 4)
                ]

    run(scenario())


def test_an_empty_transaction_asks_nobody(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, producer):
            async with producer.transaction():
                pass
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    1 / 0  # noqa: B018
            assert apis(cluster) == ["init"]

    run(scenario())


def test_an_exception_of_the_block_aborts_and_what_was_not_sent_fails(run, fake):
    async def scenario():
        async with world(fake, linger_ms=60_000) as (cluster, coordinator, producer):
            deliveries = []
            with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what is tested
                async with producer.transaction():
                    deliveries.append(await producer.send("t", b"sent", partition=0))
                    await producer.flush()
                    deliveries.append(await producer.send("t", b"waits", partition=1))
                    1 / 0  # noqa: B018
            assert (await deliveries[0]).offset == 0
            with pytest.raises(AbortableTransactionError, match="aborted before the record was sent"):
                await deliveries[1]
            assert [commit for commit, *_ in coordinator.ended] == [False]
            # The sequence goes on: nothing was used up.
            async with producer.transaction():
                await producer.send("t", b"next", partition=0)
            headers = [parse_header(batch) for batch in cluster.logs["t", 0]]
            assert [(one.producer_epoch, one.base_sequence) for one in headers] == [(0, 0), (0, 1)]
            assert coordinator.epoch == 0

    run(scenario())


def test_offsets_go_to_the_group_after_the_transaction_knows_of_it(run, fake):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            async with producer.transaction():
                await producer.send_offsets({TopicPartition("t", 1): 5}, GROUP)
            assert coordinator.offsets == {("t", 1): 5}
            assert coordinator.ended == [(True, [], ["g"])]
            assert apis(cluster) == ["init", "add-offsets", "offsets", "end"]
            (request,) = cluster.requests(ApiKey.TXN_OFFSET_COMMIT)
            assert (request.group_id, request.generation_id, request.member_id) == ("g", 3, "m")

    run(scenario())


def init_error(code):
    return lambda request, node_id: InitProducerIdResponse(error_code=code, producer_epoch=-1)


def answer(api, code):
    """A fault: one request of this API is answered with this code."""
    return {
        ApiKey.INIT_PRODUCER_ID: init_error(code),
        ApiKey.ADD_PARTITIONS_TO_TXN: lambda request, node_id: added(request, code),
        ApiKey.ADD_OFFSETS_TO_TXN: lambda request, node_id: AddOffsetsToTxnResponse(error_code=code),
        ApiKey.TXN_OFFSET_COMMIT: lambda request, node_id: committed(request, code),
        ApiKey.END_TXN: lambda request, node_id: EndTxnResponse(error_code=code),
    }[api]


PARTITIONS, OFFSETS = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN
POSITIONS, END = ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN
E = ErrorCode


async def whole(producer):
    async with producer.transaction():
        await producer.send("t", b"x", partition=0)
        await producer.send_offsets({TopicPartition("t", 1): 5}, GROUP)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (api, code)
        for api in (PARTITIONS, OFFSETS, POSITIONS, END)
        for code in (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS)
    ]
    + [(api, E.CONCURRENT_TRANSACTIONS) for api in (PARTITIONS, OFFSETS, END)]
    + [
        (PARTITIONS, E.UNKNOWN_TOPIC_OR_PARTITION),
        (POSITIONS, E.UNKNOWN_TOPIC_OR_PARTITION),
        (POSITIONS, E.REQUEST_TIMED_OUT),
    ],
)
def test_what_passes_is_tried_again(run, fake, api, code):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            cluster.faults[api].extend([answer(api, code)] * 2)
            await whole(producer)
            assert coordinator.ended == [(True, [("t", 0)], ["g"])]
            assert len(cluster.requests(api)) == 3
            looked_up = len(cluster.requests(ApiKey.FIND_COORDINATOR))
            moved = code in (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.REQUEST_TIMED_OUT)
            assert looked_up == 2 + 2 * moved

    run(scenario())


@pytest.mark.parametrize(
    ("api", "code", "bumped"),
    [(api, E.TRANSACTION_ABORTABLE, False) for api in (PARTITIONS, OFFSETS, POSITIONS, END)]
    + [(api, E.UNKNOWN_PRODUCER_ID, True) for api in (PARTITIONS, OFFSETS, END)]
    + [
        (PARTITIONS, E.TOPIC_AUTHORIZATION_FAILED, False),
        (PARTITIONS, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, False),
        (OFFSETS, E.GROUP_AUTHORIZATION_FAILED, False),
        (OFFSETS, E.INVALID_PRODUCER_ID_MAPPING, True),
        (POSITIONS, E.GROUP_AUTHORIZATION_FAILED, False),
        (POSITIONS, E.ILLEGAL_GENERATION, False),
        (POSITIONS, E.UNKNOWN_MEMBER_ID, False),
        (POSITIONS, E.FENCED_INSTANCE_ID, False),
    ],
)
def test_what_spoils_a_transaction_aborts_it_and_the_next_one_works(run, fake, api, code, bumped):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            cluster.faults[api].append(answer(api, code))
            with pytest.raises(AbortableTransactionError) as caught:
                await whole(producer)
            assert caught.value.code is code
            assert "transactional id tx" in str(caught.value)
            assert all(not commit for commit, *_ in coordinator.ended)

            await whole(producer)

            assert coordinator.ended[-1][0]
            assert coordinator.epoch == bumped

    run(scenario())


@pytest.mark.parametrize(
    ("api", "code", "fenced"),
    [
        (api, code, True)
        for api in (PARTITIONS, OFFSETS, POSITIONS, END)
        for code in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH)
    ]
    + [
        (api, code, False)
        for api in (PARTITIONS, OFFSETS, POSITIONS, END)
        for code in (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.INVALID_TXN_STATE)
    ],
)
def test_what_ends_a_producer_is_said_by_every_later_call(run, fake, api, code, fenced):
    async def scenario():
        async with world(fake) as (cluster, _, producer):
            cluster.faults[api].append(answer(api, code))
            kind = ProducerFencedError if fenced else FatalTransactionError
            with pytest.raises(kind) as caught:
                await whole(producer)
            assert caught.value.code is (E.PRODUCER_FENCED if fenced else code)
            for call in (
                producer.init_transactions,
                producer.commit_transaction,
                producer.abort_transaction,
                lambda: producer.send("t", b"x"),
            ):
                with pytest.raises(kind):
                    await call()
            with pytest.raises(kind):
                producer.begin_transaction()

    run(scenario())


def test_of_several_partitions_one_that_waits_for_markers_is_added_again(run, fake):
    def one_of_two(request, node_id):
        answered = added(request, E.NONE)
        (topic,) = answered.results_by_topic_v3_and_below
        assert len(topic.results_by_partition) == 2
        topic.results_by_partition[-1].partition_error_code = E.CONCURRENT_TRANSACTIONS
        return answered

    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            cluster.faults[PARTITIONS].append(one_of_two)
            async with producer.transaction():
                await asyncio.gather(*(producer.send("t", b"x", partition=each) for each in (0, 1)))
            assert coordinator.ended == [(True, [("t", 0), ("t", 1)], [])]

    run(scenario())


@pytest.mark.timeout(30)
@pytest.mark.parametrize("api", [PARTITIONS, OFFSETS, POSITIONS])
def test_what_waits_for_markers_does_not_wait_as_for_a_broker(run, fake, api):
    async def scenario():
        pauses = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
        async with world(fake, **pauses) as (cluster, coordinator, producer):
            cluster.faults[api].extend([answer(api, E.CONCURRENT_TRANSACTIONS)] * 8)
            await whole(producer)
            assert coordinator.ended == [(True, [("t", 0)], ["g"])]

    run(scenario())


@pytest.mark.parametrize("code", [E.PRODUCER_FENCED, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
def test_an_id_that_cannot_be_had_ends_the_producer(run, fake, code):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t")
            FakeTransactions(cluster)
            cluster.faults[ApiKey.INIT_PRODUCER_ID].append(init_error(E.CONCURRENT_TRANSACTIONS))
            cluster.faults[ApiKey.INIT_PRODUCER_ID].append(init_error(code))
            async with AsyncProducer(cluster.bootstrap, transactional_id="tx", **FAST) as producer:
                with pytest.raises(FatalTransactionError) as caught:
                    await producer.init_transactions()
                assert caught.value.code is code

    run(scenario())


@pytest.mark.parametrize(
    "code", [E.MESSAGE_TOO_LARGE, E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.INVALID_PRODUCER_EPOCH]
)
def test_a_batch_that_is_refused_makes_the_commit_fail_and_the_next_epoch_begins_at_zero(run, fake, code):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            async with producer.transaction():
                await producer.send("t", b"before", partition=0)
            cluster.faults[ApiKey.PRODUCE].append(produce_error(code))
            producer.begin_transaction()
            delivery = await producer.send("t", b"refused", partition=0)
            with pytest.raises(AbortableTransactionError) as caught:
                await producer.commit_transaction()
            assert caught.value.code is code
            assert delivery.done()
            with pytest.raises(AbortableTransactionError):
                await producer.send("t", b"too late")
            await producer.abort_transaction()

            async with producer.transaction():
                await producer.send("t", b"after", partition=0)

            assert [commit for commit, *_ in coordinator.ended] == [True, False, True]
            headers = [parse_header(batch) for batch in cluster.logs["t", 0]]
            assert [(one.producer_epoch, one.base_sequence) for one in headers] == [(0, 0), (1, 0)]
            assert [record.value for record in cluster.records("t")] == [b"before", b"after"]

    run(scenario())


REFUSED = {
    "too large": (lambda producer: producer.send("t", bytes(5000)), RecordTooLargeError),
    "no such topic in time": (lambda producer: producer.send("missing", b"v"), ClientTimeoutError),
    "no topic's name": (lambda producer: producer.send("a b", b"v"), InvalidRecordError),
    "no such partition": (lambda producer: producer.send("t", b"v", partition=9), InvalidRecordError),
}
SMALL = {"max_request_size": 2000, "max_block_ms": 300}


@pytest.mark.parametrize(("send", "kind"), REFUSED.values(), ids=REFUSED)
def test_a_transaction_that_lacks_a_record_cannot_be_committed(run, fake, send, kind):
    """``KafkaProducer.doSend``: also where the caller went on after the refusal."""

    async def scenario():
        async with world(fake, **SMALL) as (cluster, coordinator, producer):
            cluster.add_topic = lambda name: None  # the brokers create no topics
            producer.begin_transaction()
            await producer.send("t", b"stored", partition=0)
            with pytest.raises(kind):
                await send(producer)
            with pytest.raises(AbortableTransactionError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("t", b"after", partition=0)

            assert coordinator.ended[-1] == (True, [("t", 0)], [])
            assert all(not commit for commit, *_ in coordinator.ended[:-1])

    run(scenario())


def test_an_argument_that_is_no_record_leaves_the_transaction_as_it_is(run, fake):
    """What Java's serializers refuse is thrown, and spoils nothing."""

    async def scenario():
        async with world(fake) as (_cluster, coordinator, producer):
            async with producer.transaction():
                await producer.send("t", b"stored", partition=0)
                with pytest.raises(TypeError):
                    await producer.send("t", 5)
            assert coordinator.ended == [(True, [("t", 0)], [])]

    run(scenario())


def test_a_record_that_another_thread_could_not_send_spoils_the_transaction_too(background_cluster):
    background_cluster.add_topic("t", partitions=1)
    coordinator = FakeTransactions(background_cluster)
    with Producer(background_cluster.bootstrap, transactional_id="tx", **FAST, **SMALL) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"stored")
        with pytest.raises(RecordTooLargeError):
            producer.send("t", bytes(5000))
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
    assert all(not commit for commit, *_ in coordinator.ended)


@pytest.mark.parametrize("api", [PARTITIONS, OFFSETS, POSITIONS, END, ApiKey.PRODUCE])
def test_an_answer_that_got_lost_is_asked_for_again(run, fake, api):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):

            def served_and_lost(request, node_id):
                getattr(cluster, f"_{api.name.lower()}")(request, node_id)
                return hangup(request, node_id)

            cluster.faults[api].append(served_and_lost)
            await whole(producer)
            assert coordinator.ended == [(True, [("t", 0)], ["g"])]
            assert [record.value for record in cluster.records("t")] == [b"x"]

    run(scenario())


def test_an_abort_waits_for_partitions_whose_answer_got_lost(run, fake):
    """The coordinator has them: without an EndTxn they would stay open until the time-out."""

    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            arrived = asyncio.Event()

            def served_and_lost(request, node_id):
                cluster._add_partitions_to_txn(request, node_id)
                arrived.set()
                return hangup(request, node_id)

            cluster.faults[PARTITIONS].append(served_and_lost)
            producer.begin_transaction()
            await producer.send("t", b"x", partition=0)
            await arrived.wait()
            await producer.abort_transaction()
            assert coordinator.ended == [(False, [("t", 0)], [])]
            assert not cluster.logs["t", 0]

    run(scenario())


def test_an_end_that_takes_longer_than_a_caller_waits_goes_on(run, fake, monkeypatch):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            held = asyncio.Event()

            async def late(request, node_id):
                await held.wait()
                return coordinator._end_txn(request, node_id)

            cluster.faults[END].append(late)
            producer.begin_transaction()
            await producer.send("t", b"x", partition=0)
            with monkeypatch.context() as patch:
                # The time of this call alone is short: the others may have to wait for a busy machine.
                patch.setattr(transactions, "Deadline", lambda _: Deadline(60))
                with pytest.raises(ClientTimeoutError, match=r"max\.block\.ms.*call it again"):
                    await producer.commit_transaction()
            with pytest.raises(TransactionStateError):
                producer.begin_transaction()
            with pytest.raises(TransactionStateError, match="COMMITTING"):
                await producer.send("t", b"behind the end", partition=0)
            held.set()
            await producer.commit_transaction()
            assert coordinator.ended == [(True, [("t", 0)], [])]
            assert len(cluster.requests(END)) == 1

    run(scenario())


def test_calls_out_of_turn_say_which_one_fits(run, fake):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t")
            FakeTransactions(cluster)
            async with AsyncProducer(cluster.bootstrap, transactional_id="tx", **FAST) as producer:
                with pytest.raises(TransactionStateError, match="call init_transactions first"):
                    producer.begin_transaction()
                await producer.init_transactions()
                for call in (
                    producer.commit_transaction,
                    producer.abort_transaction,
                    lambda: producer.send_offsets({TopicPartition("t", 0): 1}, GROUP),
                ):
                    with pytest.raises(TransactionStateError, match="call begin_transaction first"):
                        await call()
                with pytest.raises(TransactionStateError, match="begin one"):
                    await producer.send("t", b"x")
                producer.begin_transaction()
                with pytest.raises(TransactionStateError, match="commit or abort it first"):
                    producer.begin_transaction()

    run(scenario())


def test_a_producer_that_is_closed_aborts_what_is_open(run, fake):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t")
            coordinator = FakeTransactions(cluster)
            async with AsyncProducer(cluster.bootstrap, transactional_id="tx", **FAST) as producer:
                await producer.init_transactions()
                producer.begin_transaction()
                await producer.send_and_wait("t", b"x")
            assert coordinator.ended == [(False, [("t", 0)], [])]

    run(scenario())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acks": 1}, "Must set acks to all in order to use a transactional.id"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5 in order to use a transactional.id"),
        ({"enable_idempotence": False}, "Cannot set a transactional.id without also enabling idempotence"),
        ({"transactional_id": ""}, "must not be empty"),
    ],
)
def test_options_that_do_not_go_with_transactions_are_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        Producer("127.0.0.1:1", **{"transactional_id": "tx", **options})


def test_a_producer_without_an_id_has_no_transactions(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            with pytest.raises(ConfigError, match="give it a transactional_id"):
                producer.begin_transaction()

    run(scenario())


def test_states_follow_each_other_as_in_javas_client():
    """Each pair of the table, written down a second time."""
    follows = {
        "UNINITIALIZED": "INITIALIZING",
        "INITIALIZING": "READY",
        "READY": "IN_TRANSACTION",
        "IN_TRANSACTION": "COMMITTING ABORTING ABORTABLE_ERROR",
        "COMMITTING": "READY ABORTABLE_ERROR",
        "ABORTING": "READY INITIALIZING",
        "ABORTABLE_ERROR": "ABORTING ABORTABLE_ERROR",
        "FATAL_ERROR": "",
    }
    found = {
        old.name: {new.name for new in TransactionState if old in VALID_SOURCES[new]}
        for old in TransactionState
    }
    assert found == {old: {*new.split(), "FATAL_ERROR"} for old, new in follows.items()}

"""Batches of the default size grow on while the sender has not come to them, and nothing waits for that."""

import asyncio
import contextlib
import math
import random

import pytest

from barnabas.client import AsyncProducer, Producer
from barnabas.client.accumulator import RecordAccumulator
from barnabas.client.partition_queue import NO_IDENTITY
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.records.batch import HEADER_SIZE, parse_header
from barnabas.records.compression import Codec
from barnabas.testing import Fault, Kafka
from fake_cluster import produce_error

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
BATCH_BYTES = 16_384
VALUE = b"." * 96


def numbered(count, start=0):
    return [b"%04d" % number + VALUE for number in range(start, start + count)]


def headers(cluster, partition=0):
    return [parse_header(batch) for batch in cluster.logs["t", partition]]


@pytest.fixture
def seldom_closed(monkeypatch):
    """No test is so slow that what is due is closed meanwhile."""
    monkeypatch.setattr("barnabas.client.sender._EXPIRY_S", 1000.0)


@contextlib.asynccontextmanager
async def answer_held_back(cluster, producer, topic="t"):
    """The broker has a first record, and owes the answer until the block calls what it gets."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def wait(request, node_id):
        asked.set()
        await go_on.wait()
        return cluster._produce(request, node_id)

    cluster.faults[ApiKey.PRODUCE].append(wait)
    await producer.send(topic, b"first", partition=0)
    flushing = asyncio.create_task(producer.flush())  # also where records linger
    await asked.wait()
    try:
        yield go_on.set
    finally:
        go_on.set()
        await flushing


async def requests_in_flight(producer, count):
    """Until so many requests have no answer."""
    while producer.metrics()["producer-metrics"]["requests-in-flight"] < count:  # noqa: ASYNC110 - as users see it
        await asyncio.sleep(0)


@pytest.mark.usefixtures("seldom_closed")
def test_while_no_request_may_be_made_all_records_share_a_batch(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, max_in_flight_requests_per_connection=1) as producer,
        ):
            async with answer_held_back(cluster, producer) as release:
                values = numbered(1000)
                sent = [await producer.send("t", value) for value in values]
                release()
                await producer.flush()
            assert [one.count for one in headers(cluster)] == [1, 1000]
            assert [record.value for record in cluster.records("t")] == [b"first", *values]
            assert [(await one).offset for one in sent] == list(range(1, 1001))

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
def test_a_batch_grows_to_256_kb_and_no_further(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, max_in_flight_requests_per_connection=1) as producer,
        ):
            async with answer_held_back(cluster, producer) as release:
                for _ in range(5):
                    await producer.send("t", b"." * 60_000)
                release()
                await producer.flush()
            assert [one.count for one in headers(cluster)] == [1, 4, 1]

    run(scenario())


def test_a_size_that_was_asked_for_is_the_upper_bound(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(
                cluster.bootstrap, batch_size=BATCH_BYTES, max_in_flight_requests_per_connection=1
            ) as producer,
        ):
            async with answer_held_back(cluster, producer) as release:
                for value in numbered(400):
                    await producer.send("t", value)
                release()
                await producer.flush()
            sizes = [len(batch) for batch in cluster.logs["t", 0]]
            assert len(sizes) == 4
            assert max(sizes) <= BATCH_BYTES

    run(scenario())


def test_a_lone_record_waits_for_no_answer(run, fake):
    """Only five requests without an answer hold it up, as ever."""

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            async with answer_held_back(cluster, producer) as release:
                for in_flight in range(2, 6):
                    await producer.send("t", b"%d" % in_flight)
                    await requests_in_flight(producer, in_flight)
                release()
                await producer.flush()
            assert [one.count for one in headers(cluster)] == [1] * 5

    run(scenario())


def test_a_flush_sends_what_lingers_while_an_answer_is_owed(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, linger_ms=100_000) as producer,
        ):
            async with answer_held_back(cluster, producer) as release:
                await producer.send("t", b"second")
                flushing = asyncio.create_task(producer.flush())
                await requests_in_flight(producer, 2)
                assert not flushing.done()
                release()
                await flushing
            assert [record.value for record in cluster.records("t")] == [b"first", b"second"]

    run(scenario())


def test_a_batch_that_is_due_by_its_size_does_not_linger(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, linger_ms=100_000) as producer,
        ):
            values = numbered(200)
            sent = [await producer.send("t", value) for value in values]
            # Nobody flushes: its size alone sends the batch.
            assert (await sent[0]).offset == 0
            await producer.flush()
            assert [record.value for record in cluster.records("t")] == values

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
def test_what_was_due_when_it_was_looked_for_what_is_too_old_takes_no_more(run, fake):
    """The records of a long outage share neither a batch nor the time at which it expires."""

    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, max_in_flight_requests_per_connection=1) as producer,
        ):
            async with answer_held_back(cluster, producer) as release:
                for values in (numbered(200), numbered(200, 200), numbered(20, 400), numbered(20, 420)):
                    for value in values:
                        await producer.send("t", value)
                    producer._sender._expire_at = -math.inf
                    producer._sender.pump()
                release()
                await producer.flush()
            # What is not due yet is taken to its size, however long that takes.
            assert [one.count for one in headers(cluster)] == [1, 200, 200, 40]

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
def test_order_and_sequences_are_kept_when_the_leader_changes_under_a_batch_that_has_grown(run, fake):
    async def scenario():
        async with fake(2) as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            cluster.add_topic("t", 1)
            values = numbered(3000)
            deliveries = []
            async with answer_held_back(cluster, producer) as release:
                deliveries += [await producer.send("t", value) for value in values[:2000]]
                cluster.leaders["t", 0] = 2
                cluster.epochs["t", 0] += 1
                cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
                release()
                deliveries += [await producer.send("t", value) for value in values[2000:]]
                await producer.flush()
            stored = [record.value for record in cluster.records("t")]
            assert stored == [b"first", *values]
            assert [(await one).offset for one in deliveries] == list(range(1, 3001))
            found = headers(cluster)
            assert [one.base_sequence for one in found] == [one.base_offset for one in found]
            assert max(len(batch) for batch in cluster.logs["t", 0]) > BATCH_BYTES

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
def test_batches_of_a_topic_that_does_not_take_them_grow_once(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, max_in_flight_requests_per_connection=1, **FAST) as producer,
        ):
            store = cluster._store

            def limited(tp, batch):
                too_large = len(batch) > 40_000 and tp[0] == "t"
                return (ErrorCode.MESSAGE_TOO_LARGE, -1) if too_large else store(tp, batch)

            cluster._store = limited
            for round_of_both in range(2):
                for topic in ("t", "u"):
                    async with answer_held_back(cluster, producer, topic) as release:
                        for value in numbered(1000):
                            await producer.send(topic, value)
                        release()
                        await producer.flush()
                metrics = producer.metrics()["producer-metrics"]
                # 108 KB: in two, and each of these in two.
                assert (round_of_both, metrics["batch-split-total"]) == (round_of_both, 3)
            assert [record.value for record in cluster.records("t")] == [b"first", *numbered(1000)] * 2
            assert [parse_header(batch).count for batch in cluster.logs["u", 0]] == [1, 1000] * 2

    run(scenario())


def accumulator(**options):
    said = []
    made = RecordAccumulator(
        batch_bytes=500,
        codec=Codec.NONE,
        monotonic=lambda: 100.0,
        on_work=said.append,
        **{"buffer_bytes": 100_000, "grown_bytes": 2000, "request_bytes_max": 5000, **options},
    )
    made.set_topic("t", 2, range(2))
    return made, said


def sizes(made):
    return [batch.size_bytes for _, batch in made.waiting()]


def test_the_sender_is_told_that_a_batch_is_due_once_and_that_it_takes_no_more():
    made, said = accumulator()
    value = b"." * 100
    made.try_append("t", value, None, 0, 1, ())
    record_bytes = sizes(made)[0] - HEADER_SIZE
    made, said = accumulator(grown_bytes=HEADER_SIZE + 10 * record_bytes)
    for _ in range(10):
        made.try_append("t", value, None, 0, 1, ())
    assert sizes(made) == [HEADER_SIZE + 10 * record_bytes]
    # Opened, due with the fifth, full to the byte.
    assert said == [False, False, True]
    made.try_append("t", value, None, 0, 1, ())
    assert said == [False, False, True, False]
    assert len(sizes(made)) == 2


def test_a_batch_never_outgrows_a_request():
    made, _ = accumulator(request_bytes_max=800)
    for _ in range(20):
        made.try_append("t", b"." * 100, None, 0, 1, ())
    assert 500 < max(sizes(made)) <= 800


def test_records_without_a_key_go_on_to_another_partition_after_batch_size_bytes():
    made, _ = accumulator()
    for _ in range(60):
        made.try_append("t", b"." * 100, None, None, 1, ())
    waiting = [queue.tp.partition for queue, _ in made.waiting()]
    assert set(waiting) == {0, 1}


def test_a_batch_that_has_grown_counts_as_several_where_the_next_partition_is_chosen():
    asked = []

    def loads(queues):
        asked.append([made.load(queue) for queue in queues])
        return [1] * len(queues)

    made, _ = accumulator(loads=loads)
    for _ in range(9):
        made.try_append("t", b"." * 100, None, 0, 1, ())
    made.try_append("t", b"." * 100, None, 1, 1, ())
    made.try_append("t", b"." * 100, None, None, 1, ())
    assert asked == [[3, 1]]


def test_records_do_not_join_a_batch_that_came_encoded():
    made, _ = accumulator()
    made.try_append_section("t", 0, b"." * 50, 1, 1)
    made.try_append("t", b"." * 100, None, 0, 1, ())
    ((_, queue),) = made.due(0.0)
    assert [made.take(queue, NO_IDENTITY).is_section for _ in range(2)] == [True, False]


def test_a_real_broker_that_is_slow_gets_few_requests():
    with Kafka() as kafka:
        topic = kafka.create_topic()
        with Producer(kafka.bootstrap_servers, max_in_flight_requests_per_connection=1) as producer:
            producer.send(topic, b"first").result()
            slow = kafka.plant(Fault("Produce", topic=topic, delay_ms=100, count=None))
            values = numbered(5000)
            for value in values:
                producer.send(topic, value)
            producer.flush()
            slow.remove()
        # 535 KB: 33 batches, and as many requests, of batch.size.
        assert slow.fired() < 25
        assert [record.value for record in kafka.records(topic)] == [b"first", *values]


@pytest.mark.parametrize(("options", "largest"), [({}, 1000), ({"batch_size": BATCH_BYTES}, 148)])
def test_rows_of_a_table_fill_the_largest_batch(run, fake, options, largest):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("numba")

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **options) as producer:
            table = pa.table({"value": pa.array(numbered(1000), pa.binary())})
            await producer.send_arrow("t", table)
            await producer.flush()
            assert max(one.count for one in headers(cluster)) == largest
            assert [record.value for record in cluster.records("t")] == numbered(1000)

    run(scenario())


def test_rows_without_a_key_are_spread_as_finely_as_with_batches_of_batch_size(run, fake):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("numba")

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            cluster.add_topic("t", 5)
            # 1 MB is 64 times 16 KB: each of five partitions is drawn, which four batches could not be for.
            await producer.send_arrow("t", pa.table({"value": pa.array([b"." * 1000] * 1000, pa.binary())}))
            await producer.flush()
            counts = [sum(one.count for one in headers(cluster, partition)) for partition in range(5)]
            assert sum(counts) == 1000
            assert all(counts), counts

    run(scenario())


def test_a_table_for_a_topic_that_refused_large_batches_comes_in_small_ones(run, fake):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("numba")

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            store = cluster._store

            def limited(tp, batch):
                return (ErrorCode.MESSAGE_TOO_LARGE, -1) if len(batch) > 60_000 else store(tp, batch)

            cluster._store = limited
            table = pa.table({"value": pa.array(numbered(1000), pa.binary())})
            for _ in range(2):
                await producer.send_arrow("t", table)
                await producer.flush()
            assert producer.metrics()["producer-metrics"]["batch-split-total"] == 1
            assert [record.value for record in cluster.records("t")] == numbered(1000) * 2

    run(scenario())


def test_batches_that_are_open_when_their_topic_refuses_one_grow_no_further():
    made, _ = accumulator()
    for partition in (0, 1):
        for _ in range(9):
            made.try_append("t", b"." * 100, None, partition, 1, ())
    (_, first), _ = made.due(0.0)
    made.split(first, made.take(first, NO_IDENTITY))
    made.try_append("t", b"." * 100, None, 1, 1, ())
    assert [batch.count for queue, batch in made.waiting() if queue.tp.partition == 1] == [9, 1]


def limited_to(cluster, size):
    """Topics of the fake cluster take no batch that is larger."""
    store = cluster._store

    def limited(tp, batch):
        return (ErrorCode.MESSAGE_TOO_LARGE, -1) if len(batch) > size else store(tp, batch)

    cluster._store = limited


def test_without_answers_no_batch_grows_beyond_what_the_topic_might_take(run, fake):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t")
            limited_to(cluster, 20_000)
            values = numbered(3000)
            async with AsyncProducer(cluster.bootstrap, acks="0", enable_idempotence=False) as producer:
                for value in values:
                    await producer.send("t", value)
                await producer.flush()
                # An answer comes to what was asked last: by then all before it was stored.
                await producer._cluster.refresh()
            assert [record.value for record in cluster.records("t")] == values

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_without_sequences_nothing_overtakes_a_batch_that_may_have_to_be_split(run, fake, compression):
    async def scenario():
        options = {"acks": "1", "enable_idempotence": False, "compression_type": compression, **FAST}
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **options) as producer:
            limited_to(cluster, 20_000)
            source = random.Random(1)  # nothing for a codec to make small
            values = [b"%04d" % number + source.randbytes(96) for number in range(1010)]
            async with answer_held_back(cluster, producer) as release:
                for value in values[:1000]:
                    assert producer.try_send("t", value, None, None, None, ())
                await requests_in_flight(producer, 2)
                for value in values[1000:]:
                    assert producer.try_send("t", value, None, None, None, ())
                for _ in range(10):
                    await asyncio.sleep(0)
                release()
                await producer.flush()
            assert [record.value for record in cluster.records("t")] == [b"first", *values]

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
def test_without_sequences_several_batches_are_on_their_way_where_as_large_ones_were_taken(run, fake):
    async def scenario():
        options = {"acks": "1", "enable_idempotence": False, "max_in_flight_requests_per_connection": 2}
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **options) as producer:
            for _ in range(2):
                async with answer_held_back(cluster, producer) as release:
                    for value in numbered(20):
                        await producer.send("t", value)
                    await requests_in_flight(producer, 2)
                    release()
                    await producer.flush()

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
def test_without_sequences_a_large_record_holds_nothing_up_as_it_is_never_split(run, fake):
    async def scenario():
        options = {"acks": "1", "enable_idempotence": False, "max_in_flight_requests_per_connection": 3}
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, **options) as producer,
            answer_held_back(cluster, producer) as release,
        ):
            for in_flight, value in ((2, b"." * 300_000), (3, b"small")):
                await producer.send("t", value)
                await requests_in_flight(producer, in_flight)
            release()

    run(scenario())


@pytest.mark.usefixtures("seldom_closed")
def test_a_lone_record_does_not_wait_until_nobody_sends_to_other_partitions(run, fake):
    async def scenario():
        hot = 12
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, max_in_flight_requests_per_connection=1) as producer,
        ):
            cluster.add_topic("t", hot + 1)
            produce, rounds = cluster._produce, []

            async def refill():
                for partition in range(hot):
                    for _ in range(5):
                        await producer.send("t", b"." * 50_000, partition=partition)

            async def fill_again(request, node_id):
                # Before each answer, all the other partitions have a batch of 256 KB once more.
                rounds.append([one.index for topic in request.topic_data for one in topic.partition_data])
                if len(rounds) < 20:
                    await refill()
                return produce(request, node_id)

            await refill()
            lone = await producer.send("t", b"lone", partition=hot)
            cluster._produce = fill_again
            await lone
            turn = next(number for number, one in enumerate(rounds) if hot in one)
            # Four to a request, and those before it were there first.
            assert turn <= 4, rounds
            await producer.abort()

    run(scenario())

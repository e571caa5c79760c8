"""An asynchronous client on another event loop than its own: one line at once, and an end that is quick."""

import asyncio
import re
import threading

import pytest
from fake_group import serve_group

from barnabas.admin import AsyncAdmin, NewTopic
from barnabas.client import (
    AsyncConsumer,
    AsyncProducer,
    ClientClosedError,
    ConsumerGroupMetadata,
    EventLoopError,
    TopicPartition,
)

T0 = TopicPartition("t", 0)
GROUP = ConsumerGroupMetadata("g", -1, "", None)
LIMIT_S = 5
CLIENTS = {AsyncProducer: {"transactional_id": "x"}, AsyncConsumer: {"group_id": "g"}, AsyncAdmin: {}}
CALLS = {
    AsyncProducer: {
        "start": lambda one: one.start(),
        "send": lambda one: one.send("t", "v"),
        "send to a new topic": lambda one: one.send("new", "v"),
        "flush": lambda one: one.flush(),
        "partitions_for": lambda one: one.partitions_for("t"),
        "init_transactions": lambda one: one.init_transactions(),
        "send_offsets": lambda one: one.send_offsets({T0: 1}, GROUP),
        "commit_transaction": lambda one: one.commit_transaction(),
        "abort_transaction": lambda one: one.abort_transaction(),
    },
    AsyncConsumer: {
        "start": lambda one: one.start(),
        "poll": lambda one: one.poll(10),
        "fetch_raw": lambda one: one.fetch_raw(10),
        "unsubscribe": lambda one: one.unsubscribe(),
        "commit": lambda one: one.commit({T0: 1}),
        "committed": lambda one: one.committed([T0]),
        "end_offsets": lambda one: one.end_offsets([T0]),
        "partitions_for": lambda one: one.partitions_for("t"),
    },
    AsyncAdmin: {
        "start": lambda one: one.start(),
        "create": lambda one: one.topics.create(NewTopic("t")),
        "describe groups": lambda one: one.groups.describe(["g"]),
        "list offsets": lambda one: one.offsets.list({T0: -1}),
    },
}


async def within(work):
    async with asyncio.timeout(LIMIT_S):
        return await work


def raised(error, call, one):
    """What a call raises on a loop of its own."""
    with pytest.raises(error) as refused:
        asyncio.run(within(call(one)))
    return str(refused.value)


def made(client, bootstrap):
    # Metrics would be pushed over a second connection, which may be half made when the test ends.
    return client(bootstrap, enable_metrics_push=False, **CLIENTS[client])


async def started(client, bootstrap):
    return await made(client, bootstrap).start()


@pytest.fixture
def other_loop():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work):
        return asyncio.run_coroutine_threadsafe(within(work), loop).result()

    yield run
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_after_the_loop_was_closed_says_what_to_do(background_cluster, client):
    background_cluster.add_topic("t", 1)
    one = asyncio.run(started(client, background_cluster.bootstrap))
    said = r"^The event loop that the client ran on is closed: make and use a client within one asyncio\.run"
    for name, call in CALLS[client].items():
        assert re.match(said, raised(ClientClosedError, call, one)), name
    asyncio.run(within(one.close()))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_on_another_loop_says_so_and_the_client_lives_on(background_cluster, client, other_loop):
    one = other_loop(started(client, background_cluster.bootstrap))
    for name, call in {**CALLS[client], "close": lambda one: one.close()}.items():
        said = raised(EventLoopError, call, one)
        assert said.startswith("The client belongs to another event loop: make and use a client"), name
    other_loop(one.start())
    other_loop(one.close())


def test_records_that_a_closed_loop_has_left_are_counted_when_the_producer_is_closed(background_cluster):
    async def begun():
        producer = AsyncProducer(background_cluster.bootstrap, linger_ms=60_000, enable_metrics_push=False)
        return producer, [await producer.send("t", str(number)) for number in range(3)]

    producer, deliveries = asyncio.run(begun())
    with pytest.raises(ClientClosedError, match=r"^3 record\(s\) were not stored when the event loop"):
        asyncio.run(within(producer.close()))
    for delivery in deliveries:
        assert isinstance(delivery.exception(timeout=LIMIT_S), ClientClosedError)
    asyncio.run(within(producer.close()))


def test_a_member_whose_loop_is_closed_ends_without_a_word_to_its_group(background_cluster):
    serve_group(background_cluster)
    background_cluster.add_topic("t", 1)

    async def begun():
        consumer = await started(AsyncConsumer, background_cluster.bootstrap)
        consumer.subscribe("t")
        await consumer.poll(20)
        return consumer

    consumer = asyncio.run(begun())
    asyncio.run(within(consumer.close()))
    with pytest.raises(ClientClosedError):
        asyncio.run(within(consumer.poll(10)))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_was_only_made_in_another_loop_works(background_cluster, client):
    async def only_made():
        return made(client, background_cluster.bootstrap)

    one = asyncio.run(only_made())

    async def used():
        await one.start()
        await one.close()

    asyncio.run(within(used()))

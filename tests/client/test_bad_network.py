"""Answers that are lost, late, torn or another's: nothing hangs beyond the time-outs, and with idempotence
no record is lost or doubled.
"""

import contextlib
import itertools

import pytest
from bad_network import HARMS, BadNetwork, cut_short

from barnabas.admin import AsyncAdmin, NewTopic
from barnabas.client import (
    AsyncConsumer,
    AsyncProducer,
    ClientTimeoutError,
    TopicPartition,
)
from barnabas.network.errors import DisconnectedError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from serving import free_port

QUICK = {"request_timeout_ms": 300, "retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
ENDLESS = 1_000_000
RECORDS = [str(number).encode() for number in range(60)]
names = (f"bad-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def ports(serve, tmp_path_factory):
    """The port that a broker advertises, and the one where it listens."""
    advertised = free_port()
    there = f"advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}"
    return advertised, serve(tmp_path_factory.mktemp("bad") / "data", "--set", there).wait_until_ready().port


@contextlib.asynccontextmanager
async def network(ports):
    async with BadNetwork(*ports) as between:
        address, topic = f"127.0.0.1:{ports[0]}", next(names)
        async with AsyncAdmin(address) as admin:
            await admin.topics.create(NewTopic(topic, partitions=1))
        yield between, address, topic


async def stored(address, topic, count, **options):
    """What is in the topic, up to its end."""
    async with AsyncConsumer(address, fetch_max_wait_ms=50, **options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found = []
        while len(found) < count:
            found += await consumer.poll(timeout_ms=100)
        return [record.value for record in found + await consumer.poll(timeout_ms=100)]


@pytest.mark.parametrize("harm", HARMS)
def test_a_producer_loses_and_doubles_nothing(run, ports, harm):
    async def scenario():
        async with network(ports) as (between, address, topic):
            between.spoil(ApiKey.PRODUCE, harm, 3)
            async with AsyncProducer(address, batch_size=100, **QUICK) as producer:
                for value in RECORDS:
                    await producer.send(topic, value)
                await producer.flush()
            assert between.left == 0
            assert await stored(address, topic, len(RECORDS)) == RECORDS

    run(scenario())


@pytest.mark.parametrize("harm", HARMS)
def test_a_consumer_passes_over_and_repeats_nothing(run, ports, harm):
    async def scenario():
        async with network(ports) as (between, address, topic):
            async with AsyncProducer(address) as producer:
                for value in RECORDS:
                    await producer.send(topic, value)
            between.spoil(ApiKey.FETCH, harm, 3)
            assert await stored(address, topic, len(RECORDS), max_poll_records=7, **QUICK) == RECORDS
            assert between.left == 0

    run(scenario())


@pytest.mark.parametrize("harm", HARMS)
def test_what_does_not_end_ends_with_the_time_of_the_delivery(run, ports, harm):
    async def scenario():
        async with network(ports) as (between, address, topic):
            between.spoil(ApiKey.PRODUCE, harm, ENDLESS)
            producer = AsyncProducer(address, delivery_timeout_ms=700, linger_ms=0, **QUICK)
            await producer.start()
            delivery = await producer.send(topic, b"late")
            with pytest.raises(ClientTimeoutError, match=r"delivery\.timeout\.ms \(700\) has passed "):
                await delivery
            await producer.close()

    run(scenario())


@pytest.mark.parametrize("harm", HARMS)
def test_an_admin_client_that_is_never_answered_ends_with_its_time(run, ports, harm):
    async def scenario():
        async with network(ports) as (between, address, topic), AsyncAdmin(address, **QUICK) as admin:
            between.spoil(ApiKey.LIST_GROUPS, harm, ENDLESS)
            with pytest.raises((ClientTimeoutError, DisconnectedError)):
                await admin.groups.list(timeout_ms=700)
            assert topic in {each.name for each in await admin.topics.list()}

    run(scenario())


def test_an_answer_that_is_none_fails_its_records_in_words_and_the_next_go_on(run, ports):
    async def scenario():
        async with network(ports) as (between, address, topic), AsyncProducer(address, **QUICK) as producer:
            between.spoil(ApiKey.PRODUCE, cut_short, 1)
            delivery = await producer.send(topic, RECORDS[0])
            with pytest.raises(ProtocolError, match=r"^ProduceResponse v\d+, field "):
                await delivery
            for value in RECORDS[1:]:
                await producer.send(topic, value)
            await producer.flush()
            assert await stored(address, topic, len(RECORDS)) == RECORDS

    run(scenario())

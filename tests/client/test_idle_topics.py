"""Topics that a producer no longer writes to leave its metadata (``metadata.max.idle.ms``)."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from barnabas.client import AsyncProducer, ConfigError
from barnabas.protocol.api import ApiKey
from barnabas.records.batch import parse_header

OPTIONS = {"metadata_max_idle_ms": 5_000, "metadata_max_age_ms": 900, "retry_backoff_ms": 5}


class Clock:
    """The clock of the producer, which a test sets forward; that of the event loop goes on as it was."""

    def __init__(self, monkeypatch):
        self.ahead_s = 0.0
        shown = SimpleNamespace(monotonic=lambda: time.monotonic() + self.ahead_s, time_ns=time.time_ns)
        for module in ("cluster", "producer", "sender"):
            monkeypatch.setattr(f"barnabas.client.{module}.time", shown)


async def next_refresh(broker, producer, clock):
    """The topics that are asked about next, once the metadata have become old."""
    before = len(broker.requests(ApiKey.METADATA))
    clock.ahead_s += 1
    while len(broker.requests(ApiKey.METADATA)) == before:
        await producer.send_and_wait("busy", b"v")
    asked = broker.requests(ApiKey.METADATA)[before]
    await asyncio.sleep(0.02)  # its answer
    return {topic.name for topic in asked.topics}


def test_a_topic_that_nothing_is_sent_to_is_asked_about_no_longer_and_comes_back(run, fake, monkeypatch):
    clock = Clock(monkeypatch)

    async def scenario():
        async with (
            fake() as broker,
            AsyncProducer(broker.bootstrap, **OPTIONS) as producer,
        ):
            await producer.send_and_wait("idle", b"1")
            await producer.send_and_wait("busy", b"v")
            assert await next_refresh(broker, producer, clock) == {"idle", "busy"}
            clock.ahead_s += 6
            await next_refresh(broker, producer, clock)  # it is looked at with an answer
            assert await next_refresh(broker, producer, clock) == {"busy"}

            await producer.send_and_wait("idle", b"2")
            assert await next_refresh(broker, producer, clock) == {"idle", "busy"}
            first, second = map(parse_header, broker.logs["idle", 0])
            assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch)
            assert (first.base_sequence, second.base_sequence) == (0, 1)

    run(scenario())


def test_records_that_wait_keep_their_topic(run, fake, monkeypatch):
    clock = Clock(monkeypatch)

    async def scenario():
        async with (
            fake() as broker,
            AsyncProducer(broker.bootstrap, linger_ms=600_000, **OPTIONS) as producer,
        ):
            waiting = await producer.send("idle", b"1")
            clock.ahead_s += 6
            await producer.send("other", b"v")
            before = len(broker.requests(ApiKey.METADATA))
            while len(broker.requests(ApiKey.METADATA)) < before + 2:
                clock.ahead_s += 1
                await producer.send("other", b"v")
                await asyncio.sleep(0.01)
            assert "idle" in {topic.name for topic in broker.requests(ApiKey.METADATA)[-1].topics}
            await producer.flush()
            assert (await waiting).offset == 0

    run(scenario())


def test_the_shortest_time_is_kafkas():
    with pytest.raises(ConfigError, match=r"metadata\.max\.idle\.ms: Value must be at least 5000"):
        AsyncProducer("127.0.0.1:1", metadata_max_idle_ms=4_999)

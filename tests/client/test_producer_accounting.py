"""No record is lost in silence: a call of `send` raises at once, or the future of its record ends.

`flush` accounts for every record that was accepted, whatever else was asked of the producer meanwhile.
"""

import asyncio
import contextlib
import gc
import threading

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from barnabas.client import (
    AsyncConsumer,
    AsyncProducer,
    ClientClosedError,
    ClientTimeoutError,
    DeliveryError,
    InvalidRecordError,
    Producer,
    RecordMetadata,
)
from barnabas.client.accumulator import RecordAccumulator
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.records.compression import Codec
from fake_cluster import hangup, produce_error

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
LONGEST_TOPIC = "t" * 249


def values(cluster, topic="t", partition=0):
    return [record.value for record in cluster.records(topic, partition)]


WIDE_VIEW = st.builds(lambda: memoryview(b"abcd").cast("I"))
"""Its length is 1, and it has 4 bytes."""

# What callers may hand in, each argument by itself: what is right, what is nearly right, what is wrong.
TOPICS = st.sampled_from(["t", "new", LONGEST_TOPIC, "", ".", "..", "ä", "a b", "t" * 250, "\ud800"]) | (
    st.sampled_from([b"t", None, 5, ["t"]])
)
PAYLOADS = (
    st.none()
    | st.binary(max_size=40)
    | st.text(max_size=10)
    | st.sampled_from([b"x" * 3000, "\ud800", 5, 1.5])
    | st.builds(bytearray, st.just(b"ba"))
    | WIDE_VIEW
)
PARTITIONS = st.sampled_from([None, 0, 2, True, -1, 3, 2**31, 2**70, 1.0, "0", b"0"])
TIMESTAMPS = st.sampled_from([None, 0, 1, 2**45, 2**63 - 1, 2**63, 2**100, -1, -(2**70), 1.5, "1", True])
HEADER_NAMES = st.sampled_from(["h", "", "ä", "\ud800", b"h", None, 5])
HEADER_VALUES = st.sampled_from([b"v", b"", None, "v", 5]) | WIDE_VIEW
HEADERS = st.lists(st.tuples(HEADER_NAMES, HEADER_VALUES), max_size=3) | st.sampled_from(
    [(), None, {"ab": b"v"}, "hv", [("h",)], [("h", b"1", b"2")], ["hv"], [None], 5, [["h", b"v"]]]
)
ARGUMENTS = st.fixed_dictionaries(
    {"topic": TOPICS},
    optional={
        "value": PAYLOADS,
        "key": PAYLOADS,
        "partition": PARTITIONS,
        "timestamp_ms": TIMESTAMPS,
        "headers": HEADERS,
    },
)
NAMES = ("topic", "value", "key", "partition", "timestamp_ms", "header", "max.request.size")


def plain(payload):
    """The bytes that a payload is stored as."""
    return payload.encode() if isinstance(payload, str) else None if payload is None else bytes(payload)


def check_refusal(error, arguments):
    """The error is one that a caller can tell from a failure of the cluster, and names the argument."""
    assert isinstance(error, TypeError | ValueError), repr(error)
    assert any(name in str(error) for name in NAMES), error
    assert error.__class__ is not UnicodeEncodeError, arguments


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(ARGUMENTS, min_size=1, max_size=8))
@example([{"topic": "t", "headers": [("h", "text")]}])
@example([{"topic": "t", "timestamp_ms": 1.5}])
@example([{"topic": "t", "timestamp_ms": 2**63}])
@example([{"topic": "t", "timestamp_ms": -1}])
@example([{"topic": b"t"}])
@example([{"topic": "t", "partition": 3}])
@example([{"topic": "\ud800"}])
def test_each_send_raises_at_once_or_its_record_is_accounted_for(run, fake, calls):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 3)
            producer = AsyncProducer(cluster.bootstrap, max_block_ms=2000, max_request_size=2000, **FAST)
            async with producer:
                accepted = []
                for arguments in [*calls, {"topic": "t", "partition": 0, "value": "last"}]:
                    try:
                        accepted.append((arguments, await producer.send(**arguments)))
                    except Exception as error:
                        check_refusal(error, arguments)
                    else:
                        assert (arguments.get("timestamp_ms") or 0) >= 0
                await producer.flush()

                assert all(delivery.done() for _, delivery in accepted)
                for arguments, delivery in accepted:
                    stored = await delivery
                    record = cluster.records(stored.topic, stored.partition)[stored.offset]
                    assert record.value == plain(arguments.get("value"))
                    assert record.key == plain(arguments.get("key"))
                    given = arguments.get("headers") or ()
                    pairs = given.items() if isinstance(given, dict) else given
                    assert [name for name, _ in record.headers] == [name for name, _ in pairs]
                assert len(accepted) == sum(map(len, [cluster.records(*tp) for tp in list(cluster.logs)]))
                # Whatever was refused, the topics that come later are as good as any.
                await producer.send_and_wait("later", "x")

    run(scenario())


ACTIONS = st.sampled_from(
    [
        "send",
        "send",
        "send",
        "cancelled send",
        "flush",
        "refuse",
        "hang up",
        "lose",
        "store and hang up",
        "wait",
    ]
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(ACTIONS, max_size=25), st.sampled_from(["close", "abort", "cancelled close"]))
def test_every_record_has_an_end_whatever_happens(run, fake, actions, ending):
    async def scenario():
        async with fake() as cluster:
            producer = AsyncProducer(
                cluster.bootstrap, batch_size=200, request_timeout_ms=50, delivery_timeout_ms=3000, **FAST
            )
            faults = cluster.faults[ApiKey.PRODUCE]

            def store_and_hang_up(request, node_id):
                cluster._produce(request, node_id)
                raise ConnectionError

            accepted = []
            for number, action in enumerate(actions):
                if action == "send":
                    accepted.append(await producer.send("t", str(number)))
                elif action == "cancelled send":
                    sending = asyncio.ensure_future(producer.send("t", str(number)))
                    await asyncio.sleep(0)
                    sending.cancel()
                    accepted += [
                        one
                        for one in await asyncio.gather(sending, return_exceptions=True)
                        if not isinstance(one, BaseException)
                    ]
                elif action == "flush":
                    with contextlib.suppress(DeliveryError, ClientTimeoutError):
                        await producer.flush()
                    assert all(one.done() for one in accepted)
                    assert producer.held_records == 0
                elif action == "wait":
                    await asyncio.sleep(0.001)
                else:
                    faults.append(
                        {
                            "refuse": produce_error(ErrorCode.MESSAGE_TOO_LARGE),
                            "hang up": hangup,
                            "lose": lambda request, node: None,
                            "store and hang up": store_and_hang_up,
                        }[action]
                    )
            ended = asyncio.ensure_future(producer.abort() if ending == "abort" else producer.close())
            if ending == "cancelled close":
                await asyncio.sleep(0)
                ended.cancel()
            await asyncio.gather(ended, return_exceptions=True)

            assert all(one.done() for one in accepted)
            assert producer.held_records == 0
            outcomes = await asyncio.gather(*map(wait_for, accepted), return_exceptions=True)
            stored = [one.offset for one in outcomes if not isinstance(one, Exception)]
            assert stored == sorted(set(stored))
            ends = RecordMetadata | DeliveryError | ClientClosedError | ClientTimeoutError
            assert all(isinstance(one, ends) for one in outcomes)
            found = values(cluster)
            assert len(found) == len(set(found))

    run(scenario())


def accumulator(on_work=lambda _full: None):
    made = RecordAccumulator(
        batch_bytes=1000,
        buffer_bytes=10_000,
        request_bytes_max=1000,
        codec=Codec.NONE,
        monotonic=lambda: 0.0,
        on_work=on_work,
    )
    made.set_topic("t", 1, [0])
    return made


def refuse():
    raise ClientClosedError


@pytest.mark.parametrize(
    ("value", "headers", "on_work", "error"),
    [
        (b"x", [("h", "text")], lambda: None, TypeError),
        (b"x" * 2000, (), lambda: None, InvalidRecordError),
        (b"x", (), refuse, ClientClosedError),
    ],
)
def test_a_first_record_that_fails_leaves_no_batch_behind(value, headers, on_work, error):
    works = [on_work]

    def work(_full):
        works.pop()()

    made = accumulator(work)
    with pytest.raises(error):
        made.try_append("t", value, None, 0, 1, headers)
    assert (made.unfinished(), made.waiting_bytes, made.held_records()) == ([], 0, 0)
    works[:] = [lambda: None]
    made.try_append("t", b"next", None, 0, 1, ())
    assert len(made.due(0.0)) == len(made.unfinished()) == made.held_records() == 1


def test_a_closed_accumulator_takes_nothing():
    made = accumulator()
    made.try_append("t", b"x", None, 0, 1, ())
    made.refuse_with(lambda: ClientClosedError("closed"))
    with pytest.raises(ClientClosedError):
        made.try_append("t", b"y", None, 0, 1, ())
    with pytest.raises(ClientClosedError):
        made.try_append_section("t", 0, b"y", 1, 1)
    assert made.held_records() == 1


def test_a_topic_that_cannot_be_asked_for_spoils_no_other(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            for name, error in [
                (b"t", TypeError),
                (5, TypeError),
                ("\ud800", KafkaError),
                ("t" * 40_000, KafkaError),
            ]:
                with pytest.raises(error):
                    await producer.partitions_for(name)
            await producer.send_and_wait("t", "x")
            async with AsyncConsumer(cluster.bootstrap, **FAST) as consumer:
                with pytest.raises(TypeError, match="a partition is a TopicPartition or"):
                    consumer.assign([(b"t", 0)])
                consumer.assign([("t", 0)])
                assert await consumer.end_offsets([("t", 0)]) == {("t", 0): 1}

    run(scenario())


def test_a_request_that_cannot_be_built_fails_its_records(run, fake, monkeypatch):
    def no_such_library(codec, data):
        raise ImportError("no module for this codec")

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            await producer.send_and_wait("t", "before")
            with monkeypatch.context() as patch:
                patch.setattr("barnabas.client.batch_builder.compress", no_such_library)
                delivery = await producer.send("t", "x")
                with pytest.raises(ImportError):
                    await producer.flush()
                with pytest.raises(ImportError):
                    await delivery
            await producer.send_and_wait("t", "after")
            assert values(cluster) == [b"before", b"after"]

    run(scenario())


def test_flush_raises_for_a_record_without_a_reader_beside_a_record_with_one(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000) as producer:
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            looked_at = asyncio.ensure_future(wait_for(await producer.send("t", "looked at")))
            await producer.send("t", "nobody looks")
            await asyncio.sleep(0)
            with pytest.raises(
                DeliveryError, check=lambda error: error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            ):
                await producer.flush()
            with pytest.raises(
                DeliveryError, check=lambda error: error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            ):
                await looked_at

    run(scenario())


async def wait_for(delivery):
    return await delivery


def test_a_callback_gets_each_outcome_once_and_flush_does_not_raise_it(run, fake):
    async def scenario():
        seen = []
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000) as producer:
            for value in ("a", "b"):
                delivery = await producer.send("t", value, partition=0)
                delivery.tell(lambda *outcome: seen.append(outcome[::-1]))
            await producer.flush()
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            delivery = await producer.send("t", "c", partition=0)
            delivery.tell(lambda *outcome: seen.append(outcome[::-1]))
            await producer.flush()
            delivery.tell(lambda *outcome: seen.append(outcome[::-1]))
        return seen

    first, second, refused, late = run(scenario())
    assert [(stored.offset, error) for stored, error in (first, second)] == [(0, None), (1, None)]
    assert (refused[0], refused[1].code) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert late == refused


def test_a_flush_waits_no_longer_than_it_may_and_loses_nothing(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, request_timeout_ms=300, **FAST) as producer,
        ):
            cluster.faults[ApiKey.PRODUCE].append(lambda _request, _node: None)
            delivery = await producer.send("t", "a")
            with pytest.raises(TimeoutError, match=r"^1 record\(s\) are not stored yet after 0\.01 s$"):
                await producer.flush(timeout=0.01)
            assert not delivery.done()
            await producer.flush(-1)
            assert (await delivery).offset == 0

    run(scenario())


def test_flush_raises_for_a_record_whose_wait_was_given_up(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000) as producer:
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            delivery = await producer.send("t", "x")
            given_up = asyncio.ensure_future(wait_for(delivery))
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            with pytest.raises(ClientTimeoutError):
                delivery.result(timeout_ms=1)
            with pytest.raises(
                DeliveryError, check=lambda error: error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            ):
                await producer.flush()

    run(scenario())


def test_a_cancelled_close_leaves_no_record_without_an_end(run, fake):
    async def scenario():
        async with fake() as cluster:
            producer = await AsyncProducer(cluster.bootstrap).start()
            asked = asyncio.Event()
            cluster.faults[ApiKey.PRODUCE].append(lambda request, node: asked.set())
            in_flight = await producer.send("t", "in flight")
            await asked.wait()
            waiting = await producer.send("t", "waiting")
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0)
            closing.cancel()
            for _ in range(2):  # the second hits the wait for the sender's tasks
                await asyncio.sleep(0)
                closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            for delivery in (in_flight, waiting):
                assert delivery.done()
                with pytest.raises(ClientClosedError):
                    await delivery

    run(scenario())


def test_a_wait_for_a_topic_ends_with_an_error_when_another_thread_closes(run, fake):
    async def scenario():
        async with fake() as cluster:
            producer = await AsyncProducer(cluster.bootstrap, **FAST).start()
            asked = asyncio.Event()
            cluster.faults[ApiKey.METADATA].append(lambda request, node: asked.set())
            sending = asyncio.ensure_future(producer.send("new", "x"))
            await asked.wait()
            await producer.close()
            with pytest.raises(ClientClosedError):
                await sending

    run(scenario())


def test_a_second_close_waits_for_the_first(run, fake):
    async def scenario():
        async with fake() as cluster:
            producer = await AsyncProducer(cluster.bootstrap).start()
            delivery = await producer.send("t", "x")
            first = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0)
            await producer.close()
            assert delivery.done()
            assert (await delivery).offset == 0
            await first

    run(scenario())


def test_a_dropped_producer_says_how_many_records_it_held(run, fake, caplog):
    async def scenario():
        async with fake() as cluster:
            producer = await AsyncProducer(cluster.bootstrap, linger_ms=100_000, **FAST).start()
            for _ in range(3):
                await producer.send("t", "x")

    def drop():
        run(scenario())
        gc.collect()

    with pytest.warns(
        ResourceWarning, match=r"dropped without close\(\) while 3 record\(s\) were not stored"
    ):
        drop()
    assert "producer.dropped records=3" in caplog.text


def test_a_producer_that_holds_nothing_may_be_dropped(run, fake):
    async def scenario():
        async with fake() as cluster:
            producer = await AsyncProducer(cluster.bootstrap, **FAST).start()
            await producer.send_and_wait("t", "x")
            aborted = await AsyncProducer(cluster.bootstrap, linger_ms=100_000, **FAST).start()
            await aborted.send("t", "x")
            await aborted.abort()

    run(scenario())
    gc.collect()  # a warning would be an error here


def test_a_producer_whose_loop_is_gone_says_so(run, fake):
    async def scenario():
        async with fake() as cluster:
            producer = await AsyncProducer(cluster.bootstrap, linger_ms=100_000, **FAST).start()
            await producer.send("t", "x", partition=0)
            cluster.add_topic("u")
            await producer.partitions_for("u")
            return producer

    async def later(producer):
        with pytest.raises(ClientClosedError, match="event loop that the client ran on is closed"):
            await producer.send("u", "x")
        with pytest.raises(ClientClosedError, match="event loop that the client ran on is closed"):
            await producer.flush()

    def use_twice():
        run(later(run(scenario())))
        gc.collect()

    with pytest.warns(ResourceWarning, match=r"1 record\(s\)"):
        use_twice()


# The synchronous face.


def test_a_dropped_synchronous_producer_says_how_many_records_it_held(background_cluster):
    def drop():
        producer = Producer(background_cluster.bootstrap, linger_ms=100_000)
        producer.send("t", "x")
        producer.send("t", "y")
        left = Producer.__new__(Producer)
        left.__dict__.update(producer.__dict__)  # what the thread can still be ended with
        return left

    with pytest.warns(ResourceWarning, match=r"<Producer .* was dropped .* while 2 record\(s\)"):
        left = drop()
    left.close()
    assert values(background_cluster) == [b"x", b"y"]


@pytest.mark.parametrize(
    "arguments", [{"headers": [("h", "text")]}, {"timestamp_ms": 2**63}, {"partition": 1.0}]
)
def test_the_synchronous_face_refuses_at_once_and_loses_nothing(background_cluster, arguments):
    with Producer(background_cluster.bootstrap) as producer:
        with pytest.raises((TypeError, ValueError), match=next(iter(arguments))):
            producer.send("t", "bad", **arguments)
        deliveries = [producer.send("t", str(number)) for number in range(1000)]
        producer.flush()
        assert all(delivery.done() for delivery in deliveries)
    assert len(values(background_cluster)) == 1000


def test_a_thread_that_waits_for_a_topic_hears_that_another_closed(background_cluster):
    producer = Producer(background_cluster.bootstrap, retry_backoff_ms=20_000, retry_backoff_max_ms=20_000)
    producer.send("t", "x").result()
    heard = []

    def send():
        try:
            producer.send("hidden", "x")
        except Exception as error:
            heard.append(error)

    # Until a topic has a leader it is asked for again after a pause, which is when the other thread closes.
    background_cluster.add_topic("hidden")
    background_cluster.leaders["hidden", 0] = -1
    asked = threading.Event()

    def answer(request, node):
        asked.set()
        return background_cluster._metadata(request, node)

    background_cluster.faults[ApiKey.METADATA].append(answer)
    thread = threading.Thread(target=send)
    thread.start()
    assert asked.wait(5)
    producer.close()
    thread.join(5)
    assert not thread.is_alive()
    assert [type(error) for error in heard] == [ClientClosedError]


def test_threads_that_close_at_once_lose_nothing(background_cluster):
    producer = Producer(background_cluster.bootstrap, linger_ms=100_000)
    deliveries = [producer.send("t", str(number)) for number in range(2000)]
    threads = [threading.Thread(target=producer.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [one.result(0).offset for one in deliveries] == list(range(2000))
    with pytest.raises(ClientClosedError):
        producer.flush()

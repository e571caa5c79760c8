"""What a consumer does beside reading: objects of bytes, times, wake-ups, interceptors, metrics."""

import asyncio
import json
import signal
import threading
from datetime import UTC, datetime

import pytest

from barnabas.client import (
    AsyncConsumer,
    AsyncProducer,
    ClientClosedError,
    ConfigError,
    Consumer,
    ConsumerInterceptor,
    Producer,
    RecordDeserializationError,
    TopicPartition,
    UnparsedValue,
    WakeupError,
)
from barnabas.client.wakeup import Wakeup

T0 = TopicPartition("t", 0)


def with_records(values, body, **options):
    """A scenario with these values in t-0, one millisecond after the other, and a consumer of it."""

    async def scenario(fake):
        async with fake() as cluster:
            cluster.add_topic("t", 1)
            async with AsyncProducer(cluster.bootstrap, linger_ms=10_000) as producer:
                for number, value in enumerate(values):
                    await producer.send("t", value, key=f"k{number}", timestamp_ms=1_000_000 + number)
            async with AsyncConsumer(cluster.bootstrap, **options) as consumer:
                consumer.assign([T0])
                consumer.seek_to_beginning()
                return await body(consumer, cluster)

    return scenario


async def polled(consumer, count):
    records = []
    while len(records) < count:
        records += await consumer.poll(timeout_ms=5000)
    return records


GOOD = [b'{"n": 0}', b'{"n": 1}', None]
MIXED = [b"0", b"1", b"not json", b"3", b"neither", b"5"]


class Shouting:
    def deserialize(self, topic, value):
        return f"{topic}/{value.decode()}".upper()


def test_deserializers_make_objects_and_leave_none_alone(run, fake):
    async def body(consumer, _cluster):
        return [(record.key, record.value) for record in await polled(consumer, 3)]

    scenario = with_records(GOOD, body, value_deserializer=json.loads, key_deserializer=Shouting())
    assert run(scenario(fake)) == [("T/K0", {"n": 0}), ("T/K1", {"n": 1}), ("T/K2", None)]


def test_what_does_not_parse_is_raised_after_what_came_before_it(run, fake):
    async def body(consumer, _cluster):
        assert [record.value for record in await consumer.poll(timeout_ms=5000)] == [0, 1]
        assert await consumer.position(T0) == 2, "what is committed now is in front of it as well"
        found = []
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as refused:
                await polled(consumer, 1)
            found.append(refused.value)
        # The position stays in front of it, so that nothing is passed over.
        assert [(error.tp, error.offset, error.part) for error in found] == [(T0, 2, "value")] * 2
        assert (await consumer.position(T0), found[0].record.value) == (2, b"not json")
        words = "The value of t-0 at offset 2 cannot be deserialized: JSONDecodeError"
        assert str(found[0]).startswith(words)
        consumer.seek(T0, found[0].offset + 1)
        assert [record.value for record in await polled(consumer, 1)] == [3]

    run(with_records(MIXED, body, value_deserializer=json.loads)(fake))


def test_a_deserializer_that_was_mended_goes_on_where_it_failed(run, fake):
    known = set()

    def parse(data):
        known.add(data)
        if data == b"not json" and len(known) < 99:
            raise KeyError("no schema")
        return data

    async def body(consumer, _cluster):
        await polled(consumer, 2)
        with pytest.raises(RecordDeserializationError):
            await polled(consumer, 1)
        known.update(range(99))
        return [record.value for record in await polled(consumer, 4)]

    assert run(with_records(MIXED, body, value_deserializer=parse)(fake)) == MIXED[2:]


def test_what_does_not_parse_is_left_out_with_a_line(run, fake, caplog):
    async def body(consumer, _cluster):
        values = [record.value for record in await polled(consumer, 4)]
        return values, await consumer.position(T0)

    scenario = with_records(MIXED, body, value_deserializer=json.loads, deserialization_errors="skip")
    assert run(scenario(fake)) == ([0, 1, 3, 5], 6)
    assert "record.skipped partition=t-0 offset=2 records=2" in caplog.text


def test_a_batch_of_which_all_is_left_out_is_passed(run, fake):
    async def body(consumer, _cluster):
        while await consumer.position(T0) < 2:
            assert not await consumer.poll(timeout_ms=1000)

    run(with_records([b"x", b"y"], body, value_deserializer=json.loads, deserialization_errors="skip")(fake))


def test_what_does_not_parse_is_kept_with_its_error(run, fake):
    async def body(consumer, _cluster):
        return [record.value for record in await polled(consumer, 6)]

    scenario = with_records(MIXED, body, value_deserializer=json.loads, deserialization_errors="keep")
    values = run(scenario(fake))
    assert [value for value in values if isinstance(value, int)] == [0, 1, 3, 5]
    unparsed = values[2]
    assert isinstance(unparsed, UnparsedValue)
    assert (unparsed.data, type(unparsed.error).__name__) == (b"not json", "JSONDecodeError")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("value_deserializer", 5, "it must be a function of the bytes"),
        ("deserialization_errors", "ignore", "String must be one of: raise, skip, keep"),
        ("interceptors", object(), "it must be a list of objects that have on_consume or on_commit"),
        ("interceptors", [object()], "it must be a list of objects that have on_consume or on_commit"),
    ],
)
def test_bad_options_are_named(option, value, words):
    with pytest.raises(ConfigError, match=words):
        Consumer("127.0.0.1:1", **{option: value})


def at(time_ms):
    return datetime.fromtimestamp(time_ms / 1000, UTC)


@pytest.mark.parametrize(("time_ms", "offset"), [(0, 0), (1_000_003, 3), (999, 0), (2_000_000, 6)])
def test_a_seek_to_a_time_goes_to_the_first_record_that_is_not_older_or_to_the_end(
    run, fake, time_ms, offset
):
    async def body(consumer, _cluster):
        consumer.seek(T0, at(time_ms))
        first = await consumer.position(T0)
        consumer.seek(T0, 1)
        consumer.seek_to_time(at(time_ms))
        return first, await consumer.position(T0)

    assert run(with_records(MIXED, body)(fake)) == (offset, offset)


def test_times_may_be_asked_for_as_datetimes(run, fake):
    async def body(consumer, _cluster):
        found = await consumer.offsets_for_times({T0: at(1_000_002)})
        return found[T0].offset

    assert run(with_records(MIXED, body)(fake)) == 2


def test_a_wakeup_ends_one_poll(run, fake):
    async def body(consumer, _cluster):
        await polled(consumer, 6)
        polling = asyncio.ensure_future(consumer.poll(timeout_ms=60_000))
        await asyncio.sleep(0)
        threading.Thread(target=consumer.wakeup).start()
        with pytest.raises(WakeupError, match=r"ended by wakeup\(\)"):
            await polling
        assert await consumer.poll() == []
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll(timeout_ms=60_000)
        assert await consumer.poll() == []

    run(with_records(MIXED, body)(fake))


def test_a_wakeup_ends_a_poll_that_finds_no_position(run, fake):
    """Also before anything is read: there is no broker that would say where to begin."""

    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 1)
            async with AsyncConsumer(cluster.bootstrap) as consumer:
                await consumer.partitions_for("t")
                cluster.drop_connections()
                await cluster.stop()
                consumer.assign([T0])
                polling = asyncio.ensure_future(consumer.poll(timeout_ms=60_000))
                await asyncio.sleep(0.01)
                consumer.wakeup()
                with pytest.raises(WakeupError):
                    await polling

    run(scenario())


def test_a_wakeup_before_the_first_poll_ends_that(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncConsumer(cluster.bootstrap) as consumer:
            cluster.add_topic("t", 1)
            consumer.wakeup()
            consumer.assign([T0])
            with pytest.raises(WakeupError):
                await consumer.poll()
            assert await consumer.poll() == []

    run(scenario())


@pytest.mark.parametrize("given", ["2024-01-01", 1.5, None])
def test_what_is_neither_offset_nor_time_is_refused(run, fake, given):
    async def body(consumer, _cluster):
        with pytest.raises(TypeError, match="an offset is an int, or a time as a datetime, not"):
            consumer.seek(T0, given)
        with pytest.raises(TypeError, match="a time is a datetime, not"):
            consumer.seek_to_time(given)
        with pytest.raises(TypeError, match="a time is a datetime, or milliseconds since 1970 as int"):
            await consumer.offsets_for_times({T0: given})

    run(with_records(MIXED, body)(fake))


def test_a_poll_that_its_caller_cancels_is_no_wakeup(run, fake):
    async def body(consumer, _cluster):
        await polled(consumer, 6)
        polling = asyncio.ensure_future(consumer.poll(timeout_ms=60_000))
        await asyncio.sleep(0)
        consumer.wakeup()
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling

    run(with_records(MIXED, body)(fake))


def test_a_poll_whose_wait_another_ends_is_closed_and_one_that_is_cancelled_is_cancelled(run):
    async def poll(waits):
        with Wakeup():
            await waits

    async def scenario():
        for cancelled, error in (("wait", ClientClosedError), ("poll", asyncio.CancelledError)):
            waits = asyncio.get_running_loop().create_future()
            polling = asyncio.ensure_future(poll(waits))
            await asyncio.sleep(0)
            {"wait": waits, "poll": polling}[cancelled].cancel()
            with pytest.raises(error):
                await polling

    run(scenario())


def test_a_thread_wakes_the_consumer_that_another_polls(background_cluster):
    background_cluster.add_topic("quiet", 1)
    with Consumer(background_cluster.bootstrap) as consumer:
        consumer.assign([("quiet", 0)])
        me = threading.get_ident()
        for wake in (consumer.wakeup, lambda: signal.pthread_kill(me, signal.SIGUSR1)):
            before = signal.signal(signal.SIGUSR1, lambda *_: consumer.wakeup())
            try:
                timer = threading.Timer(0.05, wake)
                timer.start()
                with pytest.raises(WakeupError):
                    consumer.poll(timeout_ms=60_000)
                timer.join()
            finally:
                signal.signal(signal.SIGUSR1, before)


class Spy(ConsumerInterceptor):
    def __init__(self):
        self.committed = []

    def on_consume(self, records):
        return [record for record in records if record.value != b"3"]

    def on_commit(self, offsets):
        self.committed.append({tp: one.offset for tp, one in offsets.items()})


class Broken:
    def on_consume(self, records):
        raise ZeroDivisionError

    on_commit = on_consume


def test_interceptors_see_what_polls_give_and_what_is_committed(kafka, kafka_topic, caplog):
    spy, topic, servers = Spy(), kafka_topic, kafka.bootstrap_servers
    with Producer(servers) as producer:
        for value in MIXED:
            producer.send(topic, value)
    options = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with Consumer(servers, interceptors=[Broken(), spy], **options) as consumer:
        consumer.subscribe([topic])
        values = []
        while len(values) < 5:
            values += [record.value for record in consumer.poll(timeout_ms=5000)]
        consumer.commit()
    assert values == [value for value in MIXED if value != b"3"]
    assert spy.committed == [{TopicPartition(topic, 0): 6}]
    assert "interceptor.failed interceptor=Broken" in caplog.text


def test_metrics_have_kafkas_names_and_the_lag(run, fake):
    async def body(consumer, cluster):
        await polled(consumer, 6)
        await consumer.poll()
        consumer.seek(T0, 2)
        return consumer.metrics()

    metrics = run(with_records(MIXED, body)(fake))
    fetches = metrics["consumer-fetch-manager-metrics"]
    assert fetches["records-consumed-total"] == 6
    assert fetches["bytes-consumed-total"] == fetches["fetch-size-max"] > 60
    assert fetches["fetch-total"] >= 1
    assert fetches["fetch-latency-max"] > 0
    assert fetches["records-lag-max"] == 4
    assert metrics["consumer-fetch-manager-metrics.t"]["records-consumed-total"] == 6
    assert metrics["consumer-fetch-manager-metrics.t:0"] == {"records-lag": 4}
    assert metrics["consumer-coordinator-metrics"] == {"assigned-partitions": 1}
    assert metrics["consumer-metrics"]["last-poll-seconds-ago"] >= 0

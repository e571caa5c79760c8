"""What a program gives a producer of its own: serializers, a partitioner, interceptors, callbacks."""

import asyncio
import json
import threading

import pytest

from barnabas.client import AsyncProducer, InvalidRecordError, Producer, ProducerInterceptor
from barnabas.client.partitioner import key_hash
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from fake_cluster import produce_error


class Upper:
    """A serializer with a method, as kafka-python has them."""

    def serialize(self, topic, value):
        return f"{topic}:{value}".upper().encode()


def test_serializers_make_bytes_and_leave_none_alone(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(
                cluster.bootstrap,
                value_serializer=lambda value: json.dumps(value).encode(),
                key_serializer=Upper(),
            ) as producer,
        ):
            await producer.send("t", {"n": 1}, key="ada")
            await producer.send("t", None, key="ada")
            await producer.flush()
            return [(record.key, record.value) for record in cluster.records("t")]

    assert run(scenario()) == [(b"T:ADA", b'{"n": 1}'), (b"T:ADA", None)]


def test_a_value_that_a_serializer_does_not_take_is_refused_by_name(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, value_serializer=json.dumps) as producer,
        ):
            with pytest.raises(
                InvalidRecordError, match=r"a record's value cannot be serialized: TypeError: .*set"
            ):
                await producer.send("t", {1, 2})
            assert producer.held_records == 0

    run(scenario())


@pytest.mark.parametrize(("chosen", "partition"), [(2, 2), (None, key_hash(b"k1") % 3)])
def test_a_partitioner_chooses_or_leaves_it_to_the_producer(run, fake, chosen, partition):
    asked = []

    def choose(key, partitions, available):
        asked.append((key, list(partitions), list(available)))
        return chosen

    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 3)
            async with AsyncProducer(cluster.bootstrap, partitioner=choose) as producer:
                stored = await producer.send_and_wait("t", "v", key="k1")
                explicit = await producer.send_and_wait("t", "v", key="k1", partition=1)
        return stored.partition, explicit.partition

    assert run(scenario()) == (partition, 1)
    assert asked == [(b"k1", [0, 1, 2], [0, 1, 2])]


def test_a_partition_that_is_none_is_refused(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, partitioner=lambda *_: 7) as producer:
            with pytest.raises(InvalidRecordError, match="Invalid partition 7 for topic t"):
                await producer.send("t", "v")

    run(scenario())


def test_keys_are_ignored_where_that_is_asked_for(run, fake):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 50)
            async with AsyncProducer(cluster.bootstrap, partitioner_ignore_keys=True) as producer:
                deliveries = [await producer.send("t", "v", key=f"k{number}") for number in range(20)]
                return {(await delivery).partition for delivery in deliveries}

    assert len(run(scenario())) == 1


class Spy(ProducerInterceptor):
    def __init__(self):
        self.seen, self.acknowledged = [], []

    def on_send(self, record):
        self.seen.append(record.value)
        return record._replace(value=f"{record.value}!", headers=[("by", b"spy")])

    def on_acknowledgement(self, error, metadata):
        self.acknowledged.append((error, metadata))


class Broken:
    def on_send(self, record):
        raise ZeroDivisionError

    def on_acknowledgement(self, error, metadata):
        raise ZeroDivisionError


def test_interceptors_see_each_record_and_its_outcome_once(run, fake, caplog):
    spy = Spy()

    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, interceptors=[Broken(), spy], max_request_size=2000) as producer,
        ):
            await producer.send_and_wait("t", "a")
            with pytest.raises(InvalidRecordError):
                await producer.send("t", "b" * 3000)
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            await producer.send("t", "c")
            # An interceptor that has seen a failure is no caller who has.
            with pytest.raises(Exception, match="authori"):
                await producer.flush()
            return [(record.value, record.headers) for record in cluster.records("t")]

    assert run(scenario()) == [(b"a!", [("by", b"spy")])]
    assert [value[0] for value in spy.seen] == ["a", "b", "c"]
    stored, refused, failed = spy.acknowledged
    assert (stored[0], stored[1].offset) == (None, 0)
    assert type(refused[0]).__name__ == "RecordTooLargeError"
    assert (failed[0].code, failed[1]) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
    assert "interceptor.failed interceptor=Broken" in caplog.text


def test_an_interceptor_that_returns_nothing_changes_nothing(run, fake, caplog):
    class Forgetful(ProducerInterceptor):
        def on_send(self, record):
            record._replace(value="changed")

    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, interceptors=[Forgetful()]) as producer,
        ):
            await producer.send_and_wait("t", "v")
            return [record.value for record in cluster.records("t")]

    assert run(scenario()) == [b"v"]
    assert "on_send must return a ProducerRecord, not NoneType" in caplog.text


def test_what_cannot_be_called_is_refused_before_the_record_is_taken(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            with pytest.raises(TypeError, match="on_delivery must be a function or None, not int"):
                await producer.send("t", "v", on_delivery=5)
            assert producer.held_records == 0

    run(scenario())


def test_on_delivery_gets_the_error_first_and_counts_as_a_look(run, fake):
    of_all, of_one = [], []

    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, on_delivery=lambda *outcome: of_all.append(outcome)) as producer,
        ):
            await producer.send("t", "a", on_delivery=lambda *outcome: of_one.append(outcome))
            await producer.flush()
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            await producer.send("t", "b")
            await producer.flush()

    run(scenario())
    assert [(error, metadata.offset) for error, metadata in of_one] == [(None, 0)]
    assert of_all[0] == of_one[0]
    assert (of_all[1][0].code, of_all[1][1]) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_a_delivery_is_a_future(run, fake, caplog):
    seen = []

    def done(delivery):
        seen.append((delivery.done(), delivery.exception(), delivery.result().offset))

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000) as producer:
            delivery = await producer.send("t", "a")
            assert delivery.running()
            assert not delivery.cancel()
            assert not delivery.cancelled()
            delivery.add_done_callback(lambda _delivery: 1 / 0)
            delivery.add_done_callback(done)
            await producer.flush()
            assert await asyncio.wait_for(delivery, 10) == delivery.result()
            assert [one.offset for one in await asyncio.gather(delivery, delivery)] == [0, 0]

    run(scenario())
    assert seen == [(True, None, 0)]
    assert "delivery.callback_failed partition=t-0" in caplog.text


def test_the_synchronous_face_has_all_of_it(background_cluster):
    spy, told, threads = Spy(), [], set()
    with Producer(
        background_cluster.bootstrap,
        value_serializer={"a!": b"a", "b!": b"b"}.__getitem__,
        interceptors=[spy],
        partitioner=lambda _key, partitions, _available: partitions[-1],
    ) as producer:

        def tell(error, metadata):
            threads.add(threading.current_thread())
            told.append((error, metadata.offset))

        first = producer.send("hooked", "a", headers={"h": b"1"}, on_delivery=tell)
        assert first.result(10).offset == 0
        assert producer.send_and_wait("hooked", "b").offset == 1
        with pytest.raises(InvalidRecordError, match="cannot be serialized"):
            producer.send("hooked", 7)
        metrics = producer.metrics()
    assert spy.seen == ["a", "b", 7]
    assert told == [(None, 0)]
    assert threading.current_thread() not in threads
    assert metrics["producer-metrics"]["record-send-total"] == 2
    assert metrics["producer-topic-metrics.hooked"]["record-send-total"] == 2

"""A thread that closes a client while another waits for it, and Ctrl-C in a call: each ends, in words, and no
record is lost.
"""

import asyncio
import contextlib
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from barnabas.admin import Admin
from barnabas.client import (
    AsyncConsumer,
    ClientClosedError,
    ClientTimeoutError,
    Consumer,
    DeliveryError,
    Producer,
    TopicPartition,
)
from barnabas.protocol.api import ApiKey
from barnabas.records import columnar

A_WHILE_S = 20
EVER_MS = 10 * A_WHILE_S * 1000
T0 = TopicPartition("t", 0)


@pytest.fixture
def aside():
    """Runs a function in a thread of its own; a future of what it comes to."""
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


@pytest.fixture
def interrupt():
    """Interrupts the main thread, as Ctrl-C does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.get_ident()
    yield lambda: signal.pthread_kill(main, signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def until_closed(call):
    """Calls without end, as a program that another thread ends."""
    while True:
        call()


@pytest.mark.parametrize("call", ["poll", "poll_arrow", "fetch_raw"])
@pytest.mark.parametrize("waits_ms", [1, EVER_MS])
def test_a_poll_ends_when_another_thread_closes(background_cluster, aside, call, waits_ms):
    background_cluster.add_topic("t", 1)
    consumer = Consumer(background_cluster.bootstrap)
    consumer.assign([T0])
    polling = aside(until_closed, lambda: getattr(consumer, call)(waits_ms))
    consumer.position(T0)
    consumer.close()
    assert isinstance(polling.exception(A_WHILE_S), ClientClosedError)
    with pytest.raises(ClientClosedError, match=r"^The client was closed$"):
        consumer.poll()


def test_a_poll_of_a_member_ends_when_another_task_closes(run, kafka, kafka_topic):
    async def scenario():
        for turns in range(40):
            consumer = AsyncConsumer(kafka.bootstrap_servers, group_id=kafka_topic)
            consumer.subscribe(kafka_topic)

            async def poll(consumer=consumer):
                while True:
                    await consumer.poll(EVER_MS)

            polling = asyncio.ensure_future(poll())
            for _ in range(turns * 5):
                await asyncio.sleep(0)
            await consumer.close()
            with pytest.raises(ClientClosedError):
                await asyncio.wait_for(polling, A_WHILE_S)

    run(scenario())


def test_an_iteration_and_a_question_end_when_another_thread_closes(background_cluster, aside):
    background_cluster.add_topic("t", 1)
    consumer, admin = Consumer(background_cluster.bootstrap), Admin(background_cluster.bootstrap)
    consumer.assign([T0])
    iterating, asking = aside(list, consumer), aside(until_closed, admin.topics.list)
    consumer.close()
    admin.close()
    for one in (iterating, asking):
        assert isinstance(one.exception(A_WHILE_S), ClientClosedError)


def test_what_a_thread_has_polled_is_committed_when_another_closes(kafka, kafka_topic, aside):
    with Producer(kafka.bootstrap_servers) as producer:
        for number in range(3000):
            producer.send(kafka_topic, str(number))
    options = {"group_id": kafka_topic, "auto_offset_reset": "earliest", "max_poll_records": 100}
    consumer = Consumer(kafka.bootstrap_servers, **options)
    consumer.subscribe(kafka_topic)
    polled, some = [], threading.Event()

    def poll():
        polled.extend(consumer.poll(EVER_MS))
        some.set()

    polling = aside(until_closed, poll)
    assert some.wait(A_WHILE_S)
    consumer.close()
    assert isinstance(polling.exception(A_WHILE_S), ClientClosedError)
    with Admin(kafka.bootstrap_servers) as admin:
        committed = admin.groups.offsets(kafka_topic)[kafka_topic]
    assert committed[TopicPartition(kafka_topic, 0)].offset == len(polled)


def test_each_record_of_a_thread_has_an_end_when_another_closes(background_cluster, aside):
    producer = Producer(background_cluster.bootstrap)
    sent, some = [], threading.Event()

    def send():
        sent.append(producer.send("t", str(len(sent))))
        some.set()

    sending = aside(until_closed, send)
    assert some.wait(A_WHILE_S)
    producer.close()
    assert isinstance(sending.exception(A_WHILE_S), ClientClosedError)
    ends = [one.exception(timeout=0) or one.result() for one in sent]
    stored = [one.offset for one in ends if not isinstance(one, Exception)]
    assert stored == list(range(len(background_cluster.records("t", 0))))
    assert all(isinstance(one, ClientClosedError) for one in ends[len(stored) :])


def test_a_flush_ends_when_another_thread_closes(background_cluster, aside):
    asked = threading.Event()

    def unanswered(request, node):
        asked.set()

    with Producer(background_cluster.bootstrap) as first:
        first.send_and_wait("t", "known")
    producer = Producer(background_cluster.bootstrap, delivery_timeout_ms=600, request_timeout_ms=200)
    background_cluster.faults[ApiKey.PRODUCE].extend([unanswered] * 20)
    delivery = producer.send("t", "lost")
    flushing = aside(producer.flush)
    assert asked.wait(A_WHILE_S)
    with contextlib.suppress(DeliveryError, ClientTimeoutError):
        producer.close()
    ends = DeliveryError | ClientClosedError | ClientTimeoutError
    assert isinstance(flushing.exception(A_WHILE_S), ends)
    assert isinstance(delivery.exception(timeout=0), ends)
    background_cluster.faults[ApiKey.PRODUCE].clear()


def test_ctrl_c_ends_a_poll_and_the_consumer_goes_on(background_cluster, interrupt):
    background_cluster.add_topic("t", 1)
    with Consumer(background_cluster.bootstrap) as consumer:
        consumer.assign([T0])
        timer = threading.Timer(0.05, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(EVER_MS)
        timer.join()
        assert consumer.poll(1) == []
        assert consumer.position(T0) == 0


@pytest.mark.parametrize("call", ["poll", "poll_arrow"])
def test_records_of_a_poll_that_ctrl_c_ends_come_with_the_next(
    background_cluster, interrupt, monkeypatch, call
):
    armed, raised = threading.Event(), threading.Event()

    def interrupted(made):
        """The poll has its records by now; its caller is interrupted before it gets them."""
        if armed.is_set() and not raised.is_set():
            interrupt()
            assert raised.wait(A_WHILE_S)
        return made

    def values(count):
        found = []
        while len(found) < count:
            for piece in getattr(consumer, call)(EVER_MS):
                found += [piece.value] if call == "poll" else piece.column("value").to_pylist()
        return found

    decode = columnar.decode_to_arrow
    monkeypatch.setattr(
        columnar, "decode_to_arrow", lambda *given, **more: interrupted(decode(*given, **more))
    )
    options = {"auto_offset_reset": "earliest", "value_deserializer": interrupted}
    with (
        Producer(background_cluster.bootstrap) as producer,
        Consumer(background_cluster.bootstrap, **options) as consumer,
    ):
        consumer.assign([T0])
        for number in range(2):
            producer.send("t", str(number), partition=0)
        assert values(2) == [b"0", b"1"]
        for number in range(2, 5):
            producer.send("t", str(number), partition=0)
        producer.flush()
        armed.set()
        with pytest.raises(KeyboardInterrupt):
            getattr(consumer, call)(EVER_MS)
        raised.set()
        # Those of the poll before it came to their reader, and do not come again.
        assert values(3) == [b"2", b"3", b"4"]


def test_a_poll_that_is_refused_takes_no_earlier_one_back(background_cluster):
    with (
        Producer(background_cluster.bootstrap) as producer,
        Consumer(background_cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([T0])
        producer.send_and_wait("t", "0", partition=0)
        assert [record.value for record in consumer.poll(EVER_MS)] == [b"0"]
        with pytest.raises(TypeError, match="timeout_ms"):
            consumer.poll(timeout=1)
        producer.send_and_wait("t", "1", partition=0)
        assert [record.value for record in consumer.poll(EVER_MS)] == [b"1"]

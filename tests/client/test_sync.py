"""The synchronous faces: same verbs, same errors, threads that end."""

import asyncio
import subprocess
import sys
import threading

import pytest
from fake_group import serve_group

from barnabas.client import (
    AsyncProducer,
    ClientClosedError,
    ClientTimeoutError,
    Consumer,
    Producer,
    TopicPartition,
)
from barnabas.core.errors import ConfigError
from barnabas.records.batch import build_batch
from barnabas.records.record import Record


@pytest.fixture
def left_behind():
    """The clients' threads that were begun in this test and still run; some of other tests last longer."""
    before = set(threading.enumerate())

    def look():
        begun = set(threading.enumerate()) - before
        return [thread.name for thread in begun if thread.name.startswith("barnabas-")]

    return look


def test_records_make_the_round(background_cluster, left_behind):
    with Producer(background_cluster.bootstrap, linger_ms=5) as producer:
        deliveries = [producer.send("t", str(number), key="k") for number in range(500)]
        assert deliveries[0].result(5).offset == 0
        assert producer.partitions_for("t") == [0]
        producer.flush()
        assert deliveries[-1].done()
    with Consumer(background_cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        values = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 500:
                break
        assert values == [str(number).encode() for number in range(500)]
        consumer.seek(("t", 0), 499)
        assert consumer.poll(2000)[0].value == b"499"
        assert consumer.end_offsets([("t", 0)]) == {("t", 0): 500}
    assert left_behind() == []


def test_several_threads_may_send(background_cluster):
    with Producer(background_cluster.bootstrap, batch_size=500) as producer:

        def send(name):
            for number in range(200):
                producer.send("t", f"{name}-{number}")

        threads = [threading.Thread(target=send, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        values = [record.value.decode() for record in background_cluster.records("t")]
    for name in "abc":
        mine = [value for value in values if value.startswith(name)]
        assert mine == [f"{name}-{number}" for number in range(200)]


def test_errors_cross_the_thread_and_nothing_is_left_behind(left_behind):
    with pytest.raises(ConfigError):
        Producer("127.0.0.1:1", acks="maybe")
    with pytest.raises(ClientTimeoutError), Consumer("127.0.0.1:1", default_api_timeout_ms=100):
        pass
    assert left_behind() == []


def test_a_member_of_a_group_is_called_back_in_its_own_thread(background_cluster, left_behind):
    group = serve_group(background_cluster)
    background_cluster.add_topic("t", 2)
    background_cluster.append("t", 0, build_batch([Record(0, 1, None, b"x", ())]))
    calls = []

    def called(name):
        def listener(partitions):
            calls.append((name, len(partitions), threading.current_thread()))
            if name == "revoked":
                # The loop is free meanwhile: the consumer can be asked from in here.
                consumer.commit({TopicPartition("t", 0): 1})
                consumer.commit_async({TopicPartition("t", 1): 2}, committed)

        return listener

    def committed(offsets, error):
        calls.append((error, len(offsets), threading.current_thread()))

    options = {"group_id": "g", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with Consumer(background_cluster.bootstrap, **options, heartbeat_interval_ms=20) as consumer:
        consumer.subscribe("t", on_assigned=called("assigned"), on_revoked=called("revoked"))
        records = []
        while not records:
            records = consumer.poll(1000)
        assert consumer.assignment() == {("t", 0), ("t", 1)}
        assert consumer.subscription() == {"t"}
        consumer.enforce_rebalance()
        while len(calls) < 4:
            consumer.poll(100)
        assert consumer.group_metadata().generation_id == 2
    here = threading.current_thread()
    # A later poll calls back for the commit in the background, before or after the new assignment.
    assert [call for call in calls[:4] if call[0] is not None] == [
        ("assigned", 2, here),
        ("revoked", 2, here),
        ("assigned", 2, here),
    ]
    assert calls.index((None, 1, here)) in {2, 3}
    assert {tp: offset for tp, (offset, _, _) in group.offsets.items()} == {("t", 0): 1, ("t", 1): 2}
    assert left_behind() == []


def test_what_a_listener_raises_reaches_the_caller(background_cluster):
    serve_group(background_cluster)
    background_cluster.add_topic("t", 1)

    def stumble(partitions):
        raise ZeroDivisionError

    with Consumer(background_cluster.bootstrap, group_id="g") as consumer:
        consumer.subscribe("t", on_assigned=stumble)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - which poll it is does not matter
            while True:
                consumer.poll(1000)
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()


# Python 3.12 warns of every fork beside threads; what a child may do with a client is what is asked here.
FORKING = ["-W", "ignore:This process:DeprecationWarning"]
CHILD = """
import os, sys
from barnabas.client import ClientClosedError, Consumer, Producer

producer, consumer = Producer(sys.argv[1], linger_ms=60_000), Consumer(sys.argv[1])
producer.partitions_for("forked")
held = producer.send("forked", "held")
child = os.fork()
if not child:
    said = []
    for call in (lambda: producer.send("forked", "x"), producer.flush, consumer.poll):
        try:
            call()
        except ClientClosedError as error:
            said.append(str(error))
    producer.close()
    consumer.close()
    expected = "The client was made before this process was forked: make one of its own here"
    with Producer(sys.argv[1]) as own:
        own.send("forked", "child")
    os._exit(0 if said == [expected] * 3 else 1)
assert os.waitpid(child, 0)[1] == 0, "the child"
producer.close()
consumer.close()
print(held.result().offset)
"""


def test_a_child_that_was_forked_is_told_to_make_its_own(background_cluster):
    command = [sys.executable, *FORKING, "-c", CHILD, background_cluster.bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("1\n", "", 0)
    assert [one.value for one in background_cluster.records("forked")] == [b"child", b"held"]


EXITS = """
import asyncio, os, sys
from barnabas.client import AsyncProducer

async def main():
    async with AsyncProducer(sys.argv[1], linger_ms=60_000) as producer:
        held = await producer.send("forked", "held")
        child = os.fork()
        if not child:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0, "the child"
    print((await held).offset)

asyncio.run(main())
"""


def test_a_child_that_was_forked_loses_no_records_of_its_parent(background_cluster):
    command = [sys.executable, *FORKING, "-c", EXITS, background_cluster.bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("0\n", "", 0), ended.stderr


def test_an_exit_within_a_callback_ends_no_producer(background_cluster, caplog):
    told = []

    def leave(error, metadata):
        told.append(metadata.offset)
        sys.exit(1)

    with Producer(background_cluster.bootstrap) as producer:
        for _ in range(3):
            producer.send("t", "x", partition=0, on_delivery=leave)
        producer.flush()
        assert producer.send("t", "x", partition=0).result().offset == 3
    assert told == [0, 1, 2]
    assert "delivery.callback_failed partition=t-0 error=SystemExit(1)" in caplog.text


def test_an_exit_within_a_callback_in_the_main_thread_is_one(background_cluster):
    async def main():
        async with AsyncProducer(background_cluster.bootstrap) as producer:
            await producer.send("t", "x", partition=0, on_delivery=lambda *_: sys.exit(3))
            await producer.flush()

    with pytest.raises(SystemExit) as ended:
        asyncio.run(main())
    assert ended.value.code == 3


def test_close_may_be_repeated_and_ends_the_rest(background_cluster):
    producer = Producer(background_cluster.bootstrap)
    producer.send("t", "x")
    producer.close()
    producer.close()
    assert len(background_cluster.records("t")) == 1
    with pytest.raises(ClientClosedError):
        producer.send("t", "y")


def test_an_error_inside_the_block_does_not_wait_for_deliveries(background_cluster):
    background_cluster.faults[0].extend([lambda request, node: None] * 10)
    deliveries = []

    def fail_inside():
        with Producer(background_cluster.bootstrap) as producer:
            deliveries.append(producer.send("t", "x"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    with pytest.raises(ClientClosedError):
        deliveries[0].result()


def test_a_producer_that_cannot_start_again_drops_its_records_at_once(background_cluster):
    background_cluster.faults[0].extend([lambda request, node: None] * 10)
    producer = Producer(background_cluster.bootstrap, request_timeout_ms=60_000)
    delivery = producer.send("t", "x")

    async def start():
        raise ZeroDivisionError

    producer._twin.start = start

    with pytest.raises(ZeroDivisionError), producer:
        pass
    with pytest.raises(ClientClosedError):
        delivery.result()


def test_records_that_a_thread_holds_at_the_end_of_the_process_are_counted(background_cluster):
    program = f"""
import threading
from barnabas.client import Producer
sent = threading.Event()
def send():
    producer = Producer("{background_cluster.bootstrap}", linger_ms=600_000, enable_metrics_push=False)
    for number in range(3):
        producer.send("t", str(number))
    sent.set()
    threading.Event().wait()
threading.Thread(target=send, daemon=True).start()
sent.wait()
"""
    child = [sys.executable, "-c", program]
    done = subprocess.run(child, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    line = 'producer.dropped records=3 advice="use it in a with block, or call close()"'
    assert done.stderr.strip() == line

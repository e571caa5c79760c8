"""Groups outlive their coordinator: ours and a genuine Kafka 3.9 take turns on one log directory and one
ZooKeeper.

In each life a static member reads on from where the life before committed. It does not leave when it ends, so
the next coordinator finds the member in the group that it loads, and a dynamic group is found empty, with its
offsets.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kafka_harness
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from topics_there import create_topics

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

TOPIC = "heirloom"
STATIC, DYNAMIC = "with-a-static-member", "with-a-dynamic-member"
RECORDS = 40
A_LIFE = 10
"""Records that a group reads in the life of one coordinator."""


def produce(bootstrap: str) -> None:
    create_topics(bootstrap, NewTopic(TOPIC, 1, 1, config={"retention.ms": "-1"}))
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number))
    assert producer.flush(60) == 0


def read_on(bootstrap: str, group: str, **settings: str) -> list[int]:
    """The next records of a group, committed one by one; the consumer ends as its client lets it end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 45_000,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    consumer.subscribe([TOPIC])
    found: list[int] = []
    deadline = time.monotonic() + 60
    try:
        while len(found) < A_LIFE and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and not message.error():
                found.append(int(message.value()))
                consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()
    return found


def described(bootstrap: str, group: str) -> tuple[str, list[str | None]]:
    """State and instance ids of a group, as soon as its coordinator has loaded it.

    librdkafka's admin may wait for ever for the coordinator that it asked for while the broker started, so
    each attempt is a client of its own.
    """
    deadline = time.monotonic() + 90
    while True:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        try:
            found = admin.describe_consumer_groups([group], request_timeout=5)[group].result(10)
        except (KafkaException, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return found.state.name, [member.group_instance_id for member in found.members]


@contextmanager
def our_life(serve, folder: Path, zookeeper: str) -> Iterator[str]:
    options = ["broker.id=0", f"zookeeper.connect={zookeeper}"]
    server = serve(folder / "data", *(f"--set={option}" for option in options))
    yield server.wait_until_ready().bootstrap
    assert server.stop() == 0


@contextmanager
def jvm_life(folder: Path, zookeeper: str) -> Iterator[str]:
    server = kafka_harness.start_broker(folder, zookeeper)
    try:
        yield server.wait_until_listening().bootstrap
        assert server.stop() in {0, 143}
    finally:
        server.kill()
    assert [line for line in server.tail().splitlines() if "ERROR" in line or "orrupt" in line] == []


def test_groups_go_on_under_the_next_coordinator(serve, zookeeper, server_folder):
    folder = server_folder / "group-takeover"
    folder.mkdir()
    chroot = f"{zookeeper}/group-takeover"
    lives = [our_life(serve, folder, chroot), jvm_life(folder, chroot), our_life(serve, folder, chroot)]
    for number, life in enumerate(lives):
        expected = list(range(number * A_LIFE, (number + 1) * A_LIFE))
        with life as bootstrap:
            if number == 0:
                produce(bootstrap)
            else:
                assert described(bootstrap, STATIC) == ("STABLE", ["old-faithful"])
                assert described(bootstrap, DYNAMIC) == ("EMPTY", [])
            assert read_on(bootstrap, DYNAMIC) == expected
            assert read_on(bootstrap, STATIC, group_instance_id="old-faithful") == expected

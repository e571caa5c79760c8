"""A transaction that is open when ours takes over the directory:
what stays of it, for whom, and who ends it.
"""

import kafka_harness
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.admin import Admin, NewTopic
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

TOPIC = "accounts"
TIMEOUT_MS = 8_000
SETTINGS = {
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


def send(bootstrap, value):
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPIC, value)
    assert producer.flush(20) == 0


def read(bootstrap, isolation):
    """All values that are there for a consumer of this kind."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "by-hand",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found = []
        while (message := consumer.poll(20)) is not None and not message.error():
            found.append(message.value())
        assert message is not None, "no end within the time"
        return found
    finally:
        consumer.close()


def transactional(bootstrap):
    settings = {"transactional.id": "clerk", "transaction.timeout.ms": TIMEOUT_MS}
    return Producer({"bootstrap.servers": bootstrap, **settings})


@pytest.fixture
def kafka_life(tmp_path, zookeeper):
    """Starts Apache Kafka on the directory."""
    lives = []

    def start():
        folder = tmp_path / f"kafka-{len(lives)}"
        folder.mkdir()
        settings = SETTINGS | {"log.dirs": tmp_path / "data"}
        server = kafka_harness.start_broker(folder, f"{zookeeper}/open-transaction", 0, settings)
        lives.append(server)
        return server.wait_until_listening()

    yield start
    for server in lives:
        server.kill()


@pytest.fixture
def our_life(tmp_path, serve, zookeeper):
    """Starts ours on the directory."""

    def start():
        place = SETTINGS | {
            "broker.id": 0,
            "zookeeper.connect": f"{zookeeper}/open-transaction",
            "log.dirs": tmp_path / "data",
        }
        ours = serve(tmp_path / "data", *(f"--set={key}={value}" for key, value in place.items()))
        ours.wait_until_ready()
        return ours

    return start


def leave_open(bootstrap, committed, left):
    """A producer that commits one record, and then vanishes in the middle of a transaction."""
    clerk = transactional(bootstrap)
    clerk.init_transactions(30)
    clerk.begin_transaction()
    clerk.produce(TOPIC, committed)
    clerk.commit_transaction(30)
    clerk.begin_transaction()
    clerk.produce(TOPIC, left)
    assert clerk.flush(20) == 0


def test_an_open_transaction_is_aborted_by_whoever_has_its_directory(kafka_life, our_life):
    kafka = kafka_life()
    with Admin(kafka.bootstrap) as admin:
        admin.topics.create(NewTopic(TOPIC, 1, 1))
    leave_open(kafka.bootstrap, b"of kafka", b"left to ours")
    assert kafka.stop() in {0, 143}

    ours = our_life()
    send(ours.bootstrap, b"behind")
    assert read(ours.bootstrap, "read_uncommitted") == [b"of kafka", b"left to ours", b"behind"]
    until(
        lambda: read(ours.bootstrap, "read_committed") == [b"of kafka", b"behind"],
        lambda: "our coordinator aborts what has timed out",
    )
    leave_open(ours.bootstrap, b"of ours", b"left to kafka")
    assert ours.stop() == 0

    again = kafka_life()
    until(
        lambda: read(again.bootstrap, "read_committed") == [b"of kafka", b"behind", b"of ours"],
        lambda: "Kafka's coordinator aborts what has timed out",
    )

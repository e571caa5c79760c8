"""A transaction that is open when ours takes over the directory:
what stays of it, for whom, and who ends it.
"""

import kafka_harness
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.admin import BlockingAdmin, NewTopic
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

TOPIC = "accounts"
TIMEOUT_MS = 8_000
SETTINGS = {
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
"""Of Kafka's coordinator, which ours does not have."""


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


def test_an_open_transaction_stays_open_until_a_broker_with_a_coordinator_is_back(
    kafka_life, serve, tmp_path, zookeeper
):
    kafka = kafka_life()
    with BlockingAdmin(kafka.bootstrap) as admin:
        admin.topics.create(NewTopic(TOPIC, 1, 1))
    clerk = transactional(kafka.bootstrap)
    clerk.init_transactions(30)
    clerk.begin_transaction()
    clerk.produce(TOPIC, b"committed")
    clerk.commit_transaction(30)
    clerk.begin_transaction()
    clerk.produce(TOPIC, b"open")
    assert clerk.flush(20) == 0
    assert kafka.stop() in {0, 143}

    place = {
        "broker.id": 0,
        "zookeeper.connect": f"{zookeeper}/open-transaction",
        "log.dirs": tmp_path / "data",
    }
    ours = serve(tmp_path / "data", *(f"--set={key}={value}" for key, value in place.items()))
    ours.wait_until_ready()
    send(ours.bootstrap, b"behind")
    assert read(ours.bootstrap, "read_uncommitted") == [b"committed", b"open", b"behind"]
    assert read(ours.bootstrap, "read_committed") == [b"committed"]
    with pytest.raises(KafkaException, match="Transactional Id authorization failed"):
        transactional(ours.bootstrap).init_transactions(30)
    assert ours.stop() == 0

    again = kafka_life()
    until(
        lambda: read(again.bootstrap, "read_committed") == [b"committed", b"behind"],
        lambda: "Kafka's coordinator aborts what has timed out",
    )

"""``barnabas.api.profile=auto`` with ZooKeeper: ours is a Kafka 4.4 to its clients while all brokers keep
groups of the consumer protocol, and a Kafka 3.9 while a genuine broker of 3.9.2 is registered.
"""

import itertools

import kafka_harness
import pytest
from confluent_kafka import Consumer, Producer

from bare_requests import Asker
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from waiting import eventually

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

TOPIC = "profile-orders"


def versions(port):
    """What a client that comes now is told."""
    answer = Asker(port).ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    told = {each.api_key: each.max_version for each in answer.api_keys}
    return told[ApiKey.PRODUCE], told[ApiKey.CONSUMER_GROUP_HEARTBEAT]


def is_a(profile, port):
    return versions(port) == {"4.4": (13, 1), "3.9": (11, 0)}[profile]


def test_the_profile_follows_who_is_registered_and_clients_lose_nothing(zookeeper, judge, serve, tmp_path):
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    settings = {
        "broker.id": 21,
        "zookeeper.connect": f"{zookeeper}/profile",
        "offsets.topic.replication.factor": 1,
        "group.consumer.min.heartbeat.interval.ms": 200,
        "group.consumer.heartbeat.interval.ms": 200,
    }
    path = kafka_harness.write_properties(tmp_path / "ours.properties", settings)
    server = serve(tmp_path / "ours", "--config", path, "--log-level", "info")
    ours = server.wait_until_ready()
    eventually(lambda: is_a("4.4", ours.port), expected=True)

    client = {"bootstrap.servers": ours.bootstrap}
    producer = Producer({**client, "enable.idempotence": True})
    consumer = Consumer(
        {**client, "group.id": "g", "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([TOPIC])
    numbers, read = itertools.count(), []

    def go_on(until):
        """Writes and reads until something is true of the cluster."""

        def step():
            producer.produce(TOPIC, str(next(numbers)).encode())
            assert producer.flush(20) == 0
            message = consumer.poll(0.05)
            if message is not None and not message.error():
                read.append(int(message.value()))
            return until()

        eventually(step, expected=True)

    go_on(lambda: len(read) > 5)
    jvm = kafka_harness.start_broker(tmp_path / "jvm", f"{zookeeper}/profile", 22)
    try:
        jvm.wait_until_listening()
        go_on(lambda: is_a("3.9", ours.port))
        reason = 'held_down_by="broker 22 does not keep groups of the consumer protocol'
        assert reason in server.log.read_text()
        before = len(read)
        # Connections keep what they were told of.
        go_on(lambda: len(read) > before + 20)
        assert jvm.process.poll() is None
    finally:
        jvm.stop()
    go_on(lambda: is_a("4.4", ours.port))

    written = next(numbers)
    go_on(lambda: len(read) > written)
    assert read[:written] == list(range(written))
    consumer.close()
    assert server.stop() == 0

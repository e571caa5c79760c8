"""Quotas on running brokers: who is held to them, on which broker, by which clients it is seen."""

import itertools
import threading

from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.admin import Admin, NewTopic
from barnabas.admin.quotas import ClientQuotaAlteration
from barnabas.core.errors import ErrorCode, KafkaError
from waiting import until

TOPIC = "limited"


def producing(bootstrap, client_id, throttled, size=100_000):
    """Produces until librdkafka says that it was made to wait."""
    settings = {"bootstrap.servers": bootstrap, "client.id": client_id, "throttle_cb": throttled.append}
    producer = Producer(settings)

    def was_throttled():
        producer.produce(TOPIC, b"x" * size)
        producer.flush(30)
        producer.poll(0.05)
        return throttled

    until(was_throttled, "the producer waits", seconds=30)
    return producer


def test_a_quota_that_one_broker_is_told_holds_on_all_and_after_a_start(join_cluster):
    first, second = join_cluster(1), join_cluster(2)
    for server in (first, second):
        server.wait_until_ready()
    with Admin(first.bootstrap) as admin:
        admin.topics.create(NewTopic(TOPIC, assignment={0: [2]}))
        admin.quotas.alter(ClientQuotaAlteration({"client-id": "limited"}, {"producer_byte_rate": 1000.0}))
        waits = []
        producing(first.bootstrap, "limited", waits)
        assert waits[0].broker_id == 2
        assert waits[0].throttle_time > 0

        assert second.stop() == 0
        again = join_cluster(2)
        again.wait_until_ready()
        producing(again.bootstrap, "limited", waits := [])

        admin.quotas.alter(ClientQuotaAlteration({"client-id": "limited"}, {"producer_byte_rate": None}))
    for server in (first, again):
        assert server.stop() == 0


def test_a_consumer_is_held_back_and_gets_everything(join_cluster):
    server = join_cluster(1)
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic(TOPIC, 1, 1))
        producer = Producer({"bootstrap.servers": server.bootstrap, "batch.size": 10_000})
        for _ in range(60):
            producer.produce(TOPIC, b"x" * 5000)
            producer.flush(30)
        admin.quotas.alter(ClientQuotaAlteration({"user": None}, {"consumer_byte_rate": 25_000.0}))
        waits = threading.Event()
        consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "fetch.message.max.bytes": 50_000,
                "throttle_cb": lambda _: waits.set(),
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        for _ in range(60):
            until(lambda: consumer.poll(1), "each record comes", seconds=30)
        assert waits.is_set()
        consumer.close()
    assert server.stop() == 0


def test_topics_beyond_the_quota_are_refused_with_kafkas_code(join_cluster):
    server = join_cluster(1)
    server.wait_until_ready()
    with Admin(server.bootstrap, client_id="maker") as admin:
        admin.quotas.alter(ClientQuotaAlteration({"client-id": "maker"}, {"controller_mutation_rate": 0.001}))
        numbers = itertools.count()

        def refusal():
            try:
                admin.topics.create(NewTopic(f"t{next(numbers)}", 1, 1), timeout_ms=3000)
            except KafkaError as error:
                return error.code
            return None

        assert until(refusal) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert server.stop() == 0

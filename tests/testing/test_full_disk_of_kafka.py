"""A disk that a test fills: nothing is written, all is served, and it goes on when there is room."""

import confluent_kafka
import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import DeliveryTimeoutError, Producer
from barnabas.core.errors import ConfigError
from barnabas.testing import Kafka


def values(kafka, topic):
    return [record.value for record in kafka.records(topic)]


def test_a_record_waits_until_there_is_room(kafka, kafka_topic):
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"before").result()
        with kafka.fill_disk() as full:
            waiting = producer.send(kafka_topic, b"waits")
            full.wait()
            with pytest.raises(DeliveryTimeoutError):
                waiting.result(timeout=0.2)
            assert values(kafka, kafka_topic) == [b"before"]
        waiting.result(timeout=30)
    assert values(kafka, kafka_topic) == [b"before", b"waits"]
    assert full.fired() > 0


def test_who_does_not_wait_gets_kafkas_own_answer(kafka, kafka_topic):
    said = []
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers, "retries": 0})
    with kafka.fill_disk():
        producer.produce(kafka_topic, b"lost", on_delivery=lambda error, _: said.append(error.name()))
        producer.flush(30)
    assert said == ["KAFKA_STORAGE_ERROR"]


def test_the_disk_of_one_broker_is_not_that_of_another():
    with Kafka(2) as kafka:
        topics = ("of-0", "of-1")
        with Admin(kafka.bootstrap_servers) as admin:
            admin.topics.create(
                NewTopic(name, assignment={0: [broker]}) for broker, name in enumerate(topics)
            )
        full = kafka.fill_disk(1)
        with Producer(kafka.bootstrap_servers) as producer:
            producer.send(topics[0], b"room").result()
            waiting = producer.send(topics[1], b"none")
            full.wait()
            kafka.clear_faults()
            waiting.result(timeout=30)
        with pytest.raises(ValueError, match="no broker 2"):
            kafka.fill_disk(2)


def test_it_stays_full_when_the_broker_comes_back(tmp_path):
    with Kafka(data=tmp_path) as kafka:
        topic = kafka.create_topic()
        with Producer(kafka.bootstrap_servers) as producer:
            producer.send(topic, b"kept").result()
        full = kafka.fill_disk()
        kafka.kill(0)
        with pytest.raises(ConfigError, match="No space left"):
            kafka.restart(0)
        full.remove()
        kafka.restart(0)
        assert values(kafka, topic) == [b"kept"]

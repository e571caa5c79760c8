"""Style 2: confluent-kafka, and a mock instead of a producer.

    producer = Mock()
    sign_up(producer, "ada")
    producer.produce.assert_called_once_with("signups", key="ada", value=ANY)

passes whatever a broker would say. Here the producer is a real one, and the test reads the topic.
"""

import json

from confluent_kafka import Producer

from barnabas.testing import Kafka


class SignupError(Exception):
    """It is not known to be stored."""


def sign_up(producer: Producer, topic: str, name: str) -> None:
    """The program. Raises SignupError unless the record is stored."""
    failed = []
    producer.produce(
        topic,
        key=name,
        value=json.dumps({"name": name}),
        on_delivery=lambda error, _: failed.append(error) if error else None,
    )
    left = producer.flush(20)
    if left or failed:
        raise SignupError(name)


def test_a_signup_is_stored(kafka: Kafka, kafka_topic: str) -> None:
    """What the mock had asserted, as a consumer sees it."""
    sign_up(Producer({"bootstrap.servers": kafka.bootstrap_servers}), kafka_topic, "ada")
    (record,) = kafka.records(kafka_topic)
    assert (record.key, json.loads(record.value or b"")) == (b"ada", {"name": "ada"})


def test_a_signup_that_is_refused_is_not_silent(kafka: Kafka, kafka_topic: str) -> None:
    """What a mock's `side_effect` raises in `produce` comes later in truth: with the delivery."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    with kafka.plant(apis="Produce", topic=kafka_topic, error="TOPIC_AUTHORIZATION_FAILED") as refused:
        try:
            sign_up(producer, kafka_topic, "ada")
        except SignupError:
            pass
        else:
            raise AssertionError("the refusal was lost")
        assert refused.fired() == 1
    assert kafka.records(kafka_topic) == []

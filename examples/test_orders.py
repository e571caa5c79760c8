"""A test with a real broker, and with one that fails: `pytest examples/test_orders.py`.

The fixtures `kafka` and `kafka_topic` come with barnabas; any client may use them.
"""

from barnabas.client import Consumer, Producer
from barnabas.testing import Fault, Kafka


def book(bootstrap_servers: str, topic: str, item: str) -> None:
    """What a shop does, and what is tested here."""
    with Producer(bootstrap_servers) as producer:
        producer.send_and_wait(topic, item)


def test_an_order_is_booked(kafka: Kafka, kafka_topic: str) -> None:
    """It can be read by others."""
    book(kafka.bootstrap_servers, kafka_topic, "a cup")
    with Consumer(kafka.bootstrap_servers) as consumer:
        consumer.assign([(kafka_topic, 0)])
        consumer.seek_to_beginning()
        assert [record.value for record in consumer.poll(timeout_ms=5000)] == [b"a cup"]


def test_an_order_is_booked_once_though_its_answer_is_lost(kafka: Kafka, kafka_topic: str) -> None:
    """The broker stores it and hangs up: the producer sends it again, and the broker knows it."""
    fault = kafka.plant(Fault("Produce", topic=kafka_topic, when="after", cut=True))
    book(kafka.bootstrap_servers, kafka_topic, "a cup")
    assert fault.fired() == 1
    assert len(kafka.records(kafka_topic)) == 1

"""Style 1: kafka-python, and a container for the session.

    @pytest.fixture(scope="session")
    def bootstrap_servers():
        with KafkaContainer() as container:
            yield container.get_bootstrap_server()

becomes the fixture below; the tests stay as they are.
"""

from collections import Counter

import pytest
from kafka import KafkaConsumer, KafkaProducer

from barnabas.testing import Kafka


@pytest.fixture(scope="session")
def bootstrap_servers(kafka: Kafka) -> str:
    """Where the program finds Kafka."""
    return kafka.bootstrap_servers


def count_words(bootstrap_servers: str, source: str, target: str, lines: int) -> None:
    """The program: reads lines, writes how often each word was there."""
    consumer = KafkaConsumer(source, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest")
    counts: Counter[str] = Counter()
    for _, record in zip(range(lines), consumer, strict=False):
        counts.update(record.value.decode().split())
    consumer.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for word, count in counts.items():
        producer.send(target, key=word.encode(), value=str(count).encode())
    producer.close()


def test_words_are_counted(bootstrap_servers: str, kafka: Kafka) -> None:
    """As it was with the container, but for reading the result, which the fixture does."""
    source, target = kafka.create_topic(), kafka.create_topic()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    producer.send(source, b"to be or not")
    producer.send(source, b"to be")
    producer.close()
    count_words(bootstrap_servers, source, target, lines=2)
    written = {record.key: record.value for record in kafka.records(target)}
    assert written == {b"to": b"2", b"be": b"2", b"or": b"1", b"not": b"1"}

"""What the client library does beside plain records: split batches, tables, objects that do not parse."""

import json
import random

import pyarrow as pa
import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, DeliveryError, Producer, RecordDeserializationError
from barnabas.core.errors import ErrorCode

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def topic(bootstrap, topic_name):
    name = topic_name("library")
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=2, configs={"max.message.bytes": "1500"}))
    return name


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_that_is_too_large_for_the_topic_is_split(bootstrap, topic, codec):
    rng = random.Random(1)
    values = [b"%03d" % number + rng.randbytes(100) for number in range(200)]
    with Producer(bootstrap, linger_ms=1000, compression_type=codec) as producer:
        deliveries = [producer.send(topic, value, partition=0) for value in values]
        too_large = producer.send(topic, rng.randbytes(3000), partition=0)
        behind = producer.send(topic, b"behind", partition=0)
        offsets = [delivery.result(60).offset for delivery in deliveries]
        assert isinstance(too_large.exception(60), DeliveryError)
        assert too_large.exception().code is ErrorCode.MESSAGE_TOO_LARGE
        assert (offsets, behind.result(60).offset) == (list(range(200)), 200)
        assert producer.metrics()["producer-metrics"]["batch-split-total"] > 5
    with Consumer(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        read = []
        while len(read) < 201:
            read += [record.value for record in consumer.poll(timeout_ms=10_000)]
    assert read == [*values, b"behind"]


def test_tables_go_in_and_come_out(bootstrap, topic):
    table = pa.table({"who": [f"u{number}" for number in range(300)], "what": ["x" * 20] * 300})
    with Producer(bootstrap, batch_size=1000) as producer:
        for delivery in producer.send_arrow(topic, table, key="who", value="what"):
            delivery.result(60)
    with Consumer(bootstrap) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.seek_to_beginning()
        assert sorted(consumer.to_arrow().column("key").to_pylist()) == sorted(
            key.encode() for key in table.column("who").to_pylist()
        )


def test_objects_and_what_does_not_parse(bootstrap, topic):
    with Producer(bootstrap, value_serializer=lambda value: json.dumps(value).encode()) as producer:
        producer.send(topic, {"n": 1}, partition=0)
    with Producer(bootstrap) as producer:
        producer.send(topic, b"no json", partition=0)
    with Consumer(bootstrap, value_deserializer=json.loads) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        found = []
        while not found:
            found = [record.value for record in consumer.poll(timeout_ms=5000)]
        assert found == [{"n": 1}]
        with pytest.raises(RecordDeserializationError) as refused:
            consumer.poll(timeout_ms=30_000)
        assert refused.value.offset == 1

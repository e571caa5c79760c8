"""A topic that is deleted and created again between planning and the last fetch, on a broker:
its id tells.
"""

import time

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.spark.errors import DataLossError
from barnabas.spark.kafka import KafkaCatalog, KafkaFetcher
from barnabas.spark.options import source_options
from barnabas.spark.planner import Planner
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.reading import read_ranges

RECORDS = 200


def create(broker, topic, word):
    """The topic, with records larger than a fetch takes several of;
    waits for the end of one that is being deleted.
    """
    deadline = time.monotonic() + 60
    with Admin(broker) as admin:
        while True:
            try:
                admin.topics.create([NewTopic(topic, partitions=1, configs={"retention.ms": "-1"})])
                break
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
    with Producer(broker, batch_size=1) as producer:
        for _ in range(RECORDS):
            producer.send(topic, word * 1000)


def create_again(broker, topic):
    with Admin(broker) as admin:
        admin.topics.delete(topic)
    create(broker, topic, b"n")


@pytest.fixture
def planned(broker, topic_name):
    """A topic, the ranges and ids of a read that is planned, and what reads it."""
    topic = topic_name("again")
    create(broker, topic, b"o")
    given = {"kafka.bootstrap.servers": broker, "subscribe": topic, "kafka.max.partition.fetch.bytes": "4000"}
    options = source_options(given, streaming=False)
    catalog = KafkaCatalog(options)
    ranges = Planner(options, catalog).batch_ranges()
    catalog.close()
    assert ranges == [OffsetRange(TopicPartition(topic, 0), 0, RECORDS)]
    return topic, ranges, catalog.topic_ids, options


@pytest.fixture
def fetcher(planned):
    """One that knows no topic yet."""
    made = KafkaFetcher(planned[3].client)
    yield made
    made._consumer.close()


def words(batches):
    for batch in batches:
        yield from (value[:1] for value in batch.column("value").to_pylist())


def test_before_the_first_fetch(broker, planned, fetcher):
    topic, ranges, ids, options = planned
    create_again(broker, topic)

    with pytest.raises(DataLossError, match="deleted and created again"):
        list(read_ranges(ranges, fetcher, options, ids))


def test_between_two_fetches(broker, planned, fetcher):
    topic, ranges, ids, options = planned
    found = []
    reading = words(read_ranges(ranges, fetcher, options, ids))
    found.append(next(reading))
    create_again(broker, topic)

    with pytest.raises(DataLossError, match="deleted and created again"):
        found.extend(reading)
    assert set(found) == {b"o"}

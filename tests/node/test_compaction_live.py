"""Compaction on a running broker: a child process cleans, clients read on, settings change while it runs."""

import contextlib
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.admin.admin import Admin
from barnabas.admin.types import ConfigResource, NewTopic
from barnabas.client import Consumer as OurConsumer
from barnabas.core.ids import TopicPartition as Tp
from waiting import until

# Nothing about log.initial.task.delay.ms: the cleaner begins with the broker, as Kafka's does.
QUICK = ("--set", "log.cleaner.backoff.ms=50")
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}


def log_bytes(directory):
    """Of the files that are there: the cleaner takes some away meanwhile."""
    size = 0
    for path in directory.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def produce(bootstrap, rounds, keys=100):
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2})
    for number in range(rounds * keys):
        producer.produce("t", f"{number}".encode() * 10, key=str(number % keys), partition=0)
        if number % keys == 0:
            producer.flush(15)
    assert producer.flush(15) == 0
    return {str(number % keys).encode(): f"{number}".encode() * 10 for number in range(rounds * keys)}


def read_by_librdkafka(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True})
    found = {}
    try:
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(20)) is not None and not message.error():
            found[message.key()] = message.value()
    finally:
        consumer.close()
    return found


def read_by_ours(bootstrap, expected):
    found = {}
    with OurConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([Tp("t", 0)])
        consumer.seek_to_beginning()
        deadline = time.monotonic() + 20
        while found != expected and time.monotonic() < deadline:
            found |= {record.key: record.value for record in consumer.poll(timeout_ms=500)}
    return found


def test_a_compacted_topic_stays_small_and_holds_the_last_value_of_each_key(serve, tmp_path):
    server = serve(tmp_path / "data", *QUICK)
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 1, 1, configs=COMPACTED))
        expected = produce(server.bootstrap, 15)
        until(lambda: log_bytes(tmp_path / "data" / "t-0") < 60_000)
        assert read_by_librdkafka(server.bootstrap) == expected
        # More cleaners, and a limit that they keep to, without a restart.
        admin.configs.alter({ConfigResource.all_brokers(): {"log.cleaner.threads": "2"}})
        expected |= produce(server.bootstrap, 18)
    until(lambda: log_bytes(tmp_path / "data" / "t-0") < 60_000)
    assert server.stop() == 0

    again = serve(tmp_path / "data", *QUICK)
    again.wait_until_ready()
    assert read_by_ours(again.bootstrap, expected) == expected
    assert again.stop() == 0


def test_the_offsets_of_groups_stay_bounded_under_churn(serve, tmp_path):
    small = ("offsets.topic.num.partitions=1", "offsets.topic.segment.bytes=30000")
    options = [part for setting in small for part in ("--set", setting)]
    data = tmp_path / "data"
    server = serve(
        data,
        *QUICK,
        *options,
        "--set",
        "log.cleaner.min.cleanable.ratio=0.01",
        "--set",
        "log.segment.delete.delay.ms=0",
    )
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 4, 1))
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "churn", "enable.auto.commit": False}
    )
    committed = 0
    for number in range(1, 501):
        offsets = [TopicPartition("t", partition, number) for partition in range(4)]
        consumer.commit(offsets=offsets, asynchronous=number % 50 != 0)
        committed = number
    consumer.commit(offsets=offsets, asynchronous=False)
    directory = data / "__consumer_offsets-0"
    # 500 commits of some 400 bytes: 200 KB without the cleaner.
    until(lambda: log_bytes(directory) < 80_000)
    assert server.stop() == 0

    again = serve(data, *QUICK, *options)
    again.wait_until_ready()
    reader = Consumer({"bootstrap.servers": again.bootstrap, "group.id": "churn"})
    found = reader.committed([TopicPartition("t", partition) for partition in range(4)], timeout=20)
    assert [each.offset for each in found] == [committed] * 4
    for each in (consumer, reader):
        each.close()
    assert again.stop() == 0

"""Transactions in a cluster of a genuine Kafka 3.9 broker and ours: markers go both ways.

Each of the two coordinates some transactional ids, and each leads partitions that the other one's
transactions write to.
"""

import kafka_harness
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.core.ids import TopicPartition as Partition
from barnabas.core.ids import java_abs, java_hash
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

JVM, OURS = 1, 2
SECONDS = 60
PARTITIONS = 4
SETTINGS = {
    "zookeeper.session.timeout.ms": 6000,
    "transaction.state.log.num.partitions": PARTITIONS,
    "transaction.state.log.replication.factor": 2,
    "transaction.state.log.min.isr": 1,
    "offsets.topic.num.partitions": PARTITIONS,
    "offsets.topic.replication.factor": 2,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture
def bootstrap(tmp_path, zookeeper, serve):
    connect = f"{zookeeper}/{tmp_path.name}"
    jvm = kafka_harness.start_broker(tmp_path / "jvm", connect, JVM, SETTINGS)
    try:
        jvm.wait_until_listening()
        settings = SETTINGS | {"broker.id": OURS, "zookeeper.connect": connect}
        ours = serve(tmp_path / "ours", *(f"--set={key}={value}" for key, value in settings.items()))
        ours.wait_until_ready()
        yield f"{jvm.bootstrap},{ours.bootstrap}"
    finally:
        jvm.kill()


def producer_of(bootstrap, name):
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(SECONDS)
    return producer


def consumer_of(bootstrap, group):
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def committed(bootstrap, topic):
    """The values of each partition."""
    consumer = consumer_of(bootstrap, "by-hand")
    found = []
    try:
        for partition in (0, 1):
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            values = []
            while (message := consumer.poll(SECONDS)) is not None and not message.error():
                values.append(message.value().decode())
            found.append(values)
    finally:
        consumer.close()
    return found


def names_by_coordinator(bootstrap):
    """A transactional id for each of the two coordinators."""
    with Admin(bootstrap) as admin:
        partitions = admin.topics.describe(["__transaction_state"])["__transaction_state"].partitions
        leaders = [each.leader for each in partitions]
    names = {}
    for number in range(100):
        name = f"clerk-{number}"
        names.setdefault(leaders[java_abs(java_hash(name)) % PARTITIONS], name)
    return names


def test_each_coordinates_transactions_over_partitions_of_both(bootstrap):
    producer_of(bootstrap, "first")  # the topic of transactions is made
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("orders", assignment={0: [JVM], 1: [OURS]}))
    names = names_by_coordinator(bootstrap)
    assert set(names) == {JVM, OURS}

    expected = []
    for name in names.values():
        producer = producer_of(bootstrap, name)
        for ends in (True, False, True):
            value = f"{name} {len(expected)} {ends}"
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("orders", value, partition=partition)
            assert producer.flush(SECONDS) == 0
            group = consumer_of(bootstrap, f"group of {name}")
            offset = TopicPartition("orders", 0, len(expected))
            producer.send_offsets_to_transaction([offset], group.consumer_group_metadata(), SECONDS)
            if ends:
                producer.commit_transaction(SECONDS)
                expected.append(value)
            else:
                producer.abort_transaction(SECONDS)
            group.close()

    until(lambda: committed(bootstrap, "orders") == [expected, expected])
    for place, name in enumerate(names.values()):
        group = consumer_of(bootstrap, f"group of {name}")
        (found,) = group.committed([TopicPartition("orders", 0)], SECONDS)
        group.close()
        assert found.offset == 2 * place + 1


@pytest.mark.parametrize("keeps", [JVM, OURS], ids=["to the JVM", "to ours"])
def test_an_open_transaction_goes_on_under_another_coordinator(bootstrap, keeps):
    producer_of(bootstrap, "first")
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("orders", assignment={0: [JVM], 1: [OURS]}))
        names = names_by_coordinator(bootstrap)
        producer = producer_of(bootstrap, names[JVM + OURS - keeps])
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("orders", "moved", partition=partition)
        assert producer.flush(SECONDS) == 0
        admin.partitions.reassign(
            {Partition("__transaction_state", number): [keeps] for number in range(PARTITIONS)}
        )
        until(lambda: set(names_by_coordinator(bootstrap)) == {keeps})
    producer.commit_transaction(SECONDS)

    until(lambda: committed(bootstrap, "orders") == [["moved"], ["moved"]])

"""Transactions over several brokers: the coordinator is one, the leaders of the partitions are others."""

import contextlib
import signal

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.admin.admin import BlockingAdmin
from barnabas.admin.types import NewTopic
from waiting import until

SECONDS = 40
OPTIONS = [
    f"--set={key}={value}"
    for key, value in {
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        "zookeeper.session.timeout.ms": 4000,
        "replica.fetch.backoff.ms": 50,
    }.items()
]


class Cluster:
    def __init__(self, servers):
        self.servers = servers
        self.bootstrap = ",".join(server.bootstrap for server in servers.values())
        self.resting = set()

    def producer(self, transactional_id="clerk"):
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 60_000,
            }
        )
        producer.init_transactions(SECONDS)
        return producer

    def leader(self, topic, partition=0):
        with BlockingAdmin(self.alive.bootstrap) as admin:
            return admin.topics.describe([topic])[topic].partitions[partition].leader

    @property
    def alive(self):
        """A broker that can be asked."""
        return next(
            server
            for number, server in self.servers.items()
            if number not in self.resting and server.process.poll() is None
        )

    def create(self, topic, *leaders):
        with BlockingAdmin(self.alive.bootstrap) as admin:
            assignment = {partition: [leader] for partition, leader in enumerate(leaders)}
            admin.topics.create(NewTopic(topic, assignment=assignment))

    @contextlib.contextmanager
    def frozen(self, number):
        process = self.servers[number].process
        process.send_signal(signal.SIGSTOP)
        self.resting.add(number)
        try:
            yield
        finally:
            self.resting.remove(number)
            process.send_signal(signal.SIGCONT)


def committed(cluster, topic, partitions):
    """The values that a reader of committed records finds up to the last stable offset, partition by
    partition.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "by-hand",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found = []
    try:
        for partition in range(partitions):
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            values = []
            while (message := consumer.poll(SECONDS)) is not None and not message.error():
                values.append(message.value().decode())
            found.append(values)
    finally:
        consumer.close()
    return found


@pytest.fixture
def cluster(join_cluster):
    servers = {number: join_cluster(number, *OPTIONS) for number in (1, 2, 3)}
    for server in servers.values():
        server.wait_until_ready()
    yield Cluster(servers)
    for server in servers.values():
        server.process.send_signal(signal.SIGCONT)


def write(producer, topic, partitions, value):
    for partition in range(partitions):
        producer.produce(topic, value, partition=partition)
    assert producer.flush(SECONDS) == 0


@pytest.mark.timeout(180)
def test_one_transaction_has_partitions_of_all_brokers(cluster):
    cluster.create("orders", 1, 2, 3)
    producer = cluster.producer()
    for value, ends in (("one", True), ("two", False), ("three", True)):
        producer.begin_transaction()
        write(producer, "orders", 3, value)
        producer.commit_transaction(SECONDS) if ends else producer.abort_transaction(SECONDS)

    # EndTxn is answered before the markers are written.
    until(lambda: committed(cluster, "orders", 3) == [["one", "three"]] * 3)


@pytest.mark.timeout(240)
def test_a_decision_outlives_the_coordinator_that_made_it(cluster):
    """The coordinator is killed when it has decided, and before the leader of the partition could be told."""
    producer = cluster.producer()
    coordinator = cluster.leader("__transaction_state")
    other, third = (number for number in cluster.servers if number != coordinator)
    cluster.create("orders", other, third)
    producer.begin_transaction()
    write(producer, "orders", 2, "decided")

    with cluster.frozen(other):
        producer.commit_transaction(SECONDS)
        cluster.servers[coordinator].kill()
        until(lambda: cluster.leader("__transaction_state") not in (coordinator, -1))

    until(lambda: committed(cluster, "orders", 2) == [["decided"]] * 2)
    producer.begin_transaction()
    write(producer, "orders", 2, "later")
    producer.commit_transaction(SECONDS)
    until(lambda: committed(cluster, "orders", 2) == [["decided", "later"]] * 2)

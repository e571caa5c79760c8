"""Transactions over several brokers: the coordinator is one, the leaders of the partitions are others."""

import contextlib
import signal
import sys
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from transactional_ids import coordinated, init
from waiting import until

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

from wire_peer import WirePeer, frame_of

SECONDS = 40
STATE_TOPIC = "__transaction_state"
EPOCH_MAX = 32_766
"""The last epoch that a producer gets: the next one is there to fence it."""
AT_ONCE = 200
OPTIONS = [
    f"--set={key}={value}"
    for key, value in {
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        "zookeeper.session.timeout.ms": 4000,
        "replica.fetch.backoff.ms": 50,
        # The default has a follower that is frozen be in sync for up to 45 s.
        "replica.lag.time.max.ms": 6000,
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
                # A broker that was frozen keeps its connections.
                "socket.timeout.ms": 10_000,
            }
        )
        producer.init_transactions(SECONDS)
        return producer

    def leader(self, topic, partition=0):
        with self.admin() as admin:
            return admin.topics.describe([topic])[topic].partitions[partition].leader

    def admin(self):
        """It may choose a broker that is frozen, and asks another one when that does not answer."""
        return Admin(self.alive.bootstrap, **{"request.timeout.ms": 1000})

    @property
    def alive(self):
        """A broker that can be asked."""
        return next(
            server
            for number, server in self.servers.items()
            if number not in self.resting and server.process.poll() is None
        )

    def create(self, topic, *leaders):
        with self.admin() as admin:
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


def in_sync(cluster, topic):
    with cluster.admin() as admin:
        return set(admin.topics.describe([topic])[topic].partitions[0].isr)


@pytest.mark.timeout(240)
def test_a_coordinator_that_sleeps_through_the_end_of_a_transaction_changes_nothing_later(cluster):
    """It sleeps behind the decision, before the markers; another one sends them, and the next transaction
    runs. Then it wakes, with markers of its own term to send.
    """
    producer = cluster.producer()
    coordinator = cluster.leader(STATE_TOPIC)
    other, third = (number for number in cluster.servers if number != coordinator)
    cluster.create("orders", other, third)
    producer.begin_transaction()
    write(producer, "orders", 2, "decided")

    with cluster.frozen(other):
        producer.commit_transaction(SECONDS)
        sleeping = cluster.frozen(coordinator)
        sleeping.__enter__()
    until(lambda: cluster.leader(STATE_TOPIC) not in (coordinator, -1))
    until(lambda: committed(cluster, "orders", 2) == [["decided"]] * 2)
    producer.begin_transaction()
    write(producer, "orders", 2, "open")
    sleeping.__exit__(None, None, None)
    until(lambda: coordinator in in_sync(cluster, STATE_TOPIC))

    assert committed(cluster, "orders", 2) == [["decided"]] * 2, "a late marker ended another transaction"
    producer.abort_transaction(SECONDS)
    producer.begin_transaction()
    write(producer, "orders", 2, "last")
    producer.commit_transaction(SECONDS)
    until(lambda: committed(cluster, "orders", 2) == [["decided", "last"]] * 2)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("made_anew", [False, True])
def test_a_topic_that_is_deleted_before_its_marker_does_not_hold_the_transaction(cluster, made_anew):
    producer = cluster.producer()
    coordinator = cluster.leader(STATE_TOPIC)
    other, third = (number for number in cluster.servers if number != coordinator)
    cluster.create("gone", other)
    cluster.create("kept", third)
    producer.begin_transaction()
    write(producer, "gone", 1, "decided")
    write(producer, "kept", 1, "decided")
    with cluster.frozen(other):
        producer.commit_transaction(SECONDS)
        with cluster.admin() as admin:
            admin.topics.delete(["gone"])
    if made_anew:
        until(lambda: _made_anew(cluster, "gone", third))

    until(lambda: committed(cluster, "kept", 1) == [["decided"]])
    producer.begin_transaction()
    write(producer, "kept", 1, "later")
    if made_anew:
        write(producer, "gone", 1, "later")
    producer.commit_transaction(SECONDS)
    until(lambda: committed(cluster, "kept", 1) == [["decided", "later"]])
    if made_anew:
        until(lambda: committed(cluster, "gone", 1) == [["later"]])


def _made_anew(cluster, topic, leader):
    """Whether the topic could be made: one of the same name is refused until nothing of it is left."""
    try:
        cluster.create(topic, leader)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


@pytest.mark.timeout(240)
def test_a_partition_of_an_open_transaction_that_moves_takes_it_along(cluster):
    producer = cluster.producer()
    coordinator = cluster.leader(STATE_TOPIC)
    other, third = (number for number in cluster.servers if number != coordinator)
    cluster.create("moved", other)
    producer.begin_transaction()
    write(producer, "moved", 1, "here")
    with cluster.admin() as admin:
        admin.partitions.reassign({("moved", 0): [third]})
    until(lambda: cluster.leader("moved") == third)
    write(producer, "moved", 1, "there")
    producer.commit_transaction(SECONDS)

    until(lambda: committed(cluster, "moved", 1) == [["here", "there"]])


@pytest.mark.timeout(240)
def test_a_marker_waits_for_the_replicas_that_its_partition_asks_for(cluster):
    producer = cluster.producer()
    coordinator = cluster.leader(STATE_TOPIC)
    other, _ = (number for number in cluster.servers if number != coordinator)
    with cluster.admin() as admin:
        config = {"min.insync.replicas": "2"}
        admin.topics.create(NewTopic("two", assignment={0: [coordinator, other]}, configs=config))
    producer.begin_transaction()
    write(producer, "two", 1, "both")
    with cluster.frozen(other):
        until(lambda: in_sync(cluster, "two") == {coordinator})
        producer.commit_transaction(SECONDS)
        assert committed(cluster, "two", 1) == [[]]

    until(lambda: committed(cluster, "two", 1) == [["both"]])


@pytest.mark.timeout(240)
def test_an_epoch_that_has_run_out_makes_a_new_producer_id(serve, tmp_path):
    server = serve(tmp_path, "--set", "transaction.state.log.num.partitions=1")
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 1, 1))
    with WirePeer(server.port) as peer:
        coordinated(peer)
        assert peer.ask(init("clerk"), 2).error_code == 0
        frame = frame_of(init("clerk"), 2)
        for sent in range(1, EPOCH_MAX, AT_ONCE):
            together = min(AT_ONCE, EPOCH_MAX - sent)
            peer.send(frame * together)
            for _ in range(together):
                assert peer.response() is not None
        last = peer.ask(init("clerk"), 2)
        assert last.producer_epoch == EPOCH_MAX
        assert _begin(peer, last) is ErrorCode.NONE
        # Fenced by the last epoch of all, which no producer gets, and then under another id.
        assert peer.ask(init("clerk"), 2).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        fresh = until(lambda: (answer := peer.ask(init("clerk"), 2)).error_code == 0 and answer)
        assert fresh.producer_id != last.producer_id
        # The fence itself has led to that id, with epoch 0.
        assert fresh.producer_epoch == 1
        assert _begin(peer, last) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert _begin(peer, fresh) is ErrorCode.NONE
    assert server.stop() == 0


def _begin(peer, producer):
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="clerk",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
    )
    topic = peer.ask(request, 2).results_by_topic_v3_and_below[0]
    return ErrorCode(topic.results_by_partition[0].partition_error_code)

"""Partitions move between running brokers, with their records."""

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.core.errors import ErrorCode, KafkaError
from waiting import until

TP = TopicPartition("t", 0)
RECORDS = 2000


def described(admin):
    return admin.topics.describe(["t"])["t"].partitions[0]


@pytest.fixture
def three_brokers(join_cluster):
    servers = {number: join_cluster(number) for number in (1, 2, 3)}
    for server in servers.values():
        server.wait_until_ready()
    yield servers
    for server in servers.values():
        assert server.stop() == 0, server.tail()


def test_records_move_with_their_partition(three_brokers):
    with Admin(three_brokers[1].bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [1, 2]}))
        with Producer(three_brokers[1].bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("t", b"%d" % number)
        admin.partitions.reassign({TP: [3, 2]})
        until(lambda: admin.partitions.reassignments() == {})
        until(lambda: sorted(described(admin).isr) == [2, 3])
        assert list(described(admin).replicas) == [3, 2]
        assert described(admin).leader in (2, 3)
        until(lambda: not list(three_brokers[1].data_dir.glob("t-0")))
        assert list(three_brokers[3].data_dir.glob("t-0/*.log"))
        with pytest.raises(KafkaError) as caught:
            admin.partitions.reassign({TP: None})
        assert caught.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert admin.partitions.try_reassign({TP: [9]})[TP].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    with Consumer(three_brokers[1].bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        values = []
        while len(values) < RECORDS:
            values += [int(record.value) for record in consumer.poll(timeout_ms=10_000)]
    assert values == list(range(RECORDS))

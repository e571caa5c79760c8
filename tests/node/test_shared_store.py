"""Several brokers on one machine, on one embedded metadata store: a cluster, by the same path as any other."""

import pytest

from barnabas.admin.admin import BlockingAdmin
from barnabas.admin.types import NewTopic
from barnabas.client import Consumer, Producer, TopicPartition


@pytest.fixture
def pair(tmp_path, serve):
    """Two brokers; the first is the controller."""
    shared = ("--set", f"barnabas.metadata.path={tmp_path / 'metadata.sqlite'}")
    servers = []
    for broker_id in (1, 2):
        servers.append(serve(tmp_path / f"data-{broker_id}", "--id", str(broker_id), *shared))
        servers[-1].wait_until_ready()
    yield servers
    for server in servers:
        if server.process.poll() is None:
            assert server.stop() == 0


def bootstrap(server):
    return f"127.0.0.1:{server.port}"


def leaders(admin, topic):
    return [partition.leader for partition in admin.topics.describe([topic])[topic].partitions]


def test_either_broker_answers_for_the_cluster(pair):
    first, second = pair
    with BlockingAdmin(bootstrap(second)) as admin:
        cluster = admin.cluster.describe()
        assert sorted(broker.node_id for broker in cluster.brokers) == [1, 2]
        admin.topics.create(NewTopic("spread", partitions=4))
    with BlockingAdmin(bootstrap(first)) as admin:
        assert sorted(leaders(admin, "spread")) == [1, 1, 2, 2]


def test_records_reach_partitions_on_both(pair):
    _, second = pair
    with BlockingAdmin(bootstrap(second)) as admin:
        admin.topics.create(NewTopic("both", partitions=2))
    with Producer(bootstrap(second)) as producer:
        for partition in (0, 1):
            producer.send("both", b"to %d" % partition, partition=partition).result()
    with Consumer(bootstrap(second), auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("both", 0), TopicPartition("both", 1)])
        values = set()
        while len(values) < 2:
            values |= {record.value for record in consumer.poll(timeout_ms=10_000)}
    assert values == {b"to 0", b"to 1"}


def test_the_other_broker_takes_over_the_controller(pair):
    first, second = pair
    first.kill()
    with BlockingAdmin(bootstrap(second)) as admin:
        # CreateTopics goes to the controller: it can only succeed once the second broker was elected.
        admin.topics.create(NewTopic("after", partitions=1))
        assert leaders(admin, "after") == [2]
        assert admin.cluster.describe().controller.node_id == 2

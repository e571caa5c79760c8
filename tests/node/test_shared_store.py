"""Several brokers on one machine, on one embedded metadata store:
a cluster, by the same path as any other.
"""

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewPartitions, NewTopic
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.election_type import ElectionType
from waiting import eventually


def leaders(admin, topic):
    """The leaders that some broker knows of: what the controller did reaches one broker after another."""
    described = admin.topics.try_describe([topic])[topic]
    return (
        [] if isinstance(described, KafkaError) else [partition.leader for partition in described.partitions]
    )


def test_either_broker_answers_for_the_cluster(two_brokers):
    first, second = two_brokers
    with Admin(second.bootstrap) as admin:
        cluster = admin.cluster.describe()
        assert sorted(broker.node_id for broker in cluster.brokers) == [1, 2]
        admin.topics.create(NewTopic("spread", partitions=4))
    with Admin(first.bootstrap) as admin:
        eventually(lambda: sorted(leaders(admin, "spread")), [1, 1, 2, 2])


@pytest.mark.parametrize("listener", ["INTERNAL", "CLIENTS"])
def test_a_listener_names_the_endpoints_of_its_own_name(two_brokers, listener):
    _, second = two_brokers
    with Admin(f"127.0.0.1:{second.ports[listener]}") as admin:
        found = {broker.node_id: broker.port for broker in admin.cluster.describe().brokers}
    assert found == {number: server.ports[listener] for number, server in enumerate(two_brokers, 1)}


def test_records_reach_partitions_on_both(two_brokers):
    _, second = two_brokers
    with Admin(second.bootstrap) as admin:
        admin.topics.create(NewTopic("both", partitions=2))
    with Producer(second.bootstrap) as producer:
        for partition in (0, 1):
            producer.send("both", b"to %d" % partition, partition=partition).result()
    with Consumer(second.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("both", 0), TopicPartition("both", 1)])
        values = set()
        while len(values) < 2:
            values |= {record.value for record in consumer.poll(timeout_ms=10_000)}
    assert values == {b"to 0", b"to 1"}


def test_the_other_broker_takes_over_the_controller(two_brokers):
    first, second = two_brokers
    first.kill()
    with Admin(second.bootstrap) as admin:
        # CreateTopics goes to the controller: it can only succeed once the second broker was elected.
        admin.topics.create(NewTopic("after", partitions=1))
        eventually(lambda: leaders(admin, "after"), [2])
        assert admin.cluster.describe().controller.node_id == 2


def test_a_topic_gets_more_partitions(two_brokers):
    first, second = two_brokers
    with Admin(second.bootstrap) as admin:
        admin.topics.create(NewTopic("grows", assignment={0: [2]}))
        admin.topics.create_partitions({"grows": 3})
        admin.topics.create_partitions({"grows": NewPartitions(4, [[1]])})
        eventually(lambda: leaders(admin, "grows"), [2, 1, 2, 1])
        with pytest.raises(KafkaError, match="Topic already has 4 partitions"):
            admin.topics.create_partitions({"grows": 4})
    with Admin(first.bootstrap) as admin:
        eventually(lambda: leaders(admin, "grows"), [2, 1, 2, 1])


def test_a_preferred_leader_is_elected_on_request(two_brokers):
    first, _ = two_brokers
    with Admin(first.bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [1, 2]}))
        tp = TopicPartition("t", 0)
        results = admin.partitions.try_elect_leaders([tp])
        assert results[tp].code is ErrorCode.ELECTION_NOT_NEEDED
        admin.partitions.elect_leaders()
        assert admin.partitions.try_elect_leaders() == {}
        with pytest.raises(KafkaError, match="The partition does not exist"):
            admin.partitions.elect_leaders([TopicPartition("nope", 0)], ElectionType.UNCLEAN)

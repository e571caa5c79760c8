"""Brokers whose log directories are all cordoned (KIP-1066) get nothing new; the words are those of a genuine
Kafka 4.4.0.
"""

import pytest

from barnabas.cluster.leadership import ReplicaAssignment
from barnabas.cluster.metadata.topics import NewTopic
from barnabas.cluster.store import znodes
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition

INCLUDES = "The manual partition assignment includes broker 1, but all its log directories are cordoned."
NONE_LEFT = (
    "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
    "directories cordoned."
)


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(0, 1, 2)


def cordon(cluster, *ids):
    for broker in cluster.brokers.values():
        broker.registration.cordon(all_directories=broker.id in ids)
    cluster.settle()


def create(cluster, *, by, **topic):
    return cluster.wait(cluster.brokers[by].topics.create(NewTopic("t", **topic)))


def refusal(pending, cluster):
    with pytest.raises(KafkaError) as refused:
        cluster.wait(pending)
    return refused.value.code, str(refused.value)


@pytest.mark.parametrize("by", [0, 2])
def test_nothing_is_placed_on_it_by_the_controller_or_another_broker(cluster, by):
    cordon(cluster, 1)
    placed = create(cluster, by=by, num_partitions=12, replication_factor=2).assignments

    assert {broker for replicas in placed.values() for broker in replicas} == {0, 2}


@pytest.mark.parametrize("by", [0, 2])
def test_an_assignment_that_names_it_is_refused(cluster, by):
    cordon(cluster, 1)
    topics = cluster.brokers[by].topics

    assert refusal(topics.create(NewTopic("t", assignments={0: (0, 1)})), cluster) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        INCLUDES,
    )
    create(cluster, by=by)
    cluster.settle()
    assert refusal(topics.create_partitions("t", 2, [[1]]), cluster) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        INCLUDES,
    )


def test_where_all_are_nothing_can_be_created(cluster):
    create(cluster, by=0)
    cluster.settle()
    cordon(cluster, 0, 1, 2)
    topics = cluster.controller.topics

    assert refusal(topics.create(NewTopic("u")), cluster) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        NONE_LEFT,
    )
    assert refusal(topics.create_partitions("t", 3, None), cluster) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        NONE_LEFT,
    )


def test_new_partitions_go_elsewhere(cluster):
    create(cluster, by=0, assignments={0: (1,)})
    cluster.settle()
    cordon(cluster, 1)
    cluster.wait(cluster.controller.topics.create_partitions("t", 7, None))

    data, _ = cluster.wait(cluster.controller.store.get(znodes.topic_path("t")))
    placed = znodes.decode_topic(data).partitions
    assert placed[0] == ReplicaAssignment((1,))
    assert {placed[number].replicas for number in range(1, 7)} == {(0,), (2,)}


def test_a_reassignment_to_it_is_refused_and_one_away_from_it_is_not(cluster):
    create(cluster, by=0, assignments={0: (0, 1)})
    cluster.settle()
    cordon(cluster, 1)

    def reassign(*target):
        wanted = {TopicPartition("t", 0): list(target)}
        return cluster.wait(cluster.controller.controller.alter_partition_reassignments(wanted))

    (error,) = reassign(1, 2).values()
    assert (error.code, str(error)) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, INCLUDES)
    assert list(reassign(0, 2).values()) == [None]


def test_what_is_no_longer_cordoned_gets_replicas_again_and_clients_hear_of_neither(cluster):
    for broker in cluster.brokers.values():
        broker.requests.clear()
    cordon(cluster, 0, 2)
    cordon(cluster)
    heard = [request for broker in cluster.brokers.values() for request in broker.requests]
    placed = create(cluster, by=0, num_partitions=6).assignments

    assert heard == []
    assert {broker for replicas in placed.values() for broker in replicas} == {0, 1, 2}


def test_a_broker_of_kafka_3_9_says_nothing_and_is_not_cordoned(cluster):
    plain = znodes.encode_broker(cluster.brokers[1].registration.broker, 0)

    assert b"cordoned" not in plain
    assert not znodes.decode_broker(1, plain).cordoned
    assert not znodes.decode_broker(1, plain.replace(b'"version":5', b'"version":5,"cordoned":1')).cordoned

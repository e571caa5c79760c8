"""FindCoordinator, and what makes a broker one: LeaderAndIsr, StopReplica, UpdateMetadata."""

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.network.peer import ListenerId, Peer
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState

ME, OTHER = 1, 2
GROUP, TRANSACTION, SHARE = 0, 1, 2


def find(world, *keys, key_type=GROUP, version=4):
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    return world.send(request, version).coordinators


def find_one(world, key, *, key_type=GROUP, version=3):
    return world.send(FindCoordinatorRequest(key=key, key_type=key_type), version)


@pytest.fixture
def coordinating(world):
    """It leads all partitions of groups and transactional ids."""
    world.create(GROUP_METADATA_TOPIC, 50)
    world.create(TRANSACTION_STATE_TOPIC, 50)
    return world


# --- where it is


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_one_key(coordinating, version):
    found = find_one(coordinating, "consume_group", version=version)

    assert (found.error_code, found.node_id, found.host, found.port) == (0, ME, "127.0.0.1", 9091)


def test_success_says_none_from_v1_to_v3(coordinating):
    assert [find_one(coordinating, "g", version=version).error_message for version in (1, 2, 3)] == [
        "NONE"
    ] * 3


@pytest.mark.parametrize("version", [4, 5, 6])
def test_several_keys_in_order_twice_if_asked_twice(coordinating, version):
    found = find(coordinating, "b", "", "a", "b", version=version)

    assert [each.key for each in found] == ["b", "", "a", "b"]
    assert {(each.error_code, each.node_id, each.port) for each in found} == {(0, ME, 9091)}
    assert {each.error_message for each in found} == {""}


def test_no_keys_no_answers(coordinating):
    assert find(coordinating) == []
    assert find(coordinating, key_type=9) == []


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_transactional_ids(coordinating, version):
    if version < 4:
        found = find_one(coordinating, "t", key_type=TRANSACTION, version=version)
    else:
        (found,) = find(coordinating, "t", key_type=TRANSACTION, version=version)

    assert (found.error_code, found.node_id) == (0, ME)


def test_the_leader_of_the_partition_that_the_hash_says(world):
    """consume_group belongs to partition 34 of 50; only that one is led elsewhere."""
    world.create(GROUP_METADATA_TOPIC, 50)
    lead(world, 34, leader=OTHER)

    assert find(world, "consume_group")[0].node_id == OTHER
    assert find(world, "polygenelubricants")[0].node_id == ME


def test_a_topic_that_has_grown_leaves_each_id_where_its_coordinator_looks_for_it(world):
    """The id "t" belongs to partition 16 of 50; of 60 it would be 56."""
    world.create(TRANSACTION_STATE_TOPIC, 50)
    added = [
        UpdateMetadataPartitionState(
            partition_index=index,
            controller_epoch=1,
            leader=OTHER,
            leader_epoch=1,
            isr=[OTHER],
            replicas=[OTHER],
        )
        for index in range(50, 60)
    ]
    world.update_metadata({TRANSACTION_STATE_TOPIC: added})

    assert find(world, "t", key_type=TRANSACTION)[0].node_id == ME


def lead(world, partition, *, leader, epoch=1):
    """As the controller says it to everybody."""
    state = LeaderAndIsrPartitionState(
        partition_index=partition,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=[leader],
        partition_epoch=epoch,
        replicas=[ME, OTHER],
    )
    topic = LeaderAndIsrTopicState(topic_name=GROUP_METADATA_TOPIC, partition_states=[state])
    world.send(
        LeaderAndIsrRequest(controller_id=ME, controller_epoch=1, broker_epoch=7, topic_states=[topic]), 7
    )
    world.update_metadata(
        {
            GROUP_METADATA_TOPIC: [
                UpdateMetadataPartitionState(
                    partition_index=partition,
                    controller_epoch=1,
                    leader=leader,
                    leader_epoch=epoch,
                    isr=[leader],
                    replicas=[ME, OTHER],
                )
            ]
        }
    )


def test_a_leader_that_is_dead_or_has_no_such_listener(coordinating):
    coordinating.peer = Peer(ListenerId("INTERNAL", "PLAINTEXT"), ("127.0.0.1", 50000), coordinating.control)
    assert find(coordinating, "g")[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_dead_leader(coordinating):
    coordinating.update_metadata({}, brokers=(OTHER,))

    found = find_one(coordinating, "g")
    assert (found.error_code, found.node_id, found.host, found.port) == (15, -1, "", -1)
    assert found.error_message == "The coordinator is not available."


# --- topics that are not there yet


@pytest.mark.parametrize(
    ("key_type", "topic"), [(GROUP, GROUP_METADATA_TOPIC), (TRANSACTION, TRANSACTION_STATE_TOPIC)]
)
def test_the_topic_is_made_by_the_first_who_asks(make_world, key_type, topic):
    world = make_world(
        offsets_topic_replication_factor="1",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        auto_create_topics_enable="false",
    )

    first = find(world, "g", "h", key_type=key_type)
    world.clock.advance(0)
    then = find(world, "g", key_type=key_type)

    assert [each.error_code for each in first] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert (then[0].error_code, then[0].node_id) == (0, ME)
    assert world.topics.own[topic]["cleanup.policy"] == "compact"
    assert len(world.cache.partitions(topic)) == 50


def test_the_topic_of_groups_is_made_as_configured(make_world):
    world = make_world(
        offsets_topic_num_partitions="7",
        offsets_topic_replication_factor="1",
        offsets_topic_segment_bytes="1048576",
    )

    find(world, "g")
    world.clock.advance(0)

    assert len(world.cache.partitions(GROUP_METADATA_TOPIC)) == 7
    assert world.topics.own[GROUP_METADATA_TOPIC] == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "1048576",
    }


def test_too_few_brokers_for_the_topic(make_world):
    world = make_world(offsets_topic_replication_factor="3")

    for _ in range(2):
        assert find(world, "g")[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        world.clock.advance(0)

    assert GROUP_METADATA_TOPIC not in world.topics.own


# --- who may ask what


class Denies:
    """Denies what it is told to; notes what it was asked."""

    def __init__(self, *denied):
        self.denied = denied
        self.asked = []

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        self.asked.append((operation, resource, name))
        return (resource, name) not in self.denied

    def authorize_any(self, request, operation, resource):
        return True


def test_each_key_is_authorized_by_itself(make_world):
    authorizer = Denies((Resource.GROUP, "secret"))
    world = make_world(authorizer=authorizer)
    world.create(GROUP_METADATA_TOPIC, 50)
    authorizer.asked.clear()

    found = find(world, "open", "secret")

    assert [each.error_code for each in found] == [0, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert (found[1].node_id, found[1].host, found[1].port, found[1].error_message) == (-1, "", -1, "")
    assert authorizer.asked == [
        (Operation.DESCRIBE, Resource.GROUP, "open"),
        (Operation.DESCRIBE, Resource.GROUP, "secret"),
    ]


def test_denied_before_v4(make_world):
    world = make_world(authorizer=Denies((Resource.GROUP, "secret"), (Resource.TRANSACTIONAL_ID, "secret")))

    group = find_one(world, "secret")
    transaction = find_one(world, "secret", key_type=TRANSACTION)

    assert (group.error_code, group.error_message) == (30, "Group authorization failed.")
    assert (transaction.error_code, transaction.error_message) == (
        53,
        "Transactional Id authorization failed.",
    )


@pytest.mark.parametrize(("version", "code"), [(4, 42), (5, 42), (6, 15)])
def test_share_groups(coordinating, version, code):
    (found,) = find(coordinating, "s", key_type=SHARE, version=version)

    assert (found.error_code, found.error_message) == (code, "")


def test_share_groups_are_for_brokers(make_world):
    world = make_world(authorizer=Denies((Resource.CLUSTER, "kafka-cluster")))
    world.services.authorizer = Denies((Resource.CLUSTER, "kafka-cluster"))

    assert find(world, "s", key_type=SHARE, version=6)[0].error_code == 31


def test_an_unknown_type_refuses_every_key_with_a_message(coordinating):
    found = find(coordinating, "a", "b", key_type=9)

    assert [each.error_code for each in found] == [42, 42]
    assert {each.error_message for each in found} == {ErrorCode.INVALID_REQUEST.message}
    assert find_one(coordinating, "a", key_type=9).error_code == 42


# --- what makes a coordinator


def served(world, group="consume_group"):
    from barnabas.core.errors import KafkaError

    try:
        world.services.group_coordinator.committed_partitions(group)
    except KafkaError as refusal:
        return refusal.code
    return ErrorCode.NONE


def stop(world, partition, *, delete, epoch=-1):
    state = StopReplicaPartitionState(partition_index=partition, leader_epoch=epoch, delete_partition=delete)
    topic = StopReplicaTopicState(topic_name=GROUP_METADATA_TOPIC, partition_states=[state])
    return world.send(
        StopReplicaRequest(controller_id=ME, controller_epoch=1, broker_epoch=7, topic_states=[topic]), 4
    )


def test_leading_a_partition_makes_a_coordinator_of_its_groups(world):
    assert served(world) is ErrorCode.NOT_COORDINATOR

    world.create(GROUP_METADATA_TOPIC, 50)
    assert served(world) is ErrorCode.NONE

    lead(world, 34, leader=OTHER)
    assert served(world) is ErrorCode.NOT_COORDINATOR
    assert served(world, "polygenelubricants") is ErrorCode.NONE

    lead(world, 34, leader=ME, epoch=2)
    assert served(world) is ErrorCode.NONE


def test_a_deleted_replica_coordinates_nothing(coordinating):
    stop(coordinating, 34, delete=False)
    assert served(coordinating) is ErrorCode.NONE

    stop(coordinating, 34, delete=True)
    assert served(coordinating) is ErrorCode.NOT_COORDINATOR


def test_other_topics_make_no_coordinator(world):
    world.create("orders", 50)

    assert served(world) is ErrorCode.NOT_COORDINATOR


def test_the_coordinator_hears_of_deleted_topics(coordinating, monkeypatch):
    heard = []
    coordinator = coordinating.services.group_coordinator
    monkeypatch.setattr(coordinator, "partitions_deleted", lambda tps: heard.append(list(tps)))
    coordinating.create("orders", 2)
    assert heard == []

    coordinating.delete("orders")

    assert [sorted(each.partition for each in tps) for tps in heard] == [[0, 1]]

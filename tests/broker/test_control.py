"""What the controller says to a broker: epochs, roles, deletion; and what brokers ask the controller."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState
from barnabas.replica.partition import Role

TP = TopicPartition("orders", 0)
ONE, TWO = b"\1" * 16, b"\2" * 16


def lisr(world, *, version=7, controller_epoch=1, broker_epoch=7, topic_id=ONE, **state):
    entry = {"partition_index": 0, "leader": 1, "leader_epoch": 0, "isr": [1], "replicas": [1], **state}
    partition = LeaderAndIsrPartitionState(**entry)
    grouped = {
        "topic_states": [
            LeaderAndIsrTopicState(topic_name="orders", topic_id=topic_id, partition_states=[partition])
        ]
    }
    if version < 2:
        partition.topic_name = "orders"
        grouped = {"ungrouped_partition_states": [partition]}
    request = LeaderAndIsrRequest(
        controller_id=1, controller_epoch=controller_epoch, broker_epoch=broker_epoch, **grouped
    )
    response = world.send(request, version)
    if response.error_code:
        return ErrorCode.of(response.error_code).name
    if version < 5:
        [found] = response.partition_errors
        assert found.topic_name == "orders"
    else:
        [topic] = response.topics
        assert topic.topic_id == topic_id
        [found] = topic.partition_errors
    return ErrorCode.of(found.error_code).name


@pytest.mark.parametrize("version", range(8))
def test_leader_and_isr(world, version):
    assert lisr(world, version=version) == "NONE"
    assert world.partition().role is Role.LEADER
    assert world.logs.get(TP) is not None
    assert world.logs.get(TP).topic_id == (ONE if version >= 5 else None)


def test_orders_of_a_controller_of_the_past_are_refused(world):
    lisr(world, controller_epoch=3)

    assert lisr(world, controller_epoch=2, leader_epoch=9) == "STALE_CONTROLLER_EPOCH"
    stop = StopReplicaRequest(controller_id=1, controller_epoch=2, broker_epoch=7)
    assert world.send(stop, 4).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.update_metadata({}, epoch=2).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.update_metadata({}, epoch=3).error_code == 0


def test_orders_for_an_earlier_life_of_this_broker_are_refused(world):
    assert lisr(world, broker_epoch=6) == "STALE_BROKER_EPOCH"
    assert world.partition() is None
    assert world.update_metadata({}, broker_epoch=6).error_code == ErrorCode.STALE_BROKER_EPOCH
    stop = StopReplicaRequest(controller_id=1, controller_epoch=1, broker_epoch=6)
    assert world.send(stop, 4).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert lisr(world, broker_epoch=8) == "NONE", "ahead of ours: the controller heard of it first"
    assert lisr(world, broker_epoch=-1, leader_epoch=1) == "NONE", "old versions carry none"


def test_leader_epochs_only_grow(world):
    assert lisr(world, leader_epoch=5) == "NONE"
    assert lisr(world, leader_epoch=5) == "STALE_CONTROLLER_EPOCH"
    assert lisr(world, leader_epoch=4) == "STALE_CONTROLLER_EPOCH"
    assert lisr(world, leader_epoch=6) == "NONE"
    assert world.partition().leader_epoch == 6


def test_a_topic_id_may_come_later_but_never_change(world):
    assert lisr(world, version=4) == "NONE"
    assert lisr(world, topic_id=ONE) == "NONE", "brings the id without a new epoch"
    assert world.logs.get(TP).topic_id == ONE
    assert lisr(world, topic_id=ONE) == "STALE_CONTROLLER_EPOCH"
    assert lisr(world, topic_id=TWO, leader_epoch=1) == "INCONSISTENT_TOPIC_ID"


def test_not_a_replica(world):
    assert lisr(world, leader=2, replicas=[2], isr=[2]) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_follower_fetches_from_its_leader(world):
    lisr(world, leader=2, replicas=[1, 2], isr=[1, 2])
    assert world.fetchers.fetching == {TP: (2, 0)}
    assert world.partition().role is Role.FOLLOWER
    lisr(world, leader=1, replicas=[1, 2], isr=[1, 2], leader_epoch=1, partition_epoch=1)
    assert world.fetchers.fetching == {}
    assert world.partition().role is Role.LEADER


def test_a_follower_of_an_unknown_broker_only_has_a_log(world):
    assert lisr(world, leader=9, replicas=[1, 9], isr=[9]) == "NONE"
    assert world.fetchers.fetching == {}
    assert world.logs.get(TP) is not None


def test_a_bad_disk_is_told_per_partition(world):
    world.disk.fail("/data", "name")

    assert lisr(world, is_new=True) == "KAFKA_STORAGE_ERROR"
    assert lisr(world, is_new=True, leader_epoch=1) == "KAFKA_STORAGE_ERROR"


def stop(world, *, version=4, delete=True, leader_epoch=-2, partition=0, topic="orders"):
    request = StopReplicaRequest(controller_id=1, controller_epoch=1, broker_epoch=7)
    if version >= 3:
        state = StopReplicaPartitionState(
            partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete
        )
        request.topic_states = [StopReplicaTopicState(topic_name=topic, partition_states=[state])]
    else:
        request.delete_partitions = delete
        if version:
            request.topics = [StopReplicaTopicV1(name=topic, partition_indexes=[partition])]
        else:
            request.ungrouped_partitions = [
                StopReplicaPartitionV0(topic_name=topic, partition_index=partition)
            ]
    [found] = world.send(request, version).partition_errors
    assert (found.topic_name, found.partition_index) == (topic, partition)
    return ErrorCode.of(found.error_code).name


@pytest.mark.parametrize("version", range(5))
def test_stop_replica_deletes(world, version):
    world.create()
    world.produce()

    assert stop(world, version=version) == "NONE"
    assert world.partition() is None
    assert world.logs.get(TP) is None


@pytest.mark.parametrize("disk_fails", [False, True])
def test_a_deletion_is_answered_when_it_is_durable(make_world, disk_fails):
    waiting = []

    class Syncer:
        def sync(self, files):
            waiting.append((Pending(), files))
            return waiting[-1][0]

    world = make_world(syncer=Syncer())
    world.create("orders", 3)
    states = [StopReplicaPartitionState(partition_index=i, delete_partition=True) for i in range(3)]
    topics = [StopReplicaTopicState(topic_name="orders", partition_states=states)]
    request = StopReplicaRequest(controller_id=1, controller_epoch=1, broker_epoch=7, topic_states=topics)
    answer = world.start(request, 4)
    world.clock.advance(0)
    [(synced, [names])] = waiting

    assert answer() is None
    if disk_fails:
        synced.fail(OSError(5, "Input/output error"))
    else:
        names.sync()
        synced.complete(None)
    codes = {ErrorCode.of(each.error_code) for each in answer().partition_errors}
    assert codes == {ErrorCode.KAFKA_STORAGE_ERROR if disk_fails else ErrorCode.NONE}
    assert (world.logs.offline_directories == ["/data"]) is disk_fails


def test_stop_replica_without_deletion_keeps_the_log(world):
    world.create(leader=2, isr=(2, 1))
    assert stop(world, delete=False) == "NONE"
    assert world.logs.get(TP) is not None
    assert world.fetchers.fetching == {}


def test_stop_replica_is_fenced_by_the_leader_epoch(world):
    world.create(epoch=5)
    assert stop(world, leader_epoch=4) == "FENCED_LEADER_EPOCH"
    assert stop(world, leader_epoch=-1, delete=False) == "NONE"
    assert stop(world, leader_epoch=5) == "NONE"
    assert stop(world, leader_epoch=5) == "NONE", "what is not here any more is deleted again"


def test_a_fenced_stop_replica_resigns_no_coordinator(world, monkeypatch):
    from barnabas.core.ids import GROUP_METADATA_TOPIC

    world.create(GROUP_METADATA_TOPIC, epoch=5)
    resigned = []
    monkeypatch.setattr(world.coordinator, "resigned", lambda *told: resigned.append(told))

    assert stop(world, topic=GROUP_METADATA_TOPIC, leader_epoch=4) == "FENCED_LEADER_EPOCH"
    assert resigned == []
    assert stop(world, topic=GROUP_METADATA_TOPIC, leader_epoch=5, delete=False) == "NONE"
    assert resigned == [], "what is only stopped may be led again"
    assert stop(world, topic=GROUP_METADATA_TOPIC, leader_epoch=5) == "NONE"
    assert resigned == [(0, 5)]


def test_a_deleted_topic_releases_those_who_wait(world):
    world.create()
    from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    topic = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=100)])
    waiting = world.start(FetchRequest(max_wait_ms=5000, min_bytes=1, topics=[topic]), 9)
    assert waiting() is None
    world.update_metadata({"orders": [UpdateMetadataPartitionState(partition_index=0, leader=-2)]})
    stop(world)

    [data] = waiting().responses[0].partitions
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_controlled_shutdown(world):
    world.controller.remaining = [TopicPartition("orders", 3)]
    response = world.send(ControlledShutdownRequest(broker_id=2, broker_epoch=5), 3)

    [left] = response.remaining_partitions
    assert (left.topic_name, left.partition_index) == ("orders", 3)
    assert world.send(ControlledShutdownRequest(broker_id=2), 0).error_code == 0


def test_the_controllers_answers_come_from_the_controller_only(world):
    assert world.send(AllocateProducerIdsRequest(broker_id=2, broker_epoch=5), 0).producer_id_start == 5000
    assert world.send(AlterPartitionRequest(broker_id=2), 3).error_code == ErrorCode.STALE_BROKER_EPOCH
    world.controller.is_active = False
    for request, version in (
        (AllocateProducerIdsRequest(broker_id=2), 0),
        (AlterPartitionRequest(broker_id=2), 3),
    ):
        assert world.send(request, version).error_code == ErrorCode.NOT_CONTROLLER


def test_high_watermarks_are_checkpointed_from_the_first_leader_and_isr_on(world):
    world.clock.advance(6000)
    assert not world.disk.exists("/data/replication-offset-checkpoint")
    world.create()
    world.produce()
    world.clock.advance(5000)

    assert world.disk.read("/data/replication-offset-checkpoint") == b"0\n1\norders 0 1\n"
    world.produce()
    world.replicas.shutdown()
    assert world.disk.read("/data/replication-offset-checkpoint") == b"0\n1\norders 0 2\n"


def test_a_partition_whose_log_finds_no_descriptor_is_served_as_soon_as_there_is_one(world):
    """It counted as a broken disk: the directory went offline, and the broker ended."""
    world.disk.descriptors = 0
    assert lisr(world, is_new=True) == "REPLICA_NOT_AVAILABLE"
    world.clock.advance(1000)
    assert (len(world.logs.logs), world.logs.offline_directories) == (0, [])
    world.disk.descriptors = None
    world.clock.advance(1000)

    assert world.partition().role is Role.LEADER
    assert world.logs.get(TP) is not None


@pytest.mark.parametrize("order", ["delete", "follow"])
def test_a_newer_order_replaces_a_role_that_waits_for_a_descriptor(world, order):
    world.disk.descriptors = 0
    assert lisr(world, is_new=True, replicas=[1, 2], isr=[1, 2]) == "REPLICA_NOT_AVAILABLE"
    if order == "delete":
        assert stop(world) == "NONE"
        world.disk.descriptors = None
    else:
        world.disk.descriptors = None
        assert lisr(world, leader=2, replicas=[1, 2], isr=[1, 2], leader_epoch=1, partition_epoch=1) == "NONE"
    world.clock.advance(5000)

    if order == "delete":
        assert len(world.logs.logs) == 0
    else:
        assert world.partition().role is Role.FOLLOWER

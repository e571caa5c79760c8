"""Partitions move to other brokers:
by request and by znode, to the end, back, and over to another controller.
"""

import pytest
from brokers_fake import ask

from barnabas.cluster.leadership import ReplicaAssignment
from barnabas.cluster.metadata.registration import propagate_log_dir_event
from barnabas.cluster.store import znodes
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.stop_replica import StopReplicaRequest

T0 = TopicPartition("t", 0)


@pytest.fixture
def five(make_cluster):
    """Five brokers, and a partition on three of them."""
    cluster = make_cluster(0, 1, 2, 3, 4)
    cluster.create("t", {0: [0, 1, 2]})
    for broker in cluster.brokers.values():
        broker.requests.clear()
    return cluster


def reassign(cluster, *target, tp=T0, **options):
    """The error of the partition; without a target a reassignment ends."""
    wanted = {tp: list(target) or None}
    results = cluster.wait(cluster.controller.controller.alter_partition_reassignments(wanted, **options))
    cluster.settle()
    return results[tp]


def moving(cluster, partitions=None):
    return cluster.wait(cluster.controller.controller.list_partition_reassignments(partitions))


def assignment(cluster, tp=T0):
    data, _ = cluster.wait(cluster.controller.store.get(znodes.topic_path(tp.topic)))
    return znodes.decode_topic(data).partitions[tp.partition]


def catch_up(cluster, *isr, tp=T0):
    """The leader proposes an ISR."""
    state = cluster.state(tp.topic, tp.partition)
    broker = cluster.brokers[state.leader]
    partition = AlterPartitionRequestPartitionData(
        partition_index=tp.partition,
        leader_epoch=state.leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
        partition_epoch=state.partition_epoch,
    )
    data, _ = cluster.wait(broker.store.get(znodes.topic_path(tp.topic)))
    topic_id = znodes.decode_topic(data).topic_id
    topic = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[partition])
    request = AlterPartitionRequest(
        broker_id=state.leader, broker_epoch=broker.registration.broker_epoch, topics=[topic]
    )
    answer = cluster.wait(ask(cluster.controller.controller, request, 3))
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
    cluster.settle()


def leader_and_isr(broker):
    """What it was told last of the partition."""
    states = [
        state
        for request in broker.sent(LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return states[-1]


def test_a_move_goes_through_its_phases(five):
    assert reassign(five, 3, 4) is None

    on_the_way = ReplicaAssignment((3, 4, 0, 1, 2), adding=(3, 4), removing=(0, 1, 2))
    assert assignment(five) == on_the_way
    assert moving(five) == {T0: on_the_way}
    assert (five.state("t").leader, five.state("t").isr, five.state("t").leader_epoch) == (0, (0, 1, 2), 1)
    told = {broker.id: leader_and_isr(broker) for broker in five.brokers.values()}
    assert {broker_id: state.is_new for broker_id, state in told.items()} == {
        0: False,
        1: False,
        2: False,
        3: True,
        4: True,
    }
    for state in told.values():
        assert (state.leader, state.leader_epoch, state.replicas) == (0, 1, [3, 4, 0, 1, 2])
        assert (state.adding_replicas, state.removing_replicas) == ([3, 4], [0, 1, 2])
    catch_up(five, 0, 1, 2, 3)
    assert assignment(five) == on_the_way, "one of them is not in sync"
    catch_up(five, 0, 1, 2, 3, 4)

    assert assignment(five) == ReplicaAssignment((3, 4))
    assert moving(five) == {}
    state = five.state("t")
    assert (state.leader, state.isr) == (3, (3, 4))
    assert sorted(each.id for each in five.brokers.values() if T0 in each.deleted) == [0, 1, 2]
    assert leader_and_isr(five.brokers[3]).replicas == [3, 4]
    assert five.brokers[3].led[T0].leader_epoch == state.leader_epoch
    for broker in five.brokers.values():
        assert broker.cache.partition(T0).replicas == (3, 4)
        assert broker.cache.partition(T0).leader == 3


def test_a_leader_that_stays_keeps_its_office_in_another_epoch(five):
    reassign(five, 0, 3)
    before = five.state("t").leader_epoch
    catch_up(five, 0, 1, 2, 3)

    state = five.state("t")
    assert (state.leader, state.isr) == (0, (0, 3))
    assert state.leader_epoch > before
    assert assignment(five) == ReplicaAssignment((0, 3))


def test_another_order_of_the_same_replicas_is_done_at_once(five):
    assert reassign(five, 2, 1, 0) is None

    assert assignment(five) == ReplicaAssignment((2, 1, 0))
    for broker in five.brokers.values():
        assert broker.cache.partition(T0).replicas == (2, 1, 0)
    assert five.state("t").leader == 0, "the preferred leader is elected by other means"
    assert moving(five) == {}


def test_fewer_replicas_are_done_at_once(five):
    reassign(five, 1)

    assert assignment(five) == ReplicaAssignment((1,))
    assert (five.state("t").leader, five.state("t").isr) == (1, (1,))
    assert sorted(each.id for each in five.brokers.values() if T0 in each.deleted) == [0, 2]


def test_a_move_is_cancelled(five):
    reassign(five, 3, 4)
    five.brokers[3].deleted.clear()
    assert reassign(five) is None

    assert assignment(five) == ReplicaAssignment((0, 1, 2))
    assert sorted(each.id for each in five.brokers.values() if T0 in each.deleted) == [3, 4]
    assert (five.state("t").leader, five.state("t").isr) == (0, (0, 1, 2))
    assert moving(five) == {}
    assert reassign(five).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_that_only_adds_replicas_is_cancelled_though_one_is_in_sync(five):
    """The tool of 3.9 overlooks such a move; the API does not."""
    reassign(five, 0, 1, 2, 3, 4)
    catch_up(five, 0, 1, 2, 3)
    for broker in five.brokers.values():
        broker.requests.clear()

    assert reassign(five) is None

    assert assignment(five) == ReplicaAssignment((0, 1, 2))
    assert (five.state("t").leader, five.state("t").isr) == (0, (0, 1, 2))
    assert sorted(each.id for each in five.brokers.values() if T0 in each.deleted) == [3, 4]
    assert leader_and_isr(five.brokers[0]).replicas == [0, 1, 2]
    assert moving(five) == {}
    for broker in five.brokers.values():
        assert broker.cache.partition(T0).replicas == (0, 1, 2)


@pytest.mark.parametrize("target", [(), (0, 1)], ids=["cancelled", "replaced"])
def test_what_would_delete_the_only_replica_in_sync_is_refused(five, target):
    assert reassign(five, 3) is None
    catch_up(five, 0, 1, 2, 3)
    # The move is over then; the next one is given up where only the replica that it adds is in sync.
    assert reassign(five, 4, 2) is None
    catch_up(five, 3, 4)
    five.brokers[3].stop()
    assert five.state("t").isr == (4,)

    refused = reassign(five, *target)

    assert refused is not None
    assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "would require an unclean leader election" in str(refused)
    assert five.state("t").isr == (4,)
    assert T0 in moving(five)
    assert T0 not in five.brokers[4].deleted


def test_a_move_takes_the_place_of_another(five):
    reassign(five, 3, 4)
    reassign(five, 4, 1)

    assert assignment(five) == ReplicaAssignment((4, 1, 0, 2), adding=(4,), removing=(0, 2))
    assert [each.id for each in five.brokers.values() if T0 in each.deleted] == [3]
    catch_up(five, 0, 1, 2, 4)
    assert assignment(five) == ReplicaAssignment((4, 1))
    assert set(five.state("t").isr) == {4, 1}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([1, 1], "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(1, 1)"),
        ([1, -2], "Invalid broker id in replica list: ArrayBuffer(1, -2)"),
        (
            [1, 9, 3],
            (
                "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(9, 3), "
                "live broker list: Set(0, 1, 2, 3, 4)"
            ),
        ),
    ],
)
def test_targets_that_are_refused(five, target, message):
    error = reassign(five, *target)

    assert (error.code, error.message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    assert assignment(five) == ReplicaAssignment((0, 1, 2))


def test_a_hundred_thousand_targets_are_refused_without_quadratic_work(five):
    """Which would hold the broker up for minutes."""
    error = reassign(five, *range(10, 100_010))

    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert assignment(five) == ReplicaAssignment((0, 1, 2))


def test_a_dead_broker_that_has_the_partition_may_keep_it(five):
    five.brokers[2].stop()
    assert reassign(five, 0, 2, 3) is None
    catch_up(five, 0, 1, 3)
    five.brokers[2].start()
    catch_up(five, 0, 1, 2, 3)

    assert assignment(five) == ReplicaAssignment((0, 2, 3))


def test_an_empty_target_and_partitions_that_are_not_there(five):
    nowhere = TopicPartition("nowhere", 0)
    wanted = {T0: [], nowhere: [1], TopicPartition("t", 7): None}
    results = five.wait(five.controller.controller.alter_partition_reassignments(wanted))

    assert {tp: (error.code.name, error.message) for tp, error in results.items()} == {
        T0: ("INVALID_REPLICA_ASSIGNMENT", "Empty replica list specified in partition reassignment."),
        nowhere: ("UNKNOWN_TOPIC_OR_PARTITION", "The partition does not exist."),
        TopicPartition("t", 7): (
            "NO_REASSIGNMENT_IN_PROGRESS",
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS.message,
        ),
    }
    assert moving(five, [T0, nowhere]) == {}


def test_a_move_may_be_held_to_as_many_replicas_as_there_are(five):
    same = {"allow_replication_factor_change": False}
    wrong = reassign(five, 0, 1, **same)
    assert (wrong.code.name, wrong.message) == (
        "INVALID_REPLICATION_FACTOR",
        "The replication factor is changed from 3 to 2",
    )
    assert reassign(five, 0, 1, 2, 3, **same).message == "The replication factor is changed from 3 to 4"
    assert moving(five) == {}

    assert reassign(five, 0, 1, 3, **same) is None
    # On its way it has four; what it is to become counts.
    assert reassign(five, 0, 1, 3, 4, **same).message == "The replication factor is changed from 3 to 4"
    assert reassign(five, 0, 1, 4, **same) is None
    assert reassign(five, **same) is None, "the way back is never refused"
    nowhere = reassign(five, 1, 2, tp=TopicPartition("nowhere", 0), **same)
    assert nowhere.code.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_standby_refuses(five):
    with pytest.raises(KafkaError) as caught:
        five.wait(five.brokers[4].controller.alter_partition_reassignments({T0: [3]}))
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


def test_another_controller_carries_a_move_on(five):
    reassign(five, 3, 4)
    five.brokers[0].stop()
    controller = five.controller
    assert controller.controller.epoch == 2
    assert moving(five) == {T0: ReplicaAssignment((3, 4, 0, 1, 2), (3, 4), (0, 1, 2))}
    catch_up(five, 1, 2, 3, 4)

    assert assignment(five) == ReplicaAssignment((3, 4))
    assert five.state("t").isr == (3, 4)


def test_a_move_that_is_complete_in_the_store_ends_at_fail_over(five):
    reassign(five, 3, 4)
    controller = five.controller
    five.delivers = False
    state = five.state("t")
    payload = znodes.decode_json(five.ensemble.table.find(znodes.partition_state_path(T0)).data)
    payload["isr"] = [0, 1, 2, 3, 4]
    five.wait(controller.store.set(znodes.partition_state_path(T0), znodes.encode_json(payload)))
    five.delivers = True
    assert state.isr == (0, 1, 2)
    controller.stop()

    assert assignment(five) == ReplicaAssignment((3, 4))
    assert five.state("t").leader == 3


def test_a_move_to_a_broker_that_went_goes_on_when_it_is_back(five):
    reassign(five, 3, 4)
    five.brokers[4].stop()
    catch_up(five, 0, 1, 2, 3)
    five.brokers[4].start()

    told = leader_and_isr(five.brokers[4])
    assert (told.leader, told.leader_epoch) == (0, five.state("t").leader_epoch)
    assert told.is_new
    catch_up(five, 0, 1, 2, 3, 4)
    assert assignment(five) == ReplicaAssignment((3, 4))


def test_partitions_that_are_added_meanwhile_stay(five):
    store = five.brokers[4].store
    data, stat = five.wait(store.get(znodes.topic_path("t")))
    topic = znodes.decode_topic(data)
    topic.partitions[1] = ReplicaAssignment((1, 2))
    # Written, but the controller has not heard of it when it writes the assignment itself.
    store.set(znodes.topic_path("t"), znodes.encode_topic(topic), stat.version)
    reassign(five, 3, 0)
    catch_up(five, 0, 1, 2, 3)

    added = TopicPartition("t", 1)
    assert assignment(five, added) == ReplicaAssignment((1, 2))
    assert added in five.brokers[1].led
    assert assignment(five) == ReplicaAssignment((3, 0))


def test_a_topic_on_the_move_is_deleted(five):
    reassign(five, 3, 4)
    five.delete("t")
    catch_up_needed = "t" in five.brokers[0].cache

    assert not catch_up_needed
    assert not any(path.endswith("/t") for path in five.paths("/brokers/topics"))
    assert moving(five) == {}
    five.create("t", {0: [0, 1]})
    assert assignment(five) == ReplicaAssignment((0, 1))


def mark_for_deletion(cluster, topic, *, then_stop):
    """Marks a topic while the controller is deaf, and has another one find the mark."""
    then_stop.controller._queue.close()
    cluster.wait(cluster.brokers[4].store.create(znodes.delete_topic_path(topic)))
    then_stop.stop()


def test_a_successor_deletes_a_topic_when_its_move_is_over(five):
    """What a deletion waits for may be a move; a move of a topic that goes is not driven on."""
    five.create("u", {0: [1, 2]})
    u0 = TopicPartition("u", 0)
    reassign(five, 3, 4, tp=u0)
    before = five.state("u").leader_epoch
    mark_for_deletion(five, "u", then_stop=five.brokers[0])

    assert five.state("u").leader_epoch == before
    assert moving(five) == {u0: ReplicaAssignment((3, 4, 1, 2), (3, 4), (1, 2))}
    catch_up(five, 1, 2, 3, 4, tp=u0)

    assert moving(five) == {}
    assert not [path for path in five.paths("/") if path.endswith("/u")]
    assert all(u0 in five.brokers[each].deleted for each in (1, 2, 3, 4))


def test_a_replica_that_a_move_brought_is_like_any_other(five):
    """Its broker is asked what is left when it lost a log directory."""
    reassign(five, 3, 4)
    catch_up(five, 0, 1, 2, 3, 4)
    five.brokers[4].failing_dirs.add(T0)
    five.wait(propagate_log_dir_event(five.brokers[4].store, 4))
    five.settle()

    assert five.state("t").isr == (3,)
    assert five.brokers[0].cache.partition(T0).offline_replicas == (4,)


def test_a_leader_that_shuts_down_does_not_begin_another_epoch(five):
    five.create("u", {0: [1, 2]})
    u0 = TopicPartition("u", 0)
    catch_up(five, 1, tp=u0)
    before = five.state("u")
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    five.wait(ask(five.controller.controller, request))
    five.settle()
    assert reassign(five, 1, tp=u0) is None

    assert assignment(five, u0) == ReplicaAssignment((1,))
    assert (five.state("u").leader, five.state("u").isr) == (1, (1,))
    assert five.state("u").leader_epoch == before.leader_epoch


def test_leaders_are_not_rebalanced_while_a_partition_moves(five):
    five.create("u", {0: [4, 1]})
    five.brokers[4].stop()
    five.brokers[4].start()
    catch_up(five, 1, 4, tp=TopicPartition("u", 0))
    reassign(five, 3)
    five.clock.advance(400_000)
    assert five.state("u").leader == 1
    catch_up(five, 0, 1, 2, 3)
    five.clock.advance(400_000)

    assert five.state("u").leader == 4


# --------------------------------------------------------------------------------------- the znode


def write_znode(cluster, payload):
    path = znodes.REASSIGN_PARTITIONS
    cluster.wait(cluster.brokers[4].store.create(path, payload))
    cluster.settle()


def test_a_move_by_znode(five):
    write_znode(five, znodes.encode_reassignment({T0: (3, 4)}))
    assert moving(five) == {T0: ReplicaAssignment((3, 4, 0, 1, 2), (3, 4), (0, 1, 2))}
    catch_up(five, 0, 1, 2, 3, 4)

    assert assignment(five) == ReplicaAssignment((3, 4))
    assert znodes.REASSIGN_PARTITIONS not in five.paths()
    write_znode(five, znodes.encode_reassignment({T0: (4, 3)}))
    assert assignment(five) == ReplicaAssignment((4, 3)), "the next znode is seen too"
    assert znodes.REASSIGN_PARTITIONS not in five.paths()


def test_another_target_that_a_tool_wrote_meanwhile_stays_for_the_next_controller(five):
    write_znode(five, znodes.encode_reassignment({T0: (3, 4)}))
    later = znodes.encode_reassignment({T0: (3, 0)})
    five.wait(five.brokers[4].store.set(znodes.REASSIGN_PARTITIONS, later))
    catch_up(five, 0, 1, 2, 3, 4)
    assert assignment(five) == ReplicaAssignment((3, 4))
    assert five.ensemble.table.find(znodes.REASSIGN_PARTITIONS).data == later

    five.controller.stop()
    five.brokers[0].start()
    assert moving(five)[T0].target == (3, 0)


def test_what_cannot_move_goes_from_the_znode(five):
    nowhere = TopicPartition("nowhere", 0)
    write_znode(five, znodes.encode_reassignment({T0: (3, 4), nowhere: (1,)}))

    data = five.ensemble.table.find(znodes.REASSIGN_PARTITIONS).data
    assert znodes.decode_reassignment(data) == {T0: (3, 4)}


def test_a_move_by_znode_to_a_dead_broker_waits_for_it(five):
    """No one looks who lives there, in Kafka too; the API refuses it."""
    five.brokers[3].stop()
    write_znode(five, znodes.encode_reassignment({T0: (3, 4)}))
    catch_up(five, 0, 1, 2, 4)
    assert moving(five) == {T0: ReplicaAssignment((3, 4, 0, 1, 2), (3, 4), (0, 1, 2))}
    assert znodes.REASSIGN_PARTITIONS in five.paths()

    five.brokers[3].start()
    assert leader_and_isr(five.brokers[3]).is_new
    catch_up(five, 0, 1, 2, 3, 4)
    assert assignment(five) == ReplicaAssignment((3, 4))
    assert znodes.REASSIGN_PARTITIONS not in five.paths()


def test_a_request_takes_a_partition_from_the_znode(five):
    write_znode(five, znodes.encode_reassignment({T0: (3, 4)}))
    reassign(five, 3)

    assert znodes.REASSIGN_PARTITIONS not in five.paths()
    assert moving(five)[T0].target == (3,)


@pytest.mark.parametrize("payload", [b"no json", b'{"version":1,"partitions":[]}', b'{"version":1}'])
def test_a_znode_that_says_nothing_is_removed(five, payload):
    write_znode(five, payload)

    assert znodes.REASSIGN_PARTITIONS not in five.paths()
    assert five.controller.controller.epoch == 1


def test_a_znode_that_waits_for_a_controller(five):
    reassign(five, 4)
    five.brokers[0].controller._queue.close()  # it is deaf, and still in office
    five.wait(
        five.brokers[4].store.create(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignment({T0: (3,)}))
    )
    five.brokers[0].stop()

    assert moving(five)[T0].target == (3,)


def test_replicas_that_are_removed_are_stopped_at_the_epoch_of_the_move(five):
    reassign(five, 3, 4)
    catch_up(five, 0, 1, 2, 3, 4)
    stops = [
        (topic.topic_name, state.delete_partition, state.leader_epoch)
        for request in five.brokers[1].sent(StopReplicaRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]

    assert [delete for _, delete, _ in stops] == [False, True]
    assert all(epoch > 0 for _, _, epoch in stops)


@pytest.mark.parametrize("target", [[3], [0], [3, 0]])
def test_a_partition_that_never_had_a_leader_is_reassigned(five, caplog, target):
    """None of its replicas lived when it was made, so it has neither a leader nor a state in the store."""
    five.brokers[3].stop()
    five.create("u", {0: [3]})
    u0 = TopicPartition("u", 0)

    assert reassign(five, *target, tp=u0) is None
    assert not [each for each in caplog.records if each.exc_info]
    if 0 in target:
        assert five.state("u").leader == 0
    five.brokers[3].start()
    assert five.state("u").leader in target
    if five.state("u").isr != tuple(target):
        catch_up(five, *target, tp=u0)
    assert moving(five) == {}
    assert assignment(five, u0) == ReplicaAssignment(tuple(target))

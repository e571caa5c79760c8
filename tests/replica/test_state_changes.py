"""LeaderAndIsr and StopReplica: whose orders count, what becomes of each partition, and who hears of it."""

import errno
import logging
from types import SimpleNamespace

import pytest
from replica_rig import TP, Rig

from barnabas.broker.handlers.leader_and_isr import take_roles
from barnabas.broker.handlers.stop_replica import stop_replicas
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import STATE_CHANGES
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import in_one_piece
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
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.listeners import Listeners
from barnabas.replica.partition import Role
from barnabas.replica.produce import Wake
from barnabas.replica.purgatory import DelayedOperation, Purgatory
from barnabas.replica.state_changes import StateChanges
from replica_doubles import Fetchers

ONE, TWO = b"\1" * 16, b"\2" * 16
OTHER = TopicPartition("orders", 1)


class Asked(DelayedOperation):
    """Waits under a partition, and counts how often it is asked."""

    def __init__(self):
        super().__init__()
        self.times = 0

    def try_complete(self, key=None):
        self.times += 1
        return False

    def on_complete(self):
        pass


class Coordinator:
    """Notes what it hears of the leadership of "orders"."""

    def __init__(self):
        self.heard = []

    def elected(self, partition, leader_epoch):
        self.heard.append(("elected", partition, leader_epoch))

    def resigned(self, partition, leader_epoch):
        self.heard.append(("resigned", partition, leader_epoch))


class Broker:
    """Broker 1, told what to be."""

    def __init__(self):
        self.rig = Rig()
        self.hosted = HostedPartitions(MetadataCache(1))
        self.fetchers = Fetchers()
        self.waiting = Purgatory("Fetch", self.rig.clock)
        idle = Purgatory("DeleteRecords", self.rig.clock)
        wake = Wake(Purgatory("Produce", self.rig.clock), self.waiting, idle)
        self.listener = Coordinator()
        listeners = Listeners()
        listeners.leadership["orders"] = self.listener
        self.changes = StateChanges(
            self.hosted, self.rig.ports, self.rig.logs, self.fetchers, wake, self.rig.clock, listeners
        )
        self.manager = SimpleNamespace(
            become_leader_or_follower=self.changes.leader_and_isr, stop_replicas=self.changes.stop_replicas
        )

    def order(self, *states, controller_epoch=1, topic_id=ONE, version=7):
        """{partition: code}."""
        topic = LeaderAndIsrTopicState(
            topic_name="orders",
            topic_id=topic_id,
            partition_states=[LeaderAndIsrPartitionState(**state) for state in states],
        )
        request = LeaderAndIsrRequest(
            controller_id=9, controller_epoch=controller_epoch, topic_states=[topic]
        )
        response = in_one_piece(take_roles(self.manager, request, version))
        return {
            each.partition_index: ErrorCode.of(each.error_code)
            for topic in response.topics
            for each in topic.partition_errors
        }

    def stop(self, partition=0, *, epoch=0, delete=True, controller_epoch=1):
        state = StopReplicaPartitionState(
            partition_index=partition, leader_epoch=epoch, delete_partition=delete
        )
        request = StopReplicaRequest(
            controller_id=9,
            controller_epoch=controller_epoch,
            topic_states=[StopReplicaTopicState(topic_name="orders", partition_states=[state])],
        )
        (found,) = in_one_piece(stop_replicas(self.manager, request)).partition_errors
        return ErrorCode.of(found.error_code)

    def role(self, tp=TP):
        partition = self.hosted.online.get(tp)
        return None if partition is None else partition.role


def lead(partition=0, *, epoch=0, isr=(1, 2), replicas=(1, 2), **fields):
    return {
        "partition_index": partition,
        "leader": 1,
        "leader_epoch": epoch,
        "partition_epoch": epoch,
        "isr": list(isr),
        "replicas": list(replicas),
        **fields,
    }


def follow(partition=0, *, leader=2, **fields):
    return {**lead(partition, **fields), "leader": leader}


@pytest.fixture
def broker():
    return Broker()


def test_roles_are_taken_and_listeners_hear_of_them(broker):
    assert broker.order(lead(0), follow(1)) == {0: ErrorCode.NONE, 1: ErrorCode.NONE}
    assert (broker.role(), broker.role(OTHER)) == (Role.LEADER, Role.FOLLOWER)
    assert broker.fetchers.fetching == {OTHER: (2, 0)}
    assert broker.listener.heard == [("elected", 0, 0), ("resigned", 1, 0)]


def test_a_leader_of_a_new_epoch_is_not_elected_again(broker):
    broker.order(lead())
    broker.order(lead(epoch=1))

    assert broker.listener.heard == [("elected", 0, 0)]


def test_a_listener_hears_of_a_deleted_replica_and_not_of_a_stopped_one(broker):
    broker.order(lead(0), lead(1))
    broker.stop(0, delete=False)
    broker.stop(0, epoch=3)
    broker.stop(1, epoch=-2)

    assert broker.listener.heard[2:] == [("resigned", 0, 3), ("resigned", 1, None)]


def test_a_follower_that_becomes_leader_stops_to_fetch_and_back(broker):
    broker.order(follow())
    broker.order(lead(epoch=1))
    assert (broker.fetchers.fetching, broker.role()) == ({}, Role.LEADER)
    waiting = Asked()
    broker.waiting.watch(waiting, [TP], 1_000)
    broker.order(follow(epoch=2))
    assert (broker.fetchers.fetching, broker.role()) == ({TP: (2, 2)}, Role.FOLLOWER)
    assert waiting.times == 1, "who waits for the leader hears of it at once"


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_order_of_the_same_or_an_older_epoch_changes_nothing(broker, epoch):
    broker.order(lead(epoch=1))

    assert broker.order(follow(epoch=epoch)) == {0: ErrorCode.STALE_CONTROLLER_EPOCH}
    assert (broker.role(), broker.fetchers.fetching) == (Role.LEADER, {})


def test_a_controller_of_the_past_is_not_obeyed(broker):
    broker.order(lead(), controller_epoch=3)
    with pytest.raises(KafkaError) as refused:
        broker.order(follow(epoch=5), controller_epoch=2)
    assert refused.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
    with pytest.raises(KafkaError) as refused:
        broker.stop(epoch=5, controller_epoch=2)
    assert refused.value.code is ErrorCode.STALE_CONTROLLER_EPOCH

    assert (broker.role(), broker.changes.controller_epoch) == (Role.LEADER, 3)
    assert broker.order(follow(epoch=5), controller_epoch=3) == {0: ErrorCode.NONE}


def test_a_topic_of_another_id_is_another_topic(broker):
    broker.order(lead(), topic_id=ONE)

    assert broker.order(lead(epoch=1), topic_id=TWO) == {0: ErrorCode.INCONSISTENT_TOPIC_ID}
    assert broker.hosted.online[TP].leader_epoch == 0


def test_a_partition_that_is_not_assigned_to_this_broker_is_not_made(broker):
    assert broker.order(follow(replicas=(2, 3), isr=(2, 3))) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert (broker.role(), broker.rig.logs.get(TP)) == (None, None)


def test_who_follows_nobody_known_has_a_log_and_does_not_fetch(broker):
    assert broker.order(follow(leader=9, replicas=(1, 9))) == {0: ErrorCode.NONE}
    assert (broker.role(), broker.fetchers.fetching) == (Role.NONE, {})
    assert broker.rig.logs.get(TP) is not None
    assert broker.listener.heard == []


def test_leaders_that_are_gone_are_no_errors_of_this_broker(broker, caplog):
    """A controller that takes over names the leaders that died with the last one, and then the next ones."""
    caplog.set_level(logging.WARNING, STATE_CHANGES)  # as `barnabas serve` has it
    caplog.set_level(logging.INFO, "barnabas")
    broker.order(*(follow(number, leader=9, replicas=(1, 9)) for number in range(20)))

    (line,) = caplog.records
    assert line.levelno == logging.INFO
    assert "partitions.leaderless count=20" in line.getMessage()

    caplog.set_level(logging.DEBUG, STATE_CHANGES)
    broker.order(follow(30, leader=9, replicas=(1, 9)))
    assert "leader_unavailable partition=orders-30 leader=9" in caplog.text


def test_a_leader_without_the_log_that_the_isr_counts_on_says_so(broker, caplog):
    """Its disk was replaced: with ZooKeeper it leads all the same, as Kafka's does."""
    broker.order(lead(0), lead(1, epoch=2, is_new=True), follow(2, epoch=2))
    broker.order(lead(0, epoch=1), lead(1, epoch=3), lead(2, epoch=3))
    assert "log_missing" not in caplog.text

    broker.order(lead(3, epoch=1))
    assert "partition.log_missing partition=orders-3 epoch=1" in caplog.text


def test_a_bad_disk_is_told_for_its_partitions_and_stays_so(broker):
    broker.order(follow(0), follow(2))
    broker.rig.disk.fail("/data", "name")
    assert broker.order(lead(1), follow(2, epoch=1)) == {1: ErrorCode.KAFKA_STORAGE_ERROR, 2: ErrorCode.NONE}
    assert broker.hosted.is_offline(OTHER)
    assert broker.order(lead(1, epoch=9)) == {1: ErrorCode.KAFKA_STORAGE_ERROR}
    assert broker.stop(1, epoch=9) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_that_cannot_note_a_new_epoch_does_not_stop_the_others(broker):
    """It failed the whole request, which the controller then sent again and again."""
    broker.order(lead(0), follow(2))
    broker.rig.disk.fail("/data/orders-0", "name")

    assert broker.order(lead(0, epoch=1), follow(2, epoch=1)) == {
        0: ErrorCode.KAFKA_STORAGE_ERROR,
        2: ErrorCode.NONE,
    }
    assert broker.hosted.is_offline(TP)
    assert broker.fetchers.fetching == {TopicPartition("orders", 2): (2, 1)}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_role_that_the_disk_has_no_room_for_is_taken_later(broker, code):
    broker.order(lead())
    broker.rig.disk.fail("/data/orders-0", "write", code)
    assert broker.order(lead(epoch=1), follow(2)) == {0: ErrorCode.REPLICA_NOT_AVAILABLE, 2: ErrorCode.NONE}
    assert not broker.hosted.is_offline(TP)
    assert broker.role() is None

    broker.rig.disk.heal()
    broker.rig.clock.advance(1000)

    assert broker.role() is Role.LEADER
    assert broker.hosted.serve(TP).leader_epoch == 1


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.NONE),
        (-1, ErrorCode.NONE),  # controllers before version 3
        (-2, ErrorCode.NONE),  # the topic is being deleted
    ],
)
def test_a_stop_of_the_past_is_fenced(broker, epoch, code):
    broker.order(lead(epoch=5))

    assert broker.stop(epoch=epoch) is code
    assert (broker.role() is None) == (code is ErrorCode.NONE)
    assert (broker.rig.logs.get(TP) is None) == (code is ErrorCode.NONE)


def test_a_fenced_stop_goes_on_fetching(broker):
    broker.order(follow(epoch=5))
    assert broker.stop(epoch=4, delete=False) is ErrorCode.FENCED_LEADER_EPOCH
    assert broker.fetchers.fetching == {TP: (2, 5)}
    assert broker.stop(epoch=5, delete=False) is ErrorCode.NONE
    assert broker.fetchers.fetching == {}
    assert broker.role() is Role.FOLLOWER
    assert broker.rig.logs.get(TP) is not None, "what is only stopped keeps its log"


def test_a_deletion_wakes_those_who_wait_and_reaches_what_is_not_hosted(broker):
    broker.order(lead())
    waiting = Asked()
    broker.waiting.watch(waiting, [TP], 1_000)
    assert broker.stop(epoch=-2) is ErrorCode.NONE
    assert waiting.times == 1

    broker.rig.logs.get_or_create(OTHER, None, is_new=True)
    assert broker.stop(1, epoch=-2) is ErrorCode.NONE, "it was deleted while this broker was down"
    assert broker.rig.logs.get(OTHER) is None


@pytest.mark.parametrize("name", ["..", "a b", "a/b", ""])
def test_a_name_that_is_no_directory_is_refused(broker, name):
    state = LeaderAndIsrPartitionState(**lead())
    topic = LeaderAndIsrTopicState(topic_name=name, topic_id=TWO, partition_states=[state])
    request = LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic])
    answer = in_one_piece(take_roles(broker.manager, request, 7))

    assert answer.topics[0].partition_errors[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(broker.hosted) == 0

"""Which replicas a broker gives up:
only those of which the controller and the store say the same, later than all it knows.
"""

import pytest
from replica_rig import TP
from test_manager import ONE, Managed

from barnabas.broker.handlers.leader_and_isr import take_roles
from barnabas.broker.handlers.update_metadata import take_over
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.decisions import Decision
from barnabas.core.pending import Pending
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.replica.strays import StrayReplicas

EPOCH = 4
"""The leader epoch under which broker 1 has last followed broker 2."""
MOVED = Decision(ONE, (2, 3), EPOCH + 1, 1)


class Moved(Managed):
    """Broker 1 follows broker 2;
    then a reassignment takes its replica away, and nobody tells it to delete that.
    """

    def __init__(self):
        super().__init__()
        self.metadata = self.replicas._metadata
        self.broker_epoch = 10
        self.stored = {TP: MOVED}
        self.reads = 0
        self.strays = StrayReplicas(
            1,
            lambda: self.broker_epoch,
            self.replicas,
            self.rig.logs.logs,
            self.metadata,
            self.read,
            self.rig.clock,
        )
        self.names(EPOCH, (1, 2))
        self.follow(EPOCH)
        self.names(EPOCH + 1, (2, 3))

    def read(self, partitions):
        self.reads += 1
        return Pending.of({tp: self.stored[tp] for tp in partitions if tp in self.stored})

    def names(self, leader_epoch, replicas, controller_epoch=1):
        """The controller's metadata of the partition."""
        state = UpdateMetadataPartitionState(
            partition_index=0, leader=2, leader_epoch=leader_epoch, replicas=list(replicas)
        )
        request = UpdateMetadataRequest(
            controller_epoch=controller_epoch,
            live_brokers=[UpdateMetadataBroker(id=each) for each in (1, 2, 3)],
            topic_states=[
                UpdateMetadataTopicState(topic_name=TP.topic, topic_id=ONE, partition_states=[state])
            ],
        )
        self.replicas.control_queue.run(take_over(self.replicas, request))
        self.rig.clock.advance()

    def follow(self, epoch):
        state = LeaderAndIsrPartitionState(
            partition_index=0, leader=2, leader_epoch=epoch, isr=[1, 2], replicas=[1, 2]
        )
        topic = LeaderAndIsrTopicState(topic_name=TP.topic, topic_id=ONE, partition_states=[state])
        request = LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic])
        self.replicas.control_queue.run(take_roles(self.replicas, request, 7))
        self.rig.clock.advance()

    def look(self, times=1):
        for _ in range(times):
            self.strays.look()
            self.rig.clock.advance()

    @property
    def kept(self):
        return TP in self.rig.logs.logs


@pytest.fixture
def moved():
    return Moved()


def test_a_replica_that_was_taken_away_is_set_aside_at_the_second_look(moved, caplog):
    assert moved.replicas._fetchers.fetching, "it asks its old leader"
    moved.look()
    assert moved.kept
    moved.look()

    assert not moved.kept
    assert moved.replicas.partition(TP) is None
    assert moved.replicas._fetchers.fetching == {}
    ((stray, *_),) = [list(moved.rig.logs.strays)]
    assert stray.tp == TP
    assert "replica.stray partition=orders-0" in caplog.text


def test_so_is_one_that_was_not_served_since_the_start(moved):
    moved.replicas.partitions.online.clear()
    moved.look(2)

    assert not moved.kept


@pytest.mark.parametrize(
    ("why", "stored"),
    [
        ("the store does not know it, as an older copy of it does not", None),
        ("the store is older than the replica", MOVED._replace(leader_epoch=EPOCH)),
        ("the store gives it to this broker", MOVED._replace(replicas=(2, 3, 1))),
        ("it is another topic", MOVED._replace(topic_id=b"\2" * 16)),
        ("a topic from before there were ids", MOVED._replace(topic_id=None)),
        (
            "a later controller wrote it, which this broker has not heard of",
            MOVED._replace(controller_epoch=2),
        ),
    ],
)
def test_a_replica_that_may_be_wanted_is_kept(moved, why, stored):
    moved.stored = {} if stored is None else {TP: stored}
    moved.look(5)

    assert moved.kept, why
    assert moved.replicas.partition(TP) is not None


def test_what_the_controller_does_not_name_is_kept(moved):
    moved.metadata.snapshot = MetadataCache(1).snapshot
    moved.look(5)

    assert moved.kept
    assert all(not moved.stored.keys() - {TP} for _ in range(moved.reads))


def test_a_replica_that_comes_back_between_two_looks_is_kept(moved):
    moved.look()
    moved.names(EPOCH + 2, (1, 2))
    moved.follow(EPOCH + 2)
    moved.look(5)

    assert moved.kept
    assert moved.replicas.partition(TP).leader_epoch == EPOCH + 2


def test_a_role_that_arrives_while_the_store_is_read_is_kept(moved):
    answers = []
    moved.strays._read_decisions = lambda _: answers.append(Pending()) or answers[-1]
    for _ in range(2):
        moved.look()
        if len(answers) == 2:
            moved.names(EPOCH + 2, (1, 2))
            moved.follow(EPOCH + 2)
        answers[-1].complete({TP: MOVED})
        moved.rig.clock.advance()

    assert moved.kept


@pytest.mark.parametrize("what", ["controller", "registration"])
def test_both_looks_are_under_one_controller_and_one_registration(moved, what):
    moved.look()
    if what == "controller":
        moved.names(EPOCH + 1, (2, 3), controller_epoch=2)
    else:
        moved.broker_epoch += 1
    moved.look()
    assert moved.kept
    moved.look()
    assert not moved.kept


def test_a_store_that_does_not_answer_is_asked_again(moved, caplog):
    read = moved.strays._read_decisions
    moved.strays._read_decisions = lambda _: Pending.failed(OSError("no answer"))
    moved.look(2)
    assert moved.kept
    assert "strays.not_found_out" in caplog.text
    moved.strays._read_decisions = read
    moved.look(2)
    assert not moved.kept

"""What the replica manager does by itself: checkpoints, the look for followers that fall behind, the end."""

import pytest
from replica_rig import TP, Rig

from barnabas.broker.handlers.leader_and_isr import take_roles
from barnabas.broker.handlers.update_metadata import take_over
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import LEADER_DURING_DELETE
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
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.fetch_reader import FetchParams
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.partition import Isolation
from replica_doubles import Fetchers, IsrDecisions

LAG_MS = 10_000
CHECKPOINT_MS = 5_000
ONE = b"\1" * 16


class Managed:
    """A replica manager that leads one partition, whose follower is not heard of."""

    def __init__(self):
        rig = self.rig = Rig()
        self.checkpoints = 0
        self.isr = IsrDecisions()
        self.fetchers = Fetchers()
        rig.logs.checkpoint_high_watermarks = self._checkpointed
        self.replicas = ReplicaManager(
            1,
            config=broker_config({"broker.id": "1", "replica.lag.time.max.ms": str(LAG_MS)}),
            clock=rig.clock,
            logs=rig.logs,
            metadata=MetadataCache(1),
            alter_partition=self.isr,
            fetchers=self.fetchers,
        )
        self.replicas.start()

    def _checkpointed(self):
        self.checkpoints += 1

    def lead(self, isr=(1, 2), replicas=(1, 2), leader=1):
        state = LeaderAndIsrPartitionState(
            partition_index=0, leader=leader, isr=list(isr), replicas=list(replicas)
        )
        topic = LeaderAndIsrTopicState(topic_name="orders", topic_id=ONE, partition_states=[state])
        request = LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic])
        self.replicas.control_queue.run(take_roles(self.replicas, request, 7))
        self.rig.clock.advance()
        self.rig.partition = self.replicas.partition(TP)

    def live(self, *brokers):
        """What the controller says about which brokers live."""
        request = UpdateMetadataRequest(
            controller_epoch=1, live_brokers=[UpdateMetadataBroker(id=each) for each in brokers]
        )
        self.replicas.control_queue.run(take_over(self.replicas, request))
        self.rig.clock.advance()

    def delete(self):
        """What the controller says of a topic that goes: no broker leads it any more."""
        gone = UpdateMetadataPartitionState(partition_index=0, leader=LEADER_DURING_DELETE)
        topic = UpdateMetadataTopicState(topic_name=TP.topic, topic_id=ONE, partition_states=[gone])
        request = UpdateMetadataRequest(controller_epoch=1, topic_states=[topic])
        self.replicas.control_queue.run(take_over(self.replicas, request))
        self.rig.clock.advance()

    def produce(self):
        batch = build_batch([Record(0, 1, b"k", b"v")])
        return self.replicas.appender.acknowledge(
            [self.replicas.appender.append(TP, bytearray(batch), -1)], -1, 60_000
        )

    def fetch(self):
        params = FetchParams(60_000, 1, 1 << 20, Isolation.HIGH_WATERMARK)
        return self.replicas.fetches.fetch(params, [CachedPartition("orders", ONE, 0, max_bytes=1 << 20)])


@pytest.fixture
def managed():
    return Managed()


def test_high_watermarks_are_written_again_and_again_once_there_is_one(managed):
    managed.rig.clock.advance(CHECKPOINT_MS * 3)
    assert managed.checkpoints == 0, "before the first LeaderAndIsr there is nothing true to write"
    managed.lead()
    managed.rig.clock.advance(CHECKPOINT_MS * 3)

    assert managed.checkpoints == 3


def test_a_follower_that_falls_behind_is_found_within_half_the_limit(managed):
    managed.rig.clock.advance(LAG_MS / 4)
    managed.lead()
    managed.produce()
    managed.rig.clock.advance(LAG_MS)
    assert managed.isr.proposals == []
    managed.rig.clock.advance(LAG_MS / 2)

    assert [proposal.isr for proposal, _ in managed.isr.proposals] == [(1,)]


def test_a_throttle_goes_with_its_topic(managed):
    managed.lead()
    quotas = managed.replicas.quotas
    quotas.topic_configured(TP.topic, {"leader.replication.throttled.replicas": "*"})
    assert quotas.leader.is_throttled(TP)
    managed.delete()
    assert not quotas.leader.is_throttled(TP)


@pytest.fixture
def waiting_for_a_dead_one(managed):
    """A produce that 2, the rest of the ISR, has copied;
    3 had caught up before, was not let in, and is heard of no more.
    """
    managed.live(1, 2, 3)
    managed.lead(isr=(1, 2), replicas=(1, 2, 3))
    managed.rig.fetch_as(3, 0)
    [(_, answer)] = managed.isr.proposals
    answer.fail(KafkaError(ErrorCode.INELIGIBLE_REPLICA, "it shuts down"))
    produce = managed.produce()
    managed.rig.fetch_as(2, 1)
    assert not produce.done, "3 may join the ISR in a moment"
    return produce


def test_a_produce_waits_no_longer_for_a_replica_outside_the_isr_whose_broker_is_gone(
    managed, waiting_for_a_dead_one
):
    """The client has one request in flight:
    without an answer it sends none that would move the high watermark.
    """
    managed.live(1, 2)

    assert waiting_for_a_dead_one.result()[0].error is ErrorCode.NONE


def test_a_produce_waits_no_longer_for_a_replica_outside_the_isr_that_stays_silent(
    managed, waiting_for_a_dead_one
):
    managed.rig.clock.advance(LAG_MS * 2)

    assert waiting_for_a_dead_one.result()[0].error is ErrorCode.NONE


def test_a_produce_waits_no_longer_for_a_replica_that_the_controller_does_not_let_in(managed):
    managed.live(1, 2, 3)
    managed.lead(isr=(1, 2), replicas=(1, 2, 3))
    managed.rig.fetch_as(3, 0)
    produce = managed.produce()
    managed.rig.fetch_as(2, 1)
    managed.live(1, 2)
    assert not produce.done, "the controller may have let it in"
    [(_, answer)] = managed.isr.proposals
    answer.fail(KafkaError(ErrorCode.INELIGIBLE_REPLICA, "it is gone"))

    assert produce.result()[0].error is ErrorCode.NONE


def test_the_end_answers_all_who_wait_and_writes_high_watermarks(managed):
    managed.lead()
    produce, fetch = managed.produce(), managed.fetch()
    assert (produce.done, fetch.done) == (False, False)
    before = managed.checkpoints
    managed.replicas.shutdown()

    assert produce.result()[0].error is ErrorCode.REQUEST_TIMED_OUT
    assert fetch.result()[0].size == 0
    assert (managed.checkpoints - before, managed.rig.clock.waiting) == (1, 0)


def test_a_failed_log_directory_is_told_to_all_who_wait(managed):
    managed.lead()
    produce, fetch = managed.produce(), managed.fetch()
    managed.replicas.log_directory_failed([TP])

    assert produce.result()[0].error is ErrorCode.KAFKA_STORAGE_ERROR
    assert fetch.result()[0].error is ErrorCode.KAFKA_STORAGE_ERROR


def test_nothing_is_copied_to_a_failed_log_directory(managed):
    managed.live(1, 2)
    managed.lead(leader=2)
    assert managed.fetchers.fetching == {TP: (2, 0)}

    managed.replicas.log_directory_failed([TP])
    assert managed.fetchers.fetching == {}

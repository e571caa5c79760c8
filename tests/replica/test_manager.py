"""What the replica manager does by itself: checkpoints, the look for followers that fall behind, the end."""

import pytest
from replica_rig import TP, Rig

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from barnabas.replica.fetch import FetchParams
from barnabas.replica.fetch_session import CachedPartition
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
        rig.logs.checkpoint_high_watermarks = self._checkpointed
        self.replicas = ReplicaManager(
            1,
            config=broker_config({"broker.id": "1", "replica.lag.time.max.ms": str(LAG_MS)}),
            clock=rig.clock,
            logs=rig.logs,
            metadata=MetadataCache(1),
            alter_partition=self.isr,
            fetchers=Fetchers(),
        )
        self.replicas.start()

    def _checkpointed(self):
        self.checkpoints += 1

    def lead(self):
        state = LeaderAndIsrPartitionState(partition_index=0, leader=1, isr=[1, 2], replicas=[1, 2])
        topic = LeaderAndIsrTopicState(topic_name="orders", topic_id=ONE, partition_states=[state])
        request = LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic])
        self.replicas.control_queue.run(self.replicas.become_leader_or_follower(request))
        self.rig.clock.advance()

    def produce(self):
        batch = build_batch([Record(0, 1, b"k", b"v")])
        return self.replicas.appender.acknowledge(
            [self.replicas.appender.append(TP, bytearray(batch), -1)], -1, 60_000
        )

    def fetch(self):
        params = FetchParams(60_000, 1, 1 << 20, Isolation.HIGH_WATERMARK)
        request = FetchPartition(partition=0, partition_max_bytes=1 << 20)
        return self.replicas.reader.fetch(params, [CachedPartition("orders", ONE, request)])


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

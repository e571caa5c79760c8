"""What the judge of the replication model counts as a copy of a record."""

from types import SimpleNamespace

import pytest

from barnabas.cluster.leadership import LeaderAndIsr, PartitionLeadership, ReplicaAssignment, TopicAssignment
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import Create, SetData
from barnabas.cluster.store.memory import MemoryStore
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import Record, build_batch
from barnabas.testing.replication.judge import Judge, JudgedEnsemble
from barnabas.testing.simulation.trace import Trace

TP = TopicPartition("orders", 0)
RECORD = (0, b"the only one")


class FakeLog:
    """A log of one record."""

    log_start_offset = 0
    log_end_offset = 1
    high_watermark = 1

    def read(self, *_, **__):
        return SimpleNamespace(records=bytes(build_batch([Record(0, 0, None, RECORD[1])])))


class FakeBroker:
    def __init__(self, broker_id, log):
        self.id, self.name, self.opened = broker_id, f"broker-{broker_id}", True
        self._log = log

    def log(self, _tp):
        return self._log

    def delete_log(self):
        self._log = None


@pytest.fixture
def brokers():
    return {1: FakeBroker(1, FakeLog()), 2: FakeBroker(2, None), 3: FakeBroker(3, FakeLog())}


@pytest.fixture
def ensemble():
    return JudgedEnsemble()


@pytest.fixture
def judge(ensemble, brokers):
    return Judge(ensemble, brokers, 2, Trace(lambda: 0.0))


def topic(*, replicas, adding=()):
    assignment = ReplicaAssignment(tuple(replicas), adding=tuple(adding))
    return znodes.encode_topic(TopicAssignment(None, {TP.partition: assignment}))


@pytest.fixture
def store(ensemble, judge):
    """The partition is being moved from 1 and 2, of which 2 is away, to 1, 2 and 3; 1 and 3 are in sync."""
    store = MemoryStore(ensemble, lambda callback: callback())
    store.start()
    state = PartitionLeadership(LeaderAndIsr(1, (1,), 0), 1)
    path = znodes.partition_state_path(TP)
    parts = path.split("/")[1:-1]
    for depth in range(1, len(parts) + 1):
        node = "/" + "/".join(parts[:depth])
        store.multi(
            [
                Create(
                    node,
                    topic(replicas=[1, 3, 2], adding=[3]) if node == znodes.topic_path("orders") else b"",
                )
            ]
        )
    store.multi([Create(path, znodes.encode_partition_state(state))])
    return store


def test_a_copy_that_a_cancelled_reassignment_deletes_counts_for_what_it_had(store, judge, brokers):
    """Seed 1161: the ISR falls below min.insync.replicas by it, as in Kafka, and consumers go on reading."""
    store.multi([SetData(znodes.topic_path("orders"), topic(replicas=[1, 2]))]).result()
    brokers[3].delete_log()

    judge.shown(brokers[1], TP, [RECORD])

    assert judge.anomalies == []


def test_a_copy_that_was_lost_otherwise_does_not_count(store, judge, brokers):
    brokers[3].delete_log()
    store.multi([SetData(znodes.topic_path("orders"), topic(replicas=[1, 2]))])

    judge.shown(brokers[1], TP, [RECORD])

    assert len(judge.anomalies) == 1
    assert "while only [1] have it" in judge.anomalies[0]

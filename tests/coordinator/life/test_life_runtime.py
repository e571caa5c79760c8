"""The runtime under another coordinator: a state machine of transactional ids, as small as one can be."""

from dataclasses import dataclass, field

import pytest
from life_rig import Later, Life

from barnabas.coordinator.runtime import loading
from barnabas.coordinator.runtime.journal import CoordinatorRecord, PartitionJournal
from barnabas.coordinator.runtime.loading import Loader
from barnabas.coordinator.runtime.runtime import CoordinatorRuntime
from barnabas.coordinator.runtime.state_machine import CoordinatorShard
from barnabas.core.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.topics import TRANSACTION_STATE
from barnabas.protocol.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.records.compression import Codec


@dataclass(slots=True)
class TransactionShard(CoordinatorShard):
    producers: dict[str, int] = field(default_factory=dict)
    closed: bool = False


def plain(records, journal_offset, _memo):
    return [(journal_offset, key, value) for key, value in records]


class Transactions:
    """Remembers the producer id of each transactional id."""

    topic = TRANSACTION_STATE_TOPIC
    load_task = "transaction-log-manager-0"
    bulk = staticmethod(plain)
    decode = staticmethod(TRANSACTION_STATE.decode)

    def new_shard(self, partition, leader_epoch, journal):
        return TransactionShard(partition, leader_epoch, journal)

    def replay(self, shard, key, value, *, producer_id, journal_offset):
        if value is None:
            shard.producers.pop(key.transactional_id, None)
        else:
            shard.producers[key.transactional_id] = value.producer_id

    def loaded(self, shard):
        return Pending.of(None)

    def unloaded(self, shard):
        shard.closed = True


def record(transactional_id, producer_id):
    key = TransactionLogKey(transactional_id=transactional_id)
    if producer_id is None:
        return CoordinatorRecord(key)
    return CoordinatorRecord(key, TransactionLogValue(producer_id=producer_id, transaction_partitions=None))


class Rig:
    """One partition of ``__transaction_state`` on real replicas, led from the start."""

    def __init__(self):
        self.life = Life()
        self.life.lead(0, topic=TRANSACTION_STATE_TOPIC)
        self.tp = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
        self.offload = Later()
        self.runtime = self.start()
        self.life.replicas.listeners.leadership[TRANSACTION_STATE_TOPIC] = self.runtime

    def start(self):
        life = self.life
        return CoordinatorRuntime(
            Transactions(),
            Loader(life.clock, self.offload, life.disk, buffer_bytes=1 << 20, settle=lambda: None),
            journal=lambda partition: PartitionJournal(
                self.tp,
                life.replicas.appender,
                life.clock.time_ms,
                codec=Codec.NONE,
                required_acks=-1,
                timeout_ms=1000,
            ),
            log=lambda partition: life.replicas.partition(self.tp).leader_log,
        )

    def elected(self, runtime, epoch=0):
        runtime.elected(0, epoch)
        self.life.clock.advance()
        self.offload.work()
        self.life.clock.advance()
        return runtime.led[0]

    def written(self, *records):
        self.runtime.led[0].journal.append(records).result()


@pytest.mark.parametrize("in_place_bytes_max", [loading.IN_PLACE_BYTES_MAX, 0], ids=["here", "in a child"])
def test_another_coordinator_finds_what_it_wrote(monkeypatch, in_place_bytes_max):
    monkeypatch.setattr(loading, "IN_PLACE_BYTES_MAX", in_place_bytes_max)
    rig = Rig()
    assert rig.elected(rig.runtime).producers == {}
    rig.written(record("a", 1), record("b", 2))
    rig.written(record("a", 3), record("b", None))

    shard = rig.elected(rig.start())

    assert shard.producers == {"a": 3}


def test_it_follows_the_leadership_of_its_own_topic():
    rig = Rig()
    rig.life.lead(1, topic=TRANSACTION_STATE_TOPIC)
    rig.life.clock.advance()
    assert list(rig.runtime.led) == [1]
    shard = rig.runtime.led[1]

    rig.life.replicas.listeners.deleted(TopicPartition(TRANSACTION_STATE_TOPIC, 1), 0)

    assert (rig.runtime.led, shard.closed) == ({}, True)

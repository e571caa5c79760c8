"""`TransactionScenario`: one seed of the model of transactions, from an empty cluster to a verdict."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final, TextIO

from barnabas.cluster.metadata.features import TRANSACTION_VERSION, FeatureLevels
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.coordinator.transaction.transaction_version import TV_0, TV_2
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.log.log import Log
from barnabas.records.batch import batch_headers
from barnabas.testing.replication.cluster import ClusterReport, ClusterScenario
from barnabas.testing.replication.operator import topic_admin
from barnabas.testing.transactions.broker import TransactionalBroker
from barnabas.testing.transactions.judge import NO_OFFSET, TransactionJudge
from barnabas.testing.transactions.log_walk import walk
from barnabas.testing.transactions.producers import ClientMix, TransactionalId
from barnabas.testing.transactions.readers import (
    FETCH_VERSION,
    OFFSET_FETCH_VERSION,
    CommittedReader,
    OffsetReader,
    new_reader_options,
    offset_in,
    offset_request,
    read_committed,
    records_of,
)

if TYPE_CHECKING:
    from barnabas.testing.replication.clients import SimulatedClient

_HEAL_MS: Final = 2_500.0
_SETTLE_MS: Final = 1_000.0
_TOPIC: Final = "orders"
_DOOMED: Final = "doomed"
_STATE_PARTITIONS: Final = 2
_GROUP_PARTITIONS: Final = 2
_WHOLE: Final = 1 << 30
_SWEEP_MS: Final = 200
_OF_BEFORE: Final = ClientMix([TV_0])
_OF_TODAY: Final = ClientMix([TV_2])
_OF_BOTH: Final = ClientMix([TV_0, TV_2])
_FORGETFUL: Final = frozenset({"kill", "restart", "disk", "idle", "clock"})
"""Faults after which a broker begins with new metadata, or has heard of everything."""


@dataclass(slots=True, kw_only=True)
class TransactionReport(ClusterReport):
    """What came of one seed."""

    sent: int
    told: dict[str, int]
    read: int

    def __str__(self) -> str:
        told = ",".join(f"{what or 'unknown'}*{times}" for what, times in sorted(self.told.items()))
        return self.line(f"transactions {self.sent} {told} read {self.read}")


class TransactionScenario(ClusterScenario[TransactionalBroker]):
    """A cluster, its transactional producers, and consumers of what they commit."""

    def __init__(
        self, seed: int, seconds: float, sink: TextIO | None = None, mix: ClientMix | None = None
    ) -> None:
        """`mix` is drawn of the seed, if it is not given."""
        super().__init__(seed, seconds, sink, Random(f"{seed}/transactions"))
        mix = mix or self._rng.choice([_OF_BEFORE, _OF_TODAY, _OF_BOTH])
        level = max(mix.client_versions)
        number = self._rng.choice([2, 3, 3])
        self._replicas = self._rng.randint(2, number)
        min_isr = self._rng.randint(1, self._replicas)
        self.judge = TransactionJudge(self.trace)
        segment_bytes = self._rng.choice([1_500, 100_000])
        self._timeout_ms = self._rng.choice([1_000, 2_000])
        ids = count(1000)
        self._add_brokers(
            TransactionalBroker,
            number,
            min_isr=min_isr,
            segment_bytes=segment_bytes,
            settings={
                "replica.lag.time.max.ms": "1500",
                "request.timeout.ms": "1000",
                "offsets.topic.num.partitions": str(_GROUP_PARTITIONS),
                "transaction.state.log.num.partitions": str(_STATE_PARTITIONS),
                "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(_SWEEP_MS),
            },
            past=self.judge,
            new_producer_id=lambda: Pending.of(next(ids)),
            levels=FeatureLevels({TRANSACTION_VERSION: (0, 2)}, {TRANSACTION_VERSION: level}, kept=True),
        )
        self._orders = [TopicPartition(_TOPIC, each) for each in range(self._rng.randint(1, 3))]
        self._writable = list(self._orders)
        self._ids = [
            TransactionalId(
                *self._party(f"copier-{each}"),
                transactions=self.judge,
                state_partitions=_STATE_PARTITIONS,
                group_partitions=_GROUP_PARTITIONS,
                timeout_ms=self._timeout_ms,
                mix=mix,
            )
            for each in range(self._rng.randint(1, 3))
        ]
        self._readers: list[SimulatedClient] = [
            CommittedReader(
                *self._party(f"reader-{each}"), transactions=self.judge, **new_reader_options(self._rng)
            )
            for each in range(2)
        ]
        self._readers.append(
            OffsetReader(
                *self._party("asker"),
                transactions=self.judge,
                ids=[each.name for each in self._ids],
                group_partitions=_GROUP_PARTITIONS,
            )
        )
        deeds = self._rng.choice([[], ["move"], ["elect"], ["elect", "move"]])
        self._add_operator([*self._orders, *self._internal()], deeds, [*self._ids, *self._readers])

    @staticmethod
    def _internal() -> Iterator[TopicPartition]:
        for each in range(_STATE_PARTITIONS):
            yield TopicPartition(TRANSACTION_STATE_TOPIC, each)
        for each in range(_GROUP_PARTITIONS):
            yield TopicPartition(GROUP_METADATA_TOPIC, each)

    def run(self) -> TransactionReport:
        """Lives through it and judges it."""
        topics = {
            _TOPIC: len(self._orders),
            _DOOMED: 1,
            TRANSACTION_STATE_TOPIC: _STATE_PARTITIONS,
            GROUP_METADATA_TOPIC: _GROUP_PARTITIONS,
        }
        self._begin(topics, self._replicas)
        self._writable.append(TopicPartition(_DOOMED, 0))
        pause_ms = self._rng.choice([30.0, 150.0])
        for producer in self._ids:
            producer.run(self._writable, pause_ms)
        for reader in self._readers:
            reader.run(self._orders, 100.0)
        self._disturb()
        # A broker that is taken for dead while a topic is deleted never hears of it, and goes on to send its
        # markers to those who led it: no controller tells it, in Kafka with ZooKeeper neither.
        if _FORGETFUL.issuperset(self._faults.kinds):
            self.clock.call_later(self._rng.uniform(0, self._seconds * 1000), self._delete_doomed)
        self._pass(self._seconds * 1000)
        self._calm(_HEAL_MS)
        for producer in self._ids:
            producer.stopping = True
        # The last producers may have vanished: their time must be over, and a clock that was ahead caught up.
        self._pass(_SETTLE_MS + 2 * self._timeout_ms)
        self._pass(self._ahead_ms())
        for reader in self._readers:
            reader.stopping = True
        self._pass(_SETTLE_MS)
        self._rest()
        self.replication.final()
        self._judge()
        return self._report()

    def _delete_doomed(self) -> None:
        """Somebody deletes a topic that transactions are writing to."""
        self._writable.remove(TopicPartition(_DOOMED, 0))
        for broker in self.brokers.values():
            if broker.alive:
                topic_admin(broker, self._rng).delete(_DOOMED)
                return

    def _ahead_ms(self) -> int:
        """How far the start of an open transaction lies in the future: its broker's clock was ahead."""
        now_ms = self.clock.time_ms()
        starts: list[int] = [
            each.start_ms for each in self._transactions() if each.state is TransactionState.ONGOING
        ]
        return max([0, *(start_ms - now_ms for start_ms in starts)])

    # --- in the end -------------------------------------------------------------------------------------

    def _transactions(self) -> Iterator[TransactionMetadata]:
        """Each id as its coordinator has it. A broker that was taken for dead while its partition was moved
        away may go on as coordinator of the past: no controller tells it.
        """
        for producer in self._ids:
            try:
                yield self._leader(producer.coordinator).transaction_coordinator.describe(producer.name)
            except KafkaError as error:
                self.trace(f"{producer.name} has no coordinator: {error}")

    def _judge(self) -> None:
        walks = {tp: walk(_whole(self._leader(tp).log(tp))) for tp in self._orders}
        for tp in walks:
            for broker in self._replicas_of(tp):
                name = f"last reader of {broker.name}"
                self.judge.read[name, tp] = self._read_all(broker, tp)
                self.judge.positions[name, tp] = _WHOLE
        self.judge.final(walks, {each.name: self._group_offset(each) for each in self._ids}, self._left())

    def _leader(self, tp: TopicPartition) -> TransactionalBroker:
        state = next(iter(self.brokers.values())).metadata.partition(tp)
        assert state is not None, f"{tp} is there to the end"
        return self.brokers[state.leader]

    def _replicas_of(self, tp: TopicPartition) -> list[TransactionalBroker]:
        """Those that are to have it; a replica that was moved away may not have heard of it."""
        state = self._leader(tp).metadata.partition(tp)
        assert state is not None, f"its leader knows {tp}"
        return [self.brokers[each] for each in state.replicas]

    def _read_all(self, broker: TransactionalBroker, tp: TopicPartition) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        position = 0
        while True:
            request = read_committed(tp, position, bytes_max=_WHOLE, wait_ms=0)
            data = self._answer(broker, request, FETCH_VERSION).responses[0].partitions[0]
            if data.error_code:
                self.judge.unexplained(
                    f"the last reader of {broker.name}", ErrorCode.of(data.error_code).name
                )
            records, following = records_of(tp, position, data)
            found += records
            if following == position:
                return found
            position = following

    def _group_offset(self, producer: TransactionalId) -> int:
        request = offset_request(producer.name, self._orders[0], stable=True)
        offset = offset_in(self._answer(self._leader(producer.offsets), request, OFFSET_FETCH_VERSION))
        if offset is None:
            self.judge.unexplained(f"the last question about {producer.name}", "no offset")
        return NO_OFFSET if offset is None else offset

    def _answer(self, broker: TransactionalBroker, request: Any, version: int) -> Any:
        answer = broker.serve(request, version)
        self._pass(0)
        return answer.result()

    def _left(self) -> Iterator[str]:
        """What is still open somewhere."""
        for each in self._transactions():
            if (
                each.pending_state is not None
                or each.state.is_prepared
                or each.state is TransactionState.ONGOING
            ):
                yield f"{each}"
        for producer in self._ids:
            if producer.running:
                yield f"{producer.name} is still at work"
        for tp in [*self._orders, *self._internal()]:
            for broker in self._replicas_of(tp):
                log = broker.log(tp)
                if log is not None and log.producers.ongoing:
                    yield f"{tp} on {broker.name}: {log.producers.ongoing}"

    def _report(self) -> TransactionReport:
        told: dict[str, int] = {}
        for each in self.judge.sent.values():
            told[each.told] = told.get(each.told, 0) + 1
        return TransactionReport(
            **self._reported(),
            sent=len(self.judge.sent),
            told=told,
            read=sum(map(len, self.judge.read.values())),
            anomalies=[*self.replication.anomalies, *self.judge.anomalies],
        )


def _whole(log: Log | None) -> bytes:
    found = b""
    if log is None:
        return found
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, _WHOLE, min_one_message=True).records
        data = records if isinstance(records, bytes) else materialize([records])
        found += data
        for header in batch_headers(data):
            offset = header.next_offset
    return found

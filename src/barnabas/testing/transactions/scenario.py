"""`TransactionScenario`: one seed of the model of transactions, from an empty cluster to a verdict."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from barnabas.cluster.metadata.topics import NewTopic
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.log.config import LogConfig
from barnabas.log.log import Log
from barnabas.records.batch import batch_headers
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication.faults import Faults
from barnabas.testing.replication.judge import Judge, JudgedEnsemble
from barnabas.testing.replication.operator import Operator, topic_admin
from barnabas.testing.replication.wire import PartyNetwork
from barnabas.testing.simulation.trace import Trace
from barnabas.testing.transactions.broker import TransactionalBroker
from barnabas.testing.transactions.judge import NO_OFFSET, TransactionJudge
from barnabas.testing.transactions.log_walk import walk
from barnabas.testing.transactions.producers import TransactionalId
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
    from barnabas.testing.replication.broker import Brokers
    from barnabas.testing.replication.clients import SimulatedClient

_BEGIN_MS: Final = 1_000.0
_HEAL_MS: Final = 2_500.0
_SETTLE_MS: Final = 1_000.0
_TOPIC: Final = "orders"
_DOOMED: Final = "doomed"
_STATE_PARTITIONS: Final = 2
_GROUP_PARTITIONS: Final = 2
_WHOLE: Final = 1 << 30
_SWEEP_MS: Final = 200
_FORGETFUL: Final = frozenset({"kill", "restart", "disk", "idle", "clock"})
"""Faults after which a broker begins with new metadata, or has heard of everything."""


@dataclass(slots=True)
class TransactionReport:
    """What came of one seed."""

    seed: int
    kinds: tuple[str, ...]
    brokers: int
    min_isr: int
    digest: str
    virtual_s: float
    sent: int
    told: dict[str, int]
    read: int
    faults: int
    deeds: dict[str, int] = field(default_factory=dict)
    anomalies: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"{len(self.anomalies)} ANOMALIES" if self.anomalies else "ok"
        told = ",".join(f"{what or 'unknown'}*{times}" for what, times in sorted(self.told.items()))
        return (
            f"seed {self.seed}: {verdict} trace {self.digest} virtual {self.virtual_s:.0f} s brokers "
            f"{self.brokers} min.isr {self.min_isr} transactions {self.sent} {told} read {self.read} faults "
            f"{self.faults} of {','.join(self.kinds)}"
        )


class TransactionScenario:
    """A cluster, its producers, its consumers, its operator, and the faults that are injected."""

    def __init__(self, seed: int, seconds: float, sink: TextIO | None = None) -> None:
        self.seed = seed
        self._seconds = seconds
        rng = Random(f"{seed}/transactions")

        def new_rng() -> Random:
            return Random(rng.getrandbits(64))

        self._rng = new_rng()
        self.clock = VirtualClock()
        self.trace = Trace(self.clock.time_s, sink)
        wire = PartyNetwork(self.clock, new_rng())
        ensemble = JudgedEnsemble(self.clock.time_ms)
        self.brokers: dict[int, TransactionalBroker] = {}
        brokers = cast("Brokers", self.brokers)
        number = self._rng.choice([2, 3, 3])
        self._replicas = self._rng.randint(2, number)
        self._min_isr = self._rng.randint(1, self._replicas)
        self.replication = Judge(ensemble, self.brokers, self._min_isr, self.trace)
        self.judge = TransactionJudge(self.trace)
        ids = count(1000)
        log_config = LogConfig(
            segment_bytes=self._rng.choice([1_500, 100_000]),
            segment_index_bytes=4_096,
            min_insync_replicas=self._min_isr,
        )
        self._timeout_ms = self._rng.choice([1_000, 2_000])
        settings = {
            "replica.lag.time.max.ms": "1500",
            "request.timeout.ms": "1000",
            "offsets.topic.num.partitions": str(_GROUP_PARTITIONS),
            "transaction.state.log.num.partitions": str(_STATE_PARTITIONS),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(_SWEEP_MS),
        }
        for broker_id in range(number):
            self.brokers[broker_id] = TransactionalBroker(
                broker_id,
                clock=self.clock,
                past=self.judge,
                new_producer_id=lambda: Pending.of(next(ids)),
                rng=new_rng(),
                wire=wire,
                ensemble=ensemble,
                brokers=brokers,
                judge=self.replication,
                trace=self.trace,
                settings=settings,
                log_config=log_config,
            )
        self._orders = [TopicPartition(_TOPIC, each) for each in range(self._rng.randint(1, 3))]
        self._writable = list(self._orders)

        def common(name: str) -> tuple[Any, ...]:
            return (name, self.clock, new_rng(), wire, brokers, self.replication)

        self._ids = [
            TransactionalId(
                *common(f"copier-{each}"),
                transactions=self.judge,
                state_partitions=_STATE_PARTITIONS,
                group_partitions=_GROUP_PARTITIONS,
                timeout_ms=self._timeout_ms,
            )
            for each in range(self._rng.randint(1, 3))
        ]
        names = [each.name for each in self._ids]
        self._readers: list[SimulatedClient] = [
            CommittedReader(
                *common(f"reader-{each}"), transactions=self.judge, **new_reader_options(self._rng)
            )
            for each in range(2)
        ]
        self._readers.append(
            OffsetReader(
                *common("asker"), transactions=self.judge, ids=names, group_partitions=_GROUP_PARTITIONS
            )
        )
        self._operator = Operator(
            self.clock,
            new_rng(),
            wire,
            brokers,
            [*self._orders, *self._internal()],
            least_replicas=self._min_isr,
            deeds=self._rng.choice([[], ["move"], ["elect"], ["elect", "move"]]),
        )
        self._faults = Faults(
            self.clock,
            new_rng(),
            wire,
            brokers,
            ensemble.table,
            self.trace,
            parties=[
                *(each.name for each in self.brokers.values()),
                *(each.name for each in [*self._ids, *self._readers]),
            ],
        )

    @staticmethod
    def _internal() -> Iterator[TopicPartition]:
        for each in range(_STATE_PARTITIONS):
            yield TopicPartition(TRANSACTION_STATE_TOPIC, each)
        for each in range(_GROUP_PARTITIONS):
            yield TopicPartition(GROUP_METADATA_TOPIC, each)

    def run(self) -> TransactionReport:
        """Lives through it and judges it."""
        for broker in self.brokers.values():
            broker.start()
        self._pass(_BEGIN_MS)
        self._create_topics()
        self._pass(_BEGIN_MS)
        pause_ms = self._rng.choice([30.0, 150.0])
        for producer in self._ids:
            producer.run(self._writable, pause_ms)
        for reader in self._readers:
            reader.run(self._orders, 100.0)
        self._operator.run(self._rng.choice([500.0, 2_000.0]))
        self._faults.run()
        # A broker that is taken for dead while a topic is deleted never hears of it, and goes on to send its
        # markers to those who led it: no controller tells it, in Kafka with ZooKeeper neither.
        if _FORGETFUL.issuperset(self._faults.kinds):
            self.clock.call_later(self._rng.uniform(0, self._seconds * 1000), self._delete_doomed)
        self._pass(self._seconds * 1000)
        self._operator.stopping = True
        self._faults.heal()
        self._pass(_HEAL_MS)
        for producer in self._ids:
            producer.stopping = True
        # The last producers may have vanished: their time must be over, and a clock that was ahead caught up.
        self._pass(_SETTLE_MS + 2 * self._timeout_ms + self._ahead_ms())
        for reader in self._readers:
            reader.stopping = True
        self._pass(_SETTLE_MS)
        self.replication.final()
        self._judge()
        return self._report()

    def _pass(self, by_ms: float) -> None:
        self.clock.run_until(self.clock.now_ms + by_ms)

    def _create_topics(self) -> None:
        ids = sorted(self.brokers)
        broker = self.brokers[ids[0]]
        admin = topic_admin(broker, self._rng)
        for topic, partitions in (
            (_TOPIC, len(self._orders)),
            (_DOOMED, 1),
            (TRANSACTION_STATE_TOPIC, _STATE_PARTITIONS),
            (GROUP_METADATA_TOPIC, _GROUP_PARTITIONS),
        ):
            assignments = {each: self._rng.sample(ids, self._replicas) for each in range(partitions)}
            admin.create(NewTopic(topic, assignments=assignments))
        self._writable.append(TopicPartition(_DOOMED, 0))

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
            seed=self.seed,
            kinds=self._faults.kinds,
            brokers=len(self.brokers),
            min_isr=self._min_isr,
            digest=self.trace.digest,
            virtual_s=self.clock.time_s(),
            sent=len(self.judge.sent),
            told=told,
            read=sum(map(len, self.judge.read.values())),
            faults=self._faults.injected,
            deeds=self._operator.done,
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

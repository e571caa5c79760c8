"""`ReplicationScenario`: one seed of the model of replication, from an empty cluster to a verdict."""

from dataclasses import dataclass, field
from random import Random
from typing import Final, TextIO

from barnabas.cluster.metadata.topics import NewTopic
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.log.config import LogConfig
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication.broker import Brokers, SimulatedBroker
from barnabas.testing.replication.clients import (
    IdempotentProducer,
    SimulatedClient,
    SimulatedConsumer,
    SimulatedProducer,
)
from barnabas.testing.replication.faults import Faults
from barnabas.testing.replication.judge import IDEMPOTENT, Judge, JudgedEnsemble
from barnabas.testing.replication.operator import DEEDS, Operator, topic_admin
from barnabas.testing.replication.wire import PartyNetwork
from barnabas.testing.simulation.trace import Trace

LAG_MS: Final = 1_500
_BEGIN_MS: Final = 1_000.0
_HEAL_MS: Final = 5_000.0
_SETTLE_MS: Final = 2_500.0
_TOPIC: Final = "orders"
IDEMPOTENT_SHARE: Final = 0.3
"""How many seeds have an idempotent producer, and all brokers killed at once."""


@dataclass(slots=True)
class ReplicationReport:
    """What came of one seed."""

    seed: int
    kinds: tuple[str, ...]
    brokers: int
    min_isr: int
    digest: str
    virtual_s: float
    acked: int
    read: int
    faults: int
    deeds: dict[str, int] = field(default_factory=dict)
    anomalies: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"{len(self.anomalies)} ANOMALIES" if self.anomalies else "ok"
        deeds = ",".join(f"{deed}*{times}" for deed, times in sorted(self.deeds.items()))
        return (
            f"seed {self.seed}: {verdict} trace {self.digest} virtual {self.virtual_s:.0f} s brokers "
            f"{self.brokers} min.isr {self.min_isr} acked {self.acked} read {self.read} faults "
            f"{self.faults} of {','.join(self.kinds)} operator {deeds or 'idle'}"
        )


class ReplicationScenario:
    """A cluster, its clients, its operator, and the faults that are injected."""

    def __init__(self, seed: int, seconds: float, sink: TextIO | None = None) -> None:
        self.seed = seed
        self._seconds = seconds
        rng = Random(seed)

        def new_rng() -> Random:
            return Random(rng.getrandbits(64))

        self._rng = new_rng()
        self.clock = VirtualClock()
        self.trace = Trace(self.clock.time_s, sink)
        wire = PartyNetwork(self.clock, new_rng())
        ensemble = JudgedEnsemble(self.clock.time_ms)
        self.brokers: Brokers = {}
        count = self._rng.choice([2, 3, 3, 4])
        self._replicas = min(count, self._rng.choice([2, 3, 3]))
        self._min_isr = self._rng.randint(1, self._replicas - 1)
        self.judge = Judge(ensemble, self.brokers, self._min_isr, self.trace)
        log_config = LogConfig(
            segment_bytes=self._rng.choice([1_000, 100_000]),
            segment_index_bytes=4_096,
            min_insync_replicas=self._min_isr,
        )
        settings = {"replica.lag.time.max.ms": str(LAG_MS)}
        for broker_id in range(count):
            self.brokers[broker_id] = SimulatedBroker(
                broker_id,
                clock=self.clock,
                rng=new_rng(),
                wire=wire,
                ensemble=ensemble,
                brokers=self.brokers,
                judge=self.judge,
                trace=self.trace,
                settings=settings,
                log_config=log_config,
            )
        self._tps = [TopicPartition(_TOPIC, number) for number in range(self._rng.randint(1, 2))]
        nearest = self._rng.random() < 0.5
        self._clients: list[SimulatedClient] = [
            SimulatedProducer("producer-0", self.clock, new_rng(), wire, self.brokers, self.judge),
            SimulatedProducer("producer-1", self.clock, new_rng(), wire, self.brokers, self.judge),
            SimulatedConsumer(
                "consumer-2", self.clock, new_rng(), wire, self.brokers, self.judge, nearest=nearest
            ),
        ]
        # In some seeds, and by choices of its own, so that the other seeds stay what they are.
        self._own_rng = Random(f"{seed}/idempotent")
        self._idempotent: IdempotentProducer | None = None
        if self._own_rng.random() < IDEMPOTENT_SHARE:
            self._idempotent = IdempotentProducer(
                IDEMPOTENT, self.clock, self._own_rng, wire, self.brokers, self.judge
            )
            self._clients.append(self._idempotent)
        self._operator = Operator(
            self.clock,
            new_rng(),
            wire,
            self.brokers,
            self._tps,
            least_replicas=self._min_isr,
            deeds=[each for each in sorted(DEEDS) if self._rng.random() < 0.4],
        )
        self._faults = Faults(
            self.clock,
            new_rng(),
            wire,
            self.brokers,
            ensemble.table,
            self.trace,
            parties=[*(each.name for each in self.brokers.values()), *(each.name for each in self._clients)],
        )

    def run(self) -> ReplicationReport:
        """Lives through it and judges it."""
        for broker in self.brokers.values():
            broker.start()
        self._pass(_BEGIN_MS)
        self._create_topic()
        self._pass(_BEGIN_MS)
        for client in self._clients:
            client.run(self._tps, self._rng.choice([100.0, 250.0]))
        self._operator.run(self._rng.choice([500.0, 2_000.0]))
        self._faults.run()
        if self._idempotent is not None:
            self._faults.run_all(self._own_rng)
        self._pass(self._seconds * 1000)
        self._operator.stopping = True
        self._faults.heal()
        self._pass(_HEAL_MS)
        for client in self._clients:
            client.stopping = True
        self._pass(_SETTLE_MS)
        self.judge.final()
        if self._idempotent is not None:
            for tp, left in self._idempotent.unanswered.items():
                if left:
                    error = self._idempotent.refused.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR)
                    self.judge.unsent(tp, left[0].values, error)
        return self._report()

    def _report(self) -> ReplicationReport:
        answers = self.judge.answers.values()
        return ReplicationReport(
            seed=self.seed,
            kinds=self._faults.kinds,
            brokers=len(self.brokers),
            min_isr=self._min_isr,
            digest=self.trace.digest,
            virtual_s=self.clock.time_s(),
            acked=sum(len(each.acked) for each in answers),
            read=sum(len(each.read) for each in answers),
            faults=self._faults.injected,
            deeds=self._operator.done,
            anomalies=self.judge.anomalies,
        )

    def _pass(self, by_ms: float) -> None:
        self.clock.run_until(self.clock.now_ms + by_ms)

    def _create_topic(self) -> None:
        ids = sorted(self.brokers)
        assignments = {tp.partition: self._rng.sample(ids, self._replicas) for tp in self._tps}
        topic_admin(self.brokers[ids[0]], self._rng).create(NewTopic(_TOPIC, assignments=assignments))

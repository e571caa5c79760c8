"""`ReplicationScenario`: one seed of the model of replication, from an empty cluster to a verdict."""

from dataclasses import dataclass
from random import Random
from typing import Final, TextIO

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.testing.replication.broker import SimulatedBroker
from barnabas.testing.replication.clients import (
    IdempotentProducer,
    SimulatedClient,
    SimulatedConsumer,
    SimulatedProducer,
)
from barnabas.testing.replication.cluster import ClusterReport, ClusterScenario
from barnabas.testing.replication.judge import IDEMPOTENT
from barnabas.testing.replication.operator import DEEDS

LAG_MS: Final = 1_500
_HEAL_MS: Final = 5_000.0
_SETTLE_MS: Final = 2_500.0
_TOPIC: Final = "orders"
IDEMPOTENT_SHARE: Final = 0.3
"""How many seeds have an idempotent producer, and all brokers killed at once."""


@dataclass(slots=True, kw_only=True)
class ReplicationReport(ClusterReport):
    """What came of one seed."""

    acked: int
    read: int

    def __str__(self) -> str:
        return self.line(f"acked {self.acked} read {self.read}")


class ReplicationScenario(ClusterScenario[SimulatedBroker]):
    """A cluster and clients that write and read."""

    def __init__(self, seed: int, seconds: float, sink: TextIO | None = None) -> None:
        super().__init__(seed, seconds, sink, Random(seed))
        count = self._rng.choice([2, 3, 3, 4])
        self._replicas = min(count, self._rng.choice([2, 3, 3]))
        self._add_brokers(
            SimulatedBroker,
            count,
            min_isr=self._rng.randint(1, self._replicas - 1),
            segment_bytes=self._rng.choice([1_000, 100_000]),
            settings={"replica.lag.time.max.ms": str(LAG_MS)},
        )
        self._tps = [TopicPartition(_TOPIC, number) for number in range(self._rng.randint(1, 2))]
        nearest = self._rng.random() < 0.5
        self._clients: list[SimulatedClient] = [
            SimulatedProducer(*self._party("producer-0")),
            SimulatedProducer(*self._party("producer-1")),
            SimulatedConsumer(*self._party("consumer-2"), nearest=nearest),
        ]
        # In some seeds, and by choices of its own, so that the other seeds stay what they are.
        self._own_rng = Random(f"{seed}/idempotent")
        self._idempotent: IdempotentProducer | None = None
        if self._own_rng.random() < IDEMPOTENT_SHARE:
            self._idempotent = IdempotentProducer(*self._party(IDEMPOTENT, self._own_rng))
            self._clients.append(self._idempotent)
        deeds = [each for each in sorted(DEEDS) if self._rng.random() < 0.4]
        self._add_operator(self._tps, deeds, self._clients)

    def run(self) -> ReplicationReport:
        """Lives through it and judges it."""
        self._begin({_TOPIC: len(self._tps)}, self._replicas)
        for client in self._clients:
            client.run(self._tps, self._rng.choice([100.0, 250.0]))
        self._disturb()
        if self._idempotent is not None:
            self._faults.run_all(self._own_rng)
        self._pass(self._seconds * 1000)
        self._calm(_HEAL_MS)
        for client in self._clients:
            client.stopping = True
        self._pass(_SETTLE_MS)
        self._rest()
        self.replication.final()
        if self._idempotent is not None:
            for tp, left in self._idempotent.unanswered.items():
                if left:
                    error = self._idempotent.refused.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR)
                    self.replication.unsent(tp, left[0].values, error)
        answers = self.replication.answers.values()
        return ReplicationReport(
            **self._reported(),
            acked=sum(len(each.acked) for each in answers),
            read=sum(len(each.read) for each in answers),
            anomalies=self.replication.anomalies,
        )

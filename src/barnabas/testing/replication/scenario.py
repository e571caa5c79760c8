"""`Scenario`: one seed of the model of replication, from an empty cluster to a verdict.

Brokers are killed, stopped, cut off from each other, lose their sessions and stop to copy; disks keep what was written
(the other simulation has losses of power). So every record that was acknowledged with acks=all must be there in the end,
however leaders changed, and consumers may never have seen one that is not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, TextIO

from barnabas.cluster.metadata.topics import NewTopic, TopicAdmin, TopicDefaults
from barnabas.cluster.store.memory import MemoryEnsemble
from barnabas.core.ids import TopicPartition
from barnabas.core.topic_config import TOPIC_CONFIG
from barnabas.log.config import LogConfig
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication.broker import Broker, Brokers, live
from barnabas.testing.replication.clients import Client, Consumer, Producer
from barnabas.testing.replication.judge import Judge
from barnabas.testing.replication.wire import Wire
from barnabas.testing.simulation.trace import Trace

LAG_MS: Final = 1_500
_BEGIN_MS: Final = 1_000.0
_SETTLE_MS: Final = 6_000.0
_TOPIC: Final = "orders"


@dataclass(slots=True)
class Report:
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
    anomalies: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = f"{len(self.anomalies)} ANOMALIES" if self.anomalies else "ok"
        return (
            f"seed {self.seed}: {verdict} trace {self.digest} virtual {self.virtual_s:.0f} s brokers {self.brokers} "
            f"min.isr {self.min_isr} acked {self.acked} read {self.read} faults {self.faults} of "
            f"{','.join(self.kinds)}"
        )


class Scenario:
    """A cluster, its clients and the faults that are injected."""

    def __init__(self, seed: int, seconds: float, sink: TextIO | None = None) -> None:
        self.seed = seed
        self._seconds = seconds
        rng = Random(seed)
        self._rng = Random(rng.getrandbits(64))
        self.clock = VirtualClock()
        self.trace = Trace(self.clock.time_s, sink)
        self._wire = Wire(self.clock, Random(rng.getrandbits(64)))
        self._ensemble = MemoryEnsemble(self.clock.time_ms)
        self.brokers: Brokers = {}
        count = self._rng.choice([2, 3, 3])
        self._min_isr = self._rng.randint(1, count - 1)
        self._kinds = tuple(sorted(self._rng.sample(sorted(KINDS), self._rng.randint(1, 3))))
        self._pause_ms = self._rng.choice([700.0, 2_000.0])
        self._injected = 0
        log_config = LogConfig(
            segment_bytes=self._rng.choice([1_000, 100_000]),
            segment_index_bytes=4_096,
            min_insync_replicas=self._min_isr,
        )
        settings = {"replica.lag.time.max.ms": str(LAG_MS)}
        for broker_id in range(count):
            self.brokers[broker_id] = Broker(
                broker_id,
                clock=self.clock,
                rng=Random(rng.getrandbits(64)),
                wire=self._wire,
                ensemble=self._ensemble,
                brokers=self.brokers,
                trace=self.trace,
                settings=settings,
                log_config=log_config,
            )
        self._tps = [TopicPartition(_TOPIC, number) for number in range(self._rng.randint(1, 2))]
        self.judge = Judge(self._tps, self.brokers, self._min_isr, self.trace)
        common = (self._wire, self.brokers, self.judge)
        self._clients: list[Client] = [
            kind(f"{kind.__name__.lower()}-{number}", self.clock, Random(rng.getrandbits(64)), *common)
            for number, kind in enumerate((Producer, Producer, Consumer))
        ]

    def run(self) -> Report:
        """Lives through it and judges it."""
        for broker in self.brokers.values():
            broker.start()
        self._pass(_BEGIN_MS)
        self._create_topic()
        self._pass(_BEGIN_MS)
        for client in self._clients:
            client.run(self._tps, self._rng.choice([60.0, 150.0]))
        self._inject_later()
        self._pass(self._seconds * 1000)
        self._heal()
        self._pass(_SETTLE_MS)
        for client in self._clients:
            client.stopping = True
        self._pass(_SETTLE_MS)
        self.judge.final()
        return self._report()

    def _report(self) -> Report:
        answers = self.judge.answers.values()
        return Report(
            seed=self.seed,
            kinds=self._kinds,
            brokers=len(self.brokers),
            min_isr=self._min_isr,
            digest=self.trace.digest,
            virtual_s=self.clock.time_s(),
            acked=sum(len(each.acked) for each in answers),
            read=sum(len(each.read) for each in answers),
            faults=self._injected,
            anomalies=self.judge.anomalies,
        )

    def _pass(self, by_ms: float) -> None:
        self.clock.run_until(self.clock.now_ms + by_ms)

    def _create_topic(self) -> None:
        ids = sorted(self.brokers)
        assignments = {tp.partition: self._rng.sample(ids, len(ids)) for tp in self._tps}
        broker = self.brokers[ids[0]]
        defaults = TopicDefaults(1, 1, TOPIC_CONFIG.parse({}))
        topics = TopicAdmin(broker.store, broker.metadata, defaults, self._rng)
        topics.create(NewTopic(_TOPIC, assignments=assignments))

    # --- faults ------------------------------------------------------------------------------------------

    def _inject_later(self) -> None:
        delay_ms = self._rng.expovariate(1 / self._pause_ms)
        if self.clock.now_ms + delay_ms < _BEGIN_MS * 2 + self._seconds * 1000:
            self.clock.call_later(delay_ms, self._inject)

    def _inject(self) -> None:
        kind = self._rng.choice(self._kinds)
        victims = list(live(self.brokers))
        if victims:
            self._injected += 1
            KINDS[kind](self, self._rng.choice(victims))
        self._inject_later()

    def _heal(self) -> None:
        self._wire.heal()
        for broker in self.brokers.values():
            broker.leader_calls.idle = False
            broker.start()

    def _kill(self, victim: Broker) -> None:
        victim.kill()
        self.clock.call_later(self._rng.expovariate(1 / 2_000), victim.start)

    def _restart(self, victim: Broker) -> None:
        victim.stop()
        self.clock.call_later(500 + self._rng.expovariate(1 / 1_000), victim.start)

    def _expire(self, victim: Broker) -> None:
        victim.expire_session(self._rng.expovariate(1 / 1_000))

    def _cut(self, victim: Broker) -> None:
        parties: list[Broker | Client] = [*self.brokers.values(), *self._clients]
        others = [party.name for party in parties if party is not victim]
        for other in self._rng.sample(others, self._rng.randint(1, len(others))):
            self.trace(f"fault: cut {victim.name} from {other}")
            self._wire.cut(victim.name, other)
        self.clock.call_later(self._rng.expovariate(1 / 2_500), self._wire.heal)

    def _idle(self, victim: Broker) -> None:
        calls = victim.leader_calls
        calls.idle = True
        self.clock.call_later(self._rng.expovariate(1 / 2_500), lambda: setattr(calls, "idle", False))


KINDS: Final[dict[str, Callable[[Scenario, Broker], None]]] = {
    "kill": Scenario._kill,  # noqa: SLF001 - the table of this class
    "restart": Scenario._restart,  # noqa: SLF001
    "session": Scenario._expire,  # noqa: SLF001
    "cut": Scenario._cut,  # noqa: SLF001
    "idle": Scenario._idle,  # noqa: SLF001
}

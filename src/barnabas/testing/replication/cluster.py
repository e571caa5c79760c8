"""`ClusterScenario`: what one seed of a model of brokers has, of whichever model it is: a clock, a wire, a
store, brokers, an operator, faults, and what is reported of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Generic, Protocol, TextIO, TypeVar, cast

from barnabas.cluster.metadata.topics import NewTopic
from barnabas.core.ids import TopicPartition
from barnabas.log.config import LogConfig
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication.broker import Brokers, SimulatedBroker
from barnabas.testing.replication.faults import Faults
from barnabas.testing.replication.judge import Judge, JudgedEnsemble
from barnabas.testing.replication.operator import Operator, topic_admin
from barnabas.testing.replication.wire import PartyNetwork
from barnabas.testing.simulation.trace import Trace

B = TypeVar("B", bound=SimulatedBroker)

_BEGIN_MS: Final = 1_000.0
_REST_TURN_MS: Final = 1_500.0
"""Longer than a call that is lost: a follower that waits for its answer only seems to rest."""
_REST_TURNS_MAX: Final = 20


class Named(Protocol):
    """A client, as the wire knows it."""

    name: str


@dataclass(slots=True, kw_only=True)
class ClusterReport:
    """What came of one seed."""

    seed: int
    kinds: tuple[str, ...]
    brokers: int
    min_isr: int
    digest: str
    virtual_s: float
    faults: int
    deeds: dict[str, int] = field(default_factory=dict)
    anomalies: list[str] = field(default_factory=list)

    def line(self, clients: str) -> str:
        """One line, with what the clients of this model did."""
        verdict = f"{len(self.anomalies)} ANOMALIES" if self.anomalies else "ok"
        deeds = ",".join(f"{deed}*{times}" for deed, times in sorted(self.deeds.items()))
        return (
            f"seed {self.seed}: {verdict} trace {self.digest} virtual {self.virtual_s:.0f} s brokers "
            f"{self.brokers} min.isr {self.min_isr} {clients} faults {self.faults} of {','.join(self.kinds)} "
            f"operator {deeds or 'idle'}"
        )


class ClusterScenario(Generic[B]):
    """A cluster, its operator, and the faults that are injected. A model adds its clients.

    A seed is one history: each party has a generator of its own, drawn in the order in which it is made.
    """

    def __init__(self, seed: int, seconds: float, sink: TextIO | None, rng: Random) -> None:
        self.seed = seed
        self._seconds = seconds
        self._of_parties = rng
        self._rng = self._new_rng()
        self.clock = VirtualClock()
        self.trace = Trace(self.clock.time_s, sink)
        self._wire = PartyNetwork(self.clock, self._new_rng())
        self._ensemble = JudgedEnsemble(self.clock.time_ms)
        self.brokers: dict[int, B] = {}
        self._operator: Operator
        self._faults: Faults

    def _new_rng(self) -> Random:
        return Random(self._of_parties.getrandbits(64))

    def _add_brokers(
        self,
        kind: Callable[..., B],
        count: int,
        *,
        min_isr: int,
        segment_bytes: int,
        settings: Mapping[str, str],
        **rest: Any,
    ) -> None:
        """Makes the brokers, with what else their `kind` takes, and the judge of what they replicate."""
        self._min_isr = min_isr
        self.replication = Judge(self._ensemble, self._as_brokers, min_isr, self.trace)
        log_config = LogConfig(
            segment_bytes=segment_bytes, segment_index_bytes=4_096, min_insync_replicas=min_isr
        )
        for broker_id in range(count):
            self.brokers[broker_id] = kind(
                broker_id,
                clock=self.clock,
                rng=self._new_rng(),
                wire=self._wire,
                ensemble=self._ensemble,
                brokers=self.brokers,
                judge=self.replication,
                trace=self.trace,
                settings=dict(settings),
                log_config=log_config,
                **rest,
            )

    @property
    def _as_brokers(self) -> Brokers:
        """The brokers for those who take any of the kind: they add none."""
        return cast("Brokers", self.brokers)

    def _party(self, name: str, rng: Random | None = None) -> tuple[Any, ...]:
        """The first arguments of a `clients.SimulatedClient`."""
        return name, self.clock, rng or self._new_rng(), self._wire, self.brokers, self.replication

    def _add_operator(self, tps: list[TopicPartition], deeds: list[str], clients: Sequence[Named]) -> None:
        """Makes the operator and the faults. They come last, after the clients."""
        self._operator = Operator(
            self.clock,
            self._new_rng(),
            self._wire,
            self._as_brokers,
            tps,
            least_replicas=self._min_isr,
            deeds=deeds,
        )
        self._faults = Faults(
            self.clock,
            self._new_rng(),
            self._wire,
            self._as_brokers,
            self._ensemble.table,
            self.trace,
            parties=[*(each.name for each in self.brokers.values()), *(each.name for each in clients)],
        )

    def _begin(self, topics: Mapping[str, int], replicas: int) -> None:
        """Starts the brokers and makes topics of so many partitions."""
        for broker in self.brokers.values():
            broker.start()
        self._pass(_BEGIN_MS)
        ids = sorted(self.brokers)
        admin = topic_admin(self.brokers[ids[0]], self._rng)
        for topic, partitions in topics.items():
            assignments = {each: self._rng.sample(ids, replicas) for each in range(partitions)}
            admin.create(NewTopic(topic, assignments=assignments))
        self._pass(_BEGIN_MS)

    def _disturb(self) -> None:
        """Lets the operator and the faults begin."""
        self._operator.run(self._rng.choice([500.0, 2_000.0]))
        self._faults.run()

    def _calm(self, heal_ms: float) -> None:
        """Ends both, and waits until the cluster has recovered."""
        self._operator.stopping = True
        self._faults.heal()
        self._pass(heal_ms)

    def _rest(self) -> None:
        """Lets time pass for as long as something moves: a follower that fetches little at a time is far
        behind, or a leader goes back to its preferred replica.
        """
        for _ in range(_REST_TURNS_MAX):
            before = self._places()
            self._pass(_REST_TURN_MS)
            if self._places() == before:
                return

    def _places(self) -> list[tuple[object, ...]]:
        """How far each replica is, and what its broker knows of it."""
        places: list[tuple[object, ...]] = []
        for broker in self.brokers.values():
            for tp in broker.replicas.partitions.online:
                log = broker.log(tp)
                ends = None if log is None else (log.log_end_offset, log.high_watermark)
                places.append((broker.id, tp, ends, broker.metadata.partition(tp)))
        return places

    def _pass(self, by_ms: float) -> None:
        self.clock.run_until(self.clock.now_ms + by_ms)

    def _reported(self) -> dict[str, Any]:
        """The fields of `ClusterReport` but for the anomalies."""
        return {
            "seed": self.seed,
            "kinds": self._faults.kinds,
            "brokers": len(self.brokers),
            "min_isr": self._min_isr,
            "digest": self.trace.digest,
            "virtual_s": self.clock.time_s(),
            "faults": self._faults.injected,
            "deeds": self._operator.done,
        }

"""`Faults`: what befalls the brokers of the model, and how it ends.

============  ==========================================================================================
kill          SIGKILL; its session lives on for a while; the broker comes again, or bounces before anyone
              noticed
restart       a controlled shutdown
session       the store takes a live broker for dead
freeze        SIGSTOP, often for longer than its session: a leader or controller of the past continues where
it
              stood
cut           some ways between a broker and others are closed
idle          the fetchers of a broker get no answers
stall         the store answers one broker, or all, only after seconds: its calls, its answers or both wait
clock         the wall clock of a broker jumps by up to minutes, and is set right later
all           (in scenarios with an idempotent producer) all brokers die at once while one of them stands
              still
disk          a broker dies and comes back with an empty disk, as soon as no ISR has it, and none
              that is proposed
============  ==========================================================================================

Disks keep what was written (the other simulation has losses of power), and a disk is lost only while no ISR
counts on it. So every record that was acknowledged with acks=all must be there in the end, however leaders
changed.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from barnabas.cluster.store import znodes
from barnabas.cluster.store.memory import MemoryTable
from barnabas.core.ids import TopicPartition
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication import rare
from barnabas.testing.replication.broker import Brokers, SimulatedBroker, live
from barnabas.testing.replication.wire import PartyNetwork
from barnabas.testing.simulation.trace import Trace

_SESSION_MS: Final = 1_500.0
_LOOK_MS: Final = 50.0
_PATIENT: Final = 0.5
"""How often a fault waits until it befalls somebody at a bad moment, and how long."""
_PATIENCE_MS: Final = 1_000.0
_GLANCE_MS: Final = 1.0
_STALL_MS_MAX: Final = 3_000.0
"""What waits cannot be healed, so it must be over some time before the end."""


class Faults:
    """Injects faults of some kinds until it is told to heal all."""

    def __init__(
        self,
        clock: VirtualClock,
        rng: Random,
        wire: PartyNetwork,
        brokers: Brokers,
        table: MemoryTable,
        trace: Trace,
        *,
        parties: Sequence[str],
    ) -> None:
        """`parties` are the names of all who use the wire."""
        self.kinds = tuple(sorted(rng.sample(sorted(KINDS), rng.randint(1, 3))))
        self.injected = 0
        self._clock = clock
        self._rng = rng
        self._wire = wire
        self._brokers = brokers
        self._table = table
        self._trace = trace
        self._parties = parties
        self._pause_ms = rng.choice([700.0, 2_000.0])
        self._healed = False

    def run(self) -> None:
        """Injects the next fault after a while, and so on."""
        self._clock.call_later(self._rng.expovariate(1 / self._pause_ms), self._inject)

    def _inject(self) -> None:
        if self._healed:
            return
        kind = self._rng.choice(self.kinds)
        if self._rng.random() < _PATIENT:
            self._strike(kind, self._rng.choice(list(rare.MOMENTS)), self._clock.now_ms + _PATIENCE_MS)
        else:
            self._strike(kind, None, self._clock.now_ms)
        self.run()

    def _strike(self, kind: str, moment: str | None, by_ms: float) -> None:
        """A fault befalls a broker in this moment, and any if there is none until then."""
        if self._healed:
            return
        victims = list(live(self._brokers))
        busy = [each for each in victims if moment is not None and rare.MOMENTS[moment](each, self._table)]
        if not busy and self._clock.now_ms < by_ms:
            self._clock.call_later(_GLANCE_MS, lambda: self._strike(kind, moment, by_ms))
        elif victims:
            self.injected += 1
            KINDS[kind](self, self._rng.choice(busy or victims))

    def run_all(self, rng: Random) -> None:
        """Kills all brokers now and then, soon after one was frozen: what was sent since is unanswered."""

        def freeze() -> None:
            victims = list(live(self._brokers))
            if self._healed or not victims:
                return
            rng.choice(victims).freeze(_SESSION_MS, 1)
            self._clock.call_later(rng.uniform(100, 600), kill)

        def kill() -> None:
            if self._healed:
                return
            self.injected += 1
            self._trace("fault: all brokers are killed")
            for broker in self._brokers.values():
                broker.kill()
                self._clock.call_later(rng.expovariate(1 / 300), broker.start)
            self._clock.call_later(1_500 + rng.expovariate(1 / 2_000), freeze)

        self._clock.call_later(rng.expovariate(1 / 1_000), freeze)

    def heal(self) -> None:
        """All ways are open, all clocks right, all brokers run."""
        self._healed = True
        self._wire.heal()
        for broker in self._brokers.values():
            broker.leader_calls.idle = False
            broker.clock.ahead_ms = 0
            broker.thaw()
            broker.start()

    def _soon(self, mean_ms: float, callback: Callable[[], object]) -> None:
        self._clock.call_later(self._rng.expovariate(1 / mean_ms), callback)

    def _kill(self, victim: SimulatedBroker) -> None:
        victim.kill()
        self._soon(2_000, victim.start)

    def _restart(self, victim: SimulatedBroker) -> None:
        victim.stop()
        self._clock.call_later(500 + self._rng.expovariate(1 / 1_000), victim.start)

    def _expire(self, victim: SimulatedBroker) -> None:
        victim.expire_session(min(self._rng.expovariate(1 / 1_000), _STALL_MS_MAX))

    def _freeze(self, victim: SimulatedBroker) -> None:
        victim.freeze(_SESSION_MS, self._rng.expovariate(1 / 100))
        self._soon(2_500, victim.thaw)

    def _cut(self, victim: SimulatedBroker) -> None:
        others = [name for name in self._parties if name != victim.name]
        for other in self._rng.sample(others, self._rng.randint(1, len(others))):
            self._trace(f"fault: cut {victim.name} from {other}")
            self._wire.cut(victim.name, other)
        self._soon(2_500, self._wire.heal)

    def _idle(self, victim: SimulatedBroker) -> None:
        calls = victim.leader_calls
        calls.idle = True
        self._soon(2_500, lambda: setattr(calls, "idle", False))

    def _stall(self, victim: SimulatedBroker) -> None:
        stalled = [victim] if self._rng.random() < 0.7 else list(live(self._brokers))
        mean_ms = self._rng.choice([300.0, 2_000.0])
        calls_ms, answers_ms = self._rng.choice([(1, 0), (0, 1), (1, 1)])
        for broker in stalled:
            by_ms = min(self._rng.expovariate(1 / mean_ms), _STALL_MS_MAX)
            self._trace(f"fault: the store keeps {broker.name} waiting")
            broker.store.stall(calls_ms * by_ms, answers_ms * by_ms)

    def _jump(self, victim: SimulatedBroker) -> None:
        clock = victim.clock
        clock.ahead_ms += int(self._rng.choice([-1, 1]) * self._rng.expovariate(1 / 60_000))
        self._trace(f"fault: the clock of {victim.name} is {clock.ahead_ms} ms ahead")
        self._soon(3_000, lambda: setattr(clock, "ahead_ms", 0))

    def _lose_disk(self, victim: SimulatedBroker) -> None:
        victim.kill()
        life = victim.lives

        def look() -> None:
            if victim.lives != life:
                return  # it was started meanwhile, with its disk
            if self._in_an_isr(victim.id):
                self._clock.call_later(_LOOK_MS, look)
                return
            self._trace(f"fault: the disk of {victim.name} is lost")
            victim.lose_disk()
            victim.start()

        look()

    def _in_an_isr(self, broker_id: int) -> bool:
        for topic in self._table.children(znodes.TOPICS):
            path = znodes.partitions_path(topic)
            for number in self._table.children(path):
                znode = self._table.find(znodes.partition_state_path(TopicPartition(topic, int(number))))
                if znode is None:
                    return True  # about to be written
                state = znodes.decode_partition_state(znode.data, znode.stat)
                if broker_id in state.leader_and_isr.isr:
                    return True
        # What a leader has proposed may still be written. With ZooKeeper no controller sees that the replica
        # is of an earlier life (KIP-903 is for KRaft alone), in Kafka 3.9 neither.
        return any(
            broker_id in partition.isr_state.maximal
            for broker in self._brokers.values()
            for partition in broker.replicas.partitions
            if partition.leader_log is not None
        )


KINDS: Final[dict[str, Callable[[Faults, SimulatedBroker], None]]] = {
    "kill": Faults._kill,  # noqa: SLF001 - the table of this class
    "restart": Faults._restart,  # noqa: SLF001
    "session": Faults._expire,  # noqa: SLF001
    "freeze": Faults._freeze,  # noqa: SLF001
    "cut": Faults._cut,  # noqa: SLF001
    "idle": Faults._idle,  # noqa: SLF001
    "stall": Faults._stall,  # noqa: SLF001
    "clock": Faults._jump,  # noqa: SLF001
    "disk": Faults._lose_disk,  # noqa: SLF001
}

"""`FaultPlan`: faults of brokers, the journal, the network and members, and how they end."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from barnabas.core.errors import ErrorCode
from barnabas.testing.clock import VirtualClock
from group_model.host import Host
from group_model.journal import ReplicatedPartition, Weather
from group_model.leadership import Leadership
from group_model.member import Member
from group_model.observer import Observer
from group_model.wire import Wire

_REFUSALS: Final = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class FaultPlan:
    """Injects faults by their kind. Every fault ends by itself; `heal` ends those that are left."""

    def __init__(
        self,
        rng: Random,
        clock: VirtualClock,
        leadership: Leadership,
        *,
        hosts: Sequence[Host],
        partitions: Sequence[ReplicatedPartition],
        members: Sequence[Member],
        wire: Wire,
        observer: Observer,
    ) -> None:
        self.injected = 0
        self.over = False
        self._rng = rng
        self._clock = clock
        self._leadership = leadership
        self._hosts = hosts
        self._partitions = partitions
        self._members = members
        self._wire = wire
        self._observer = observer

    def inject(self, kind: str) -> None:
        """One fault of this kind."""
        self.injected += 1
        self._observer.event(f"fault: {kind}")
        KINDS[kind](self)

    def heal(self) -> None:
        """Ends all of it: brokers and members run, the journal and the network are well."""
        self.over = True
        self._observer.event("all faults are over")
        self._wire.loss = 0.0
        for partition in self._partitions:
            self._clear_up(partition)
        self._leadership.tell_all()
        for host in self._hosts:
            if not host.alive:
                self._leadership.start(host)
        for member in self._members:
            if member.life.alive:
                member.life.resume()

    def _later(self, low_ms: float, high_ms: float, end: Callable[[], object]) -> None:
        """Ends a fault after a while, unless all are over."""
        self._clock.call_later(self._rng.uniform(low_ms, high_ms), lambda: None if self.over else end())

    # --- brokers ------------------------------------------------------------------------------------------

    def move(self) -> None:
        """A new leader, of which all brokers hear."""
        self._leadership.move(self._rng.choice(self._partitions))

    def move_unnoticed(self) -> None:
        """A new leader, and the old one does not know for a while."""
        self._leadership.move(self._rng.choice(self._partitions), late_ms=self._rng.uniform(500, 9000))

    def kill_broker(self) -> None:
        """A broker ends without a word, and comes back."""
        alive = self._leadership.alive
        if not alive:
            return
        host = self._rng.choice(alive)
        self._leadership.kill(host)
        self._later(300, 6000, lambda: None if host.alive else self._leadership.start(host))

    # --- the journal --------------------------------------------------------------------------------------

    def refuse(self) -> None:
        """Appends are refused."""
        partition = self._rng.choice(self._partitions)
        partition.weather.refusal = self._rng.choice(_REFUSALS)
        self._later(200, 6000, lambda: self._clear_up(partition))

    def hang(self) -> None:
        """Nothing is replicated."""
        partition = self._rng.choice(self._partitions)
        partition.weather.hangs = True
        self._later(500, 9000, lambda: self._clear_up(partition))

    def shrink(self) -> None:
        """Appends find too few replicas, after the fact."""
        partition = self._rng.choice(self._partitions)
        partition.weather.shrinks = True
        self._later(200, 4000, lambda: self._clear_up(partition))

    def slow(self) -> None:
        """Replicas take their time."""
        partition = self._rng.choice(self._partitions)
        partition.weather.replication_ms = self._rng.choice([50.0, 300.0, 1500.0])
        self._later(1000, 10_000, lambda: self._clear_up(partition))

    def _clear_up(self, partition: ReplicatedPartition) -> None:
        partition.weather = Weather()
        partition.weather_changed()

    # --- the network --------------------------------------------------------------------------------------

    def lose(self) -> None:
        """Requests and answers get lost."""
        self._wire.loss = self._rng.choice([0.02, 0.1, 0.4])
        self._later(500, 8000, lambda: setattr(self._wire, "loss", 0.0))

    # --- members ------------------------------------------------------------------------------------------

    def kill_member(self) -> None:
        """A member ends without a word; it may come back."""
        member = self._any_member(alive=True)
        if member is not None:
            member.crash()
            if self._rng.random() < 0.7:
                self._later(100, 12_000, member.start)

    def pause_member(self) -> None:
        """A member stands still, perhaps longer than its session."""
        member = self._any_member(alive=True)
        if member is not None:
            life = member.life
            life.pause()
            self._observer.event(f"{life.name} is paused")
            self._later(200, 2.5 * member.habits.session_timeout_ms, life.resume)

    def leave(self) -> None:
        """A member says good-bye; another time it may come again."""
        member = self._any_member(alive=True)
        if member is not None:
            member.stopping = True
            if self._rng.random() < 0.7:
                self._later(1000, 12_000, member.start)

    def come(self) -> None:
        """A member that is not there comes."""
        member = self._any_member(alive=False)
        if member is not None:
            member.start()

    def _any_member(self, *, alive: bool) -> Member | None:
        found = [member for member in self._members if member.life.alive is alive]
        return self._rng.choice(found) if found else None

    def __repr__(self) -> str:
        return f"<FaultPlan injected={self.injected}{' over' if self.over else ''}>"


KINDS: Final[dict[str, Callable[[FaultPlan], None]]] = {
    "come": FaultPlan.come,
    "hang": FaultPlan.hang,
    "kill-broker": FaultPlan.kill_broker,
    "kill-member": FaultPlan.kill_member,
    "leave": FaultPlan.leave,
    "lose": FaultPlan.lose,
    "move": FaultPlan.move,
    "move-unnoticed": FaultPlan.move_unnoticed,
    "pause-member": FaultPlan.pause_member,
    "refuse": FaultPlan.refuse,
    "shrink": FaultPlan.shrink,
    "slow": FaultPlan.slow,
}

"""`Leadership`: what the controller does for groups:
elects leaders and informs brokers, sooner or later, in order.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from barnabas.testing.clock import VirtualClock
from barnabas.testing.sometimes import sometimes
from group_model.host import Host
from group_model.journal import ReplicatedPartition
from group_model.observer import Observer


class Leadership:
    """Every living broker hears of every election, each in the order in which they were held."""

    def __init__(
        self,
        clock: VirtualClock,
        rng: Random,
        hosts: Sequence[Host],
        partitions: Sequence[ReplicatedPartition],
        observer: Observer,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._hosts = hosts
        self._partitions = partitions
        self._observer = observer
        self._news: list[deque[Callable[[], object]]] = [deque() for _ in hosts]
        """The elections that each broker has not heard of yet."""
        self._told_until_ms = [0.0] * len(hosts)
        self._runs = [0] * len(hosts)

    @property
    def alive(self) -> list[Host]:
        """Brokers that run."""
        return [host for host in self._hosts if host.alive]

    def start(self, host: Host) -> None:
        """Starts a broker, informs it of all leaders, and makes it leader where there is none."""
        host.start()
        self._runs[host.number] += 1
        self._observer.event(f"broker {host.number} starts")
        for partition in self._partitions:
            if partition.leader is None:
                self.elect(partition, host)
            else:
                self._tell(host, partition, self._delay_ms())

    def kill(self, host: Host) -> None:
        """Kills a broker; what it led gets another leader when that is noticed."""
        self._observer.event(f"broker {host.number} is killed")
        if any(host.is_rebalancing(each.number) for each in self._partitions if each.leader == host.number):
            sometimes("a coordinator dies while a rebalance is under way")
        host.kill()
        for partition in self._partitions:
            if partition.leader == host.number:
                partition.depose()
                self._clock.call_later(self._rng.uniform(100, 2500), partial(self._fill, partition))

    def move(self, partition: ReplicatedPartition, *, late_ms: float = 0.0) -> None:
        """Makes another living broker the leader; the old one may hear of it late."""
        others = [host for host in self.alive if host.number != partition.leader]
        if others:
            leader = next((host for host in self.alive if host.number == partition.leader), None)
            if leader is not None and leader.is_rebalancing(partition.number):
                sometimes("a coordinator moves while a rebalance is under way")
            self.elect(partition, self._rng.choice(others), late_ms=late_ms)

    def elect(self, partition: ReplicatedPartition, leader: Host, *, late_ms: float = 0.0) -> None:
        """Holds an election."""
        before = partition.leader
        epoch = partition.elect(leader.number)
        self._observer.event(f"broker {leader.number} leads {partition.number} in epoch {epoch}")
        for host in self.alive:
            self._tell(host, partition, self._delay_ms() + (late_ms if host.number == before else 0.0))

    def _fill(self, partition: ReplicatedPartition) -> None:
        if partition.leader is None and self.alive:
            self.elect(partition, self._rng.choice(self.alive))

    def _tell(self, host: Host, partition: ReplicatedPartition, delay_ms: float) -> None:
        leader, epoch, run = partition.leader, partition.leader_epoch, self._runs[host.number]
        until_ms = max(self._told_until_ms[host.number], self._clock.now_ms) + delay_ms
        self._told_until_ms[host.number] = until_ms

        def tell() -> None:
            if not host.alive or run != self._runs[host.number]:
                return
            if leader == host.number:
                host.elected(partition.number, epoch)
            else:
                host.resigned(partition.number, epoch, leader)

        news = self._news[host.number]
        news.append(tell)
        self._clock.call_later(until_ms - self._clock.now_ms, lambda: news.popleft()() if news else None)

    def tell_all(self) -> None:
        """All brokers hear of everything now."""
        for news in self._news:
            while news:
                news.popleft()()
        self._told_until_ms = [self._clock.now_ms] * len(self._hosts)

    def _delay_ms(self) -> float:
        return self._rng.uniform(0.5, 20.0)

    def __repr__(self) -> str:
        return f"<Leadership of {[partition.leader for partition in self._partitions]}>"

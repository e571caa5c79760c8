"""`Scenario`: one seed, from brokers without groups through faults to brokers without groups.

The stations, on the virtual clock::

    live     faults strike the members of all groups, their coordinators, the journal and the network
    settle   all faults end; within `SETTLE_MS` every partition has its owner
    hand on  every partition of the journal gets another leader; members notice it only when they look for it
    part     all members leave or die; their groups become empty
    expire   offsets grow old; no group, no offset and no timer may be left, but for the one that looks for
    them
"""

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final, TextIO

from barnabas.testing.clock import VirtualClock
from barnabas.testing.simulation.trace import Trace
from group_model.anomaly import Anomalies
from group_model.classic_member import ClassicMember
from group_model.consumer_member import ConsumerMember
from group_model.faults import FaultPlan
from group_model.host import Host
from group_model.journal import ReplicatedPartition
from group_model.leadership import Leadership
from group_model.log_watch import LogWatch
from group_model.member import Member, MemberContext
from group_model.observer import Observer
from group_model.plan import CHECK_INTERVAL_MS, RETENTION_MS, GroupPlan, Plan
from group_model.simple_member import SimpleMember
from group_model.topics import Topics
from group_model.topics_image import SimulatedTopics
from group_model.wire import Call, Wire

if TYPE_CHECKING:
    from barnabas.core.ids import TopicPartition

SETTLE_MS: Final = 60_000.0
"""Longer than the longest session and three rebalances after each other, one of them with a member that is
gone.
"""
_STEP_MS: Final = 1000.0
_STILL_MS: Final = 11_000.0
_HAND_ON_MS: Final = 8_000.0
_PART_MS: Final = 30_000.0
_EXPIRE_MS: Final = RETENTION_MS + 3 * CHECK_INTERVAL_MS

_KINDS: Final[dict[str, type[Member]]] = {
    "classic": ClassicMember,
    "consumer": ConsumerMember,
    "simple": SimpleMember,
}


@dataclass(slots=True)
class Report:
    """What came of one seed."""

    seed: int
    plan: Plan
    digest: str
    virtual_s: float
    requests: int
    faults: int
    anomalies: Anomalies = field(default_factory=Anomalies)

    def __str__(self) -> str:
        verdict = f"{len(self.anomalies)} ANOMALIES" if self.anomalies else "ok"
        members = sum(len(group.members) for group in self.plan.groups)
        return (
            f"seed {self.seed}: {verdict} trace {self.digest} virtual {self.virtual_s:.0f} s "
            f"requests {self.requests} brokers {self.plan.brokers} groups {len(self.plan.groups)} "
            f"members {members} faults {self.faults} of {','.join(self.plan.faults)}"
        )


class Scenario:
    """A cluster's coordinators, their journal, the groups, and what befalls them."""

    def __init__(self, seed: int, seconds: float, sink: TextIO | None = None) -> None:
        self.seed = seed
        rng = Random(seed)
        self.clock = VirtualClock()
        self.trace = Trace(self.clock.time_s, sink)
        self.plan = plan = Plan.draw(Random(rng.getrandbits(64)))
        self.observer = Observer(self.clock, self.trace)
        self.log = LogWatch(self.observer)
        self.topics = Topics(plan.topics, self.clock)
        self.partitions = [
            ReplicatedPartition(number, self.clock, Random(rng.getrandbits(64)))
            for number in range(plan.partitions)
        ]
        for partition in self.partitions:
            partition.appended, partition.truncated = self.observer.appended, self.observer.truncated
        self.hosts = [
            Host(
                number,
                plan.config,
                self.clock,
                Random(rng.getrandbits(64)),
                partitions=self.partitions,
                topics=SimulatedTopics(self.topics),
                observer=self.observer,
            )
            for number in range(plan.brokers)
        ]
        self.observer.is_leader = self._is_leader
        self.observer.mixed = {group.group_id for group in plan.groups if group.mixed}
        self.observer.believed = lambda number: self.partitions[number].believed
        self.wire = Wire(self.clock, Random(rng.getrandbits(64)), self.hosts)
        self.leadership = Leadership(
            self.clock, Random(rng.getrandbits(64)), self.hosts, self.partitions, self.observer
        )
        self._context = context = MemberContext(self.clock, self.wire, self.topics, self.observer)
        self.members: dict[str, list[Member]] = {
            group.group_id: [
                _KINDS[kind](f"{group.group_id}-{index}", habits, context, Random(rng.getrandbits(64)))
                for index, (kind, habits) in enumerate(group.members)
            ]
            for group in plan.groups
        }
        self._everybody = [member for members in self.members.values() for member in members]
        self._rng = Random(rng.getrandbits(64))
        self._live_ms = seconds * 1000
        self.faults = FaultPlan(
            Random(rng.getrandbits(64)),
            self.clock,
            self.leadership,
            hosts=self.hosts,
            partitions=self.partitions,
            members=self._everybody,
            wire=self.wire,
            observer=self.observer,
        )

    def run(self) -> Report:
        """Lives through all stations and judges them."""
        with self.log.attached():
            return self._run()

    def _run(self) -> Report:
        for host in self.hosts:
            self.leadership.start(host)
        for group in self.plan.groups:
            for member in self.members[group.group_id][: group.present]:
                self.clock.call_later(self._rng.uniform(10, 4000), member.start)
        self._live()
        if not self.observer.anomalies:
            self._settle()
        if not self.observer.anomalies:
            self._hand_on()
        if not self.observer.anomalies:
            self._part()
        if not self.observer.anomalies:
            self._expire()
        return Report(
            self.seed,
            self.plan,
            self.trace.digest,
            self.clock.time_s(),
            self.observer.requests,
            self.faults.injected,
            self.observer.anomalies,
        )

    def _is_leader(self, call: Call) -> bool:
        partition = self.partitions[call.leadership[0]]
        return self.hosts[call.broker].leads_truly(partition)

    # --- stations -----------------------------------------------------------------------------------------

    def _live(self) -> None:
        while self.clock.now_ms < self._live_ms and not self.observer.anomalies:
            self.clock.run_until(self.clock.now_ms + self._rng.expovariate(1 / self.plan.pause_ms))
            self.faults.inject(self._rng.choice(self.plan.faults))
        self.faults.heal()
        self._context.calm = True

    def _settle(self) -> None:
        """Waits until nothing moves any more, for longer than a dead member's session."""
        deadline_ms = self.clock.now_ms + SETTLE_MS
        unsettled, standing, since_ms = self._unsettled(), self._standing(), self.clock.now_ms
        while self.clock.now_ms < deadline_ms:
            self.clock.run_until(self.clock.now_ms + _STEP_MS)
            unsettled, now = self._unsettled(), self._standing()
            if unsettled or now != standing:
                standing, since_ms = now, self.clock.now_ms
            elif self.clock.now_ms - since_ms > _STILL_MS:
                return
        for problem in unsettled or [f"groups go on changing: {standing}"]:
            self.observer.complain("unsettled", problem)

    def _standing(self) -> dict[str, object]:
        return {member.name: member.standing() for member in self._everybody if member.life.alive}

    def _unsettled(self) -> list[str]:
        problems = (self._problem_of(group) for group in self.plan.groups)
        return [problem for problem in problems if problem]

    def _problem_of(self, group: GroupPlan) -> str | None:
        """Why a group is not settled: every partition wants one owner, every member its share."""
        members = [member for member in self.members[group.group_id] if member.life.alive]
        if not members:
            return None
        waiting = [member for member in members if member.stopping or not member.settled]
        if waiting:
            return f"{waiting} have no part in {group.group_id}"
        owners: dict[TopicPartition, Member] = {}
        for member in members:
            for tp in member.owned:
                if tp in owners:
                    return f"{tp} of {group.group_id} has two owners: {owners[tp]} and {member}"
                owners[tp] = member
        partitions = self.topics.tps(group.topics)
        free = [tp for tp in partitions if tp not in owners]
        if free:
            return f"{list(map(str, free))} of {group.group_id} have no owner among {members}"
        idle = [member for member in members if not member.owned]
        return f"{idle} have nothing of {partitions}" if idle and len(partitions) >= len(members) else None

    def _hand_on(self) -> None:
        """What a leader has in memory its successor finds in the journal: the groups go on as they are."""
        before = self._standing()
        for partition in self.partitions:
            self.leadership.move(partition)
        self.clock.run_until(self.clock.now_ms + _HAND_ON_MS)
        for member in self._everybody:
            standing = before.get(member.name)
            if standing is not None and member.standing() != standing:
                self.observer.complain(
                    "forgotten", f"{member} was {standing}, and is {member.standing()} under the next leader"
                )

    def _part(self) -> None:
        for member in self._everybody:
            if self._rng.random() < 0.5:
                member.stopping = True
            else:
                member.crash()
        self.clock.run_until(self.clock.now_ms + _PART_MS)
        for host in self.hosts:
            for call in host.parked:
                self.observer.complain("left waiting", f"{call} when all members were gone")
            for group_id, state in host.groups():
                if state != "Empty":
                    self.observer.complain("unsettled", f"{group_id} is {state} without members")

    def _expire(self) -> None:
        self.clock.run_until(self.clock.now_ms + _EXPIRE_MS)
        for host in self.hosts:
            for group_id, state in host.groups():
                self.observer.complain("leak", f"{group_id} ({state}) is still there when all has expired")
            if len(host.armed) != 1:
                self.observer.complain("leak", f"{host} has timers when nothing is left: {host.armed}")
            host.shutdown()
            if host.armed:
                self.observer.complain("leak", f"{host} has timers after its end: {host.armed}")

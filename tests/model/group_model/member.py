"""`Member`: what all model members have in common: a process, a coordinator to find, partitions to read.

A member is a generator over `Pending`s, one more for its heartbeats. What it does follows the clients' own
code (``ConsumerCoordinator``, ``AbstractCoordinator``), which is what the coordinator has to cope with.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.testing.clock import VirtualClock
from group_model.life import Life
from group_model.observer import Observer
from group_model.topics import Topics
from group_model.wire import Asked, Reply, Wire

LOST_COORDINATOR: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}
)
"""After these a client looks for the coordinator again."""

LATE_COMMITS: Final = 0.1
"""How often a commit is followed by one of an older generation."""
_COMMIT_TRIES: Final = 3


@dataclass(slots=True)
class MemberContext:
    """What members live in."""

    clock: VirtualClock
    wire: Wire
    topics: Topics
    observer: Observer
    calm: bool = False
    """Whether all members do what is expected of them."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How a member behaves; drawn once."""

    group_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    poll_ms: float = 500.0
    polls_a_commit: int = 3
    session_timeout_ms: int = 6000
    rebalance_timeout_ms: int = 8000
    heartbeat_ms: float = 2000.0
    protocols: tuple[str, ...] = ("range",)
    """Assignors of a classic member, the dearest first."""
    join_version: int = 9
    laziness: float = 0.0
    """How often, as leader, it never hands out the assignment."""
    leaves: bool = True
    """Whether it says good-bye (static members do not)."""


@dataclass(slots=True)
class Positions:
    """What a member owns, and how far it has read; None before it has asked for the committed offset."""

    at: dict[TopicPartition, int | None] = field(default_factory=dict)

    @property
    def known(self) -> list[TopicPartition]:
        """Partitions that can be read."""
        return [tp for tp, position in self.at.items() if position is not None]

    @property
    def unknown(self) -> list[TopicPartition]:
        """Partitions whose position must be asked for."""
        return [tp for tp, position in self.at.items() if position is None]


class Member:
    """One consumer: a name that stays, and a life after the other."""

    commit_version: ClassVar[int] = 9

    def __init__(self, name: str, habits: Habits, context: MemberContext, rng: Random) -> None:
        self.name = name
        self.habits = habits
        self.context = context
        self.rng = rng
        self.life = Life(name, context.clock)
        self.life.alive = False
        self.positions = Positions()
        self.coordinator: int | None = None
        self.stopping = False
        self.refused: ErrorCode | None = None
        """Why it has given up, if it has."""
        self._lives = 0
        self._commits = 0

    # --- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process begins, unless there is one."""
        if self.life.alive:
            return
        self._lives += 1
        self.life = Life(f"{self.name}.{self._lives}", self.context.clock)
        self.positions = Positions()
        self.coordinator = None
        self.stopping = False
        self.refused = None
        self.begin()
        self.context.observer.event(f"{self.life.name} starts")
        self._main()

    def begin(self) -> None:
        """Forgets what a process does not remember."""

    def main(self) -> Steps[None]:
        """The life of one process."""
        raise NotImplementedError

    @steps
    def _main(self) -> Steps[None]:
        life = self.life
        try:
            yield from self.main()
        except Exception as error:  # a mistake of the model, or an answer without a meaning
            self.context.observer.crashed(self.name, error)
        life.die()

    def crash(self) -> None:
        """Kill -9."""
        if self.life.alive:
            self.context.observer.event(f"{self.life.name} is killed")
            self.life.die()
            self.positions = Positions()

    @property
    def owned(self) -> list[TopicPartition]:
        """What it believes to own."""
        return list(self.positions.at)

    @property
    def settled(self) -> bool:
        """Whether it has nothing to wait for: a member of the current generation, or nothing at all."""
        return not self.life.alive

    def standing(self) -> tuple[object, ...]:
        """Who it is in its group, and what it owns; the same as long as nothing happens."""
        return (*self.identity(), tuple(sorted(self.owned)))

    # --- talking ------------------------------------------------------------------------------------------

    def call(self, request: Asked, version: int, timeout_ms: float = 10_000.0) -> Any:
        """Sends a request to the coordinator; a `Pending` of a `Reply`."""
        assert self.coordinator is not None
        return self.context.wire.call(
            self.life,
            self.coordinator,
            self.habits.group_id,
            request,
            version,
            client_id=self.name,
            timeout_ms=timeout_ms,
        )

    def find_coordinator(self) -> Steps[None]:
        """Asks until a broker says which one it is."""
        while self.coordinator is None:
            self.coordinator = yield self.context.wire.find_coordinator(self.life, self.habits.group_id)
            if self.coordinator is None:
                yield self.life.sleep(self.rng.uniform(50, 200))

    # --- reading ------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Processes some of what is there."""
        context, group_id = self.context, self.habits.group_id
        for tp in self.positions.known:
            begin = self.positions.at[tp] or 0
            end = min(context.topics.end(tp), begin + 50)
            if end > begin:
                context.observer.processed(group_id, self.name, tp, begin, end)
                self.positions.at[tp] = end

    def fetch_positions(self) -> Steps[ErrorCode]:
        """Asks for the committed offsets of what it owns and does not know yet."""
        wanted = self.positions.unknown
        if not wanted or self.coordinator is None:
            return ErrorCode.NONE
        reply: Reply = yield self.call(self.fetch_request(wanted), 9)
        if not reply.ok:
            return reply.code
        for topic in reply.body.topics:
            for partition in topic.partitions:
                tp = TopicPartition(topic.name, partition.partition_index)
                if tp in self.positions.at:
                    self.positions.at[tp] = max(0, partition.committed_offset)
        return ErrorCode.NONE

    def fetch_request(self, tps: list[TopicPartition]) -> OffsetFetchRequestGroup:
        """What it asks for; members of the new protocol say who they are."""
        return OffsetFetchRequestGroup(
            group_id=self.habits.group_id,
            topics=[
                OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(tps).items()
            ],
        )

    def commit(self) -> Steps[ErrorCode]:
        """Commits all positions; tries a few times where trying again may help."""
        code = ErrorCode.NONE
        for _ in range(_COMMIT_TRIES):
            known = {tp: self.positions.at[tp] or 0 for tp in self.positions.known}
            if not known or self.coordinator is None:
                return ErrorCode.NONE
            reply: Reply = yield self.call(self.commit_request(known), self.commit_version)
            code = reply.code
            if code not in {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}:
                break
            yield self.life.sleep(self.rng.uniform(50, 300))
        return code

    def commit_late(self) -> Steps[None]:
        """A commit of the generation before, as if it had been long on its way.
        Its answer changes nothing.
        """
        known = {tp: self.positions.at[tp] or 0 for tp in self.positions.known}
        if known and self.coordinator is not None and self.identity()[0] > 1:
            request = self.commit_request(known)
            request.generation_id_or_member_epoch -= 1
            yield self.call(request, self.commit_version)

    def commit_request(self, offsets: dict[TopicPartition, int]) -> OffsetCommitRequest:
        """The commit of these offsets, by the member's present identity."""
        generation, member_id = self.identity()
        self._commits += 1
        # Every commit has a note of its own, by which a fetched one is recognised.
        note = f"{self.life.name}#{self._commits}"
        return OffsetCommitRequest(
            group_id=self.habits.group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=self.habits.instance_id if member_id else None,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[TopicPartition(topic, number)],
                            committed_metadata=note,
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(list(offsets)).items()
            ],
        )

    def identity(self) -> tuple[int, str]:
        """Generation or member epoch, and member id."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.life!r} owns={len(self.positions.at)}>"


def by_topic(tps: list[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic."""
    topics: dict[str, list[int]] = {}
    for tp in tps:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics

"""`ClassicMember`: a consumer that joins and syncs, as Kafka's clients do (``AbstractCoordinator``)."""

from typing import Final

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from group_model.assigning import (
    COOPERATIVE,
    Subscription,
    assign,
    assignment_bytes,
    read_assignment,
    read_subscription,
    subscription_bytes,
)
from group_model.member import LATE_COMMITS, LOST_COORDINATOR, Member
from group_model.wire import Reply

LATE_SYNCS: Final = 0.1
"""How often a SyncGroup is preceded by the one of an older generation."""
_NO_GENERATION: Final = -1
_OTHERS: Final[dict[int, tuple[int, int, int, int]]] = {
    2: (1, 1, 1, 3),
    4: (2, 2, 2, 5),
    5: (3, 3, 3, 7),
    7: (5, 4, 4, 8),
    9: (5, 4, 5, 9),
}
"""By the version of JoinGroup: those of SyncGroup, Heartbeat, LeaveGroup, OffsetCommit in the same client."""


class ClassicMember(Member):
    """Eager, or cooperative where that is its protocol; static where it has an instance id."""

    def begin(self) -> None:
        """A process knows no member id at first."""
        self.member_id = ""
        self.generation = _NO_GENERATION
        self.assigned_in = _NO_GENERATION
        """The generation that what it owns was assigned in."""
        self._rejoin = True
        self._joining = False
        self._prepared = False
        self._last_sync: SyncGroupRequest | None = None
        sync, beat, leave, commit = _OTHERS[self.habits.join_version]
        self._sync_version, self._heartbeat_version, self._leave_version = sync, beat, leave
        self.commit_version = commit  # type: ignore[misc]
        self._beats()

    @property
    def cooperative(self) -> bool:
        """Whether it keeps what it owns through a rebalance."""
        return self.habits.protocols[0] == COOPERATIVE

    @property
    def settled(self) -> bool:
        """Whether it is dead, or has its part of the current generation."""
        return not self.life.alive or (
            not self._rejoin and self.coordinator is not None and self.generation == self.assigned_in
        )

    def identity(self) -> tuple[int, str]:
        """As in requests."""
        return self.generation, self.member_id

    def main(self) -> Steps[None]:
        """Finds, joins, polls, until it is stopped or refused."""
        while not self.stopping and self.refused is None:
            if self.coordinator is None:
                yield from self.find_coordinator()
            elif self._rejoin:
                yield from self._join_group()
            else:
                yield from self._poll()
        if self.refused is None:
            yield from self._leave()

    # --- joining ------------------------------------------------------------------------------------------

    def _join_group(self) -> Steps[None]:
        if not self._prepared:
            yield from self._prepare()
        if self.coordinator is None:
            return
        self._joining = True
        reply: Reply = yield self.call(
            self._join_request(), self.habits.join_version, self.habits.rebalance_timeout_ms + 5000.0
        )
        if not reply.ok:
            self._joining = False
            yield from self._join_refused(reply)
            return
        joined: JoinGroupResponse = reply.body
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self._rejoin = self._joining = False
        yield from self._sync_group(joined)

    def _prepare(self) -> Steps[None]:
        """Eager members give up everything before they join; all commit first (``onJoinPrepare``)."""
        self._prepared = True
        if self.generation != _NO_GENERATION and self.positions.at:
            code = yield from self.commit()
            # That it has to rejoin is known already; that it is no member any more is new.
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._told("commit", code)
        if not self.cooperative:
            self.positions.at.clear()

    def _join_request(self) -> JoinGroupRequest:
        habits = self.habits
        owned = tuple(sorted(self.owned)) if self.cooperative else ()
        metadata = subscription_bytes(Subscription(habits.topics, owned, self.assigned_in if owned else -1))
        return JoinGroupRequest(
            group_id=habits.group_id,
            session_timeout_ms=habits.session_timeout_ms,
            rebalance_timeout_ms=habits.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=habits.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in habits.protocols],
        )

    def _join_refused(self, reply: Reply) -> Steps[None]:
        if reply.code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.body.member_id
            return
        if reply.code is ErrorCode.GROUP_MAX_SIZE_REACHED:
            self.refused = reply.code
            self._lose(forget_id=True)
            return
        self._told("join", reply.code)
        yield self.life.sleep(self.rng.uniform(50, 400))

    # --- syncing ------------------------------------------------------------------------------------------

    def _sync_group(self, joined: JoinGroupResponse) -> Steps[None]:
        generation = self.generation
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            if not self.context.calm and self.rng.random() < self.habits.laziness:
                yield from self._idle(generation)
            assignments = self._assignments(joined)
        if self.coordinator is None or self.generation != generation or self.refused:
            self._rejoin = True
            return
        last = self._last_sync
        if last is not None and last.generation_id < generation and self.rng.random() < LATE_SYNCS:
            # As if it had been long on its way. Its answer changes nothing.
            yield self.call(last, self._sync_version)
        request = self._last_sync = SyncGroupRequest(
            group_id=self.habits.group_id,
            generation_id=generation,
            member_id=self.member_id,
            group_instance_id=self.habits.instance_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        if self.coordinator is None:
            self._rejoin = True
            return
        reply: Reply = yield self.call(
            request, self._sync_version, self.habits.rebalance_timeout_ms + 10_000.0
        )
        if self.generation != generation:
            self._rejoin = True
        elif reply.ok:
            self._prepared = False
            yield from self._assigned(read_assignment(reply.body.assignment))
        else:
            # After every error the member joins again (``SyncGroupResponseHandler``).
            self._rejoin = True
            self._told("sync", reply.code)
            yield self.life.sleep(self.rng.uniform(20, 200))

    def _idle(self, generation: int) -> Steps[None]:
        """Works on something else while all wait for its assignment; its heartbeats go on.

        Sometimes until it hears that it is no member any more: the coordinator has to see to that.
        """
        if self.rng.random() < 0.5:
            yield self.life.sleep(self.habits.rebalance_timeout_ms * self.rng.uniform(0.5, 1.5))
            return
        while self.generation == generation and not (self._rejoin or self.stopping or self.refused):
            yield self.life.sleep(500)

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        subscriptions = {member.member_id: read_subscription(member.metadata) for member in joined.members}
        assert joined.protocol_name is not None
        topics = {topic for subscription in subscriptions.values() for topic in subscription.topics}
        partitions = self.context.topics.tps(topics)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment_bytes(tuple(tps)))
            for member_id, tps in assign(joined.protocol_name, subscriptions, partitions).items()
        ]

    def _assigned(self, tps: tuple[TopicPartition, ...]) -> Steps[None]:
        self.assigned_in = self.generation
        at = self.positions.at
        revoked = [tp for tp in at if tp not in tps]
        if revoked:
            yield from self.commit()
            for tp in revoked:
                at.pop(tp, None)
            if self.cooperative:
                # Only the next generation can give away what this one took (KIP-429).
                self._rejoin = True
        if self.assigned_in == self.generation:
            for tp in tps:
                at.setdefault(tp, None)

    # --- polling ------------------------------------------------------------------------------------------

    def _poll(self) -> Steps[None]:
        self._told("fetch", (yield from self.fetch_positions()))
        for _ in range(self.habits.polls_a_commit):
            self.read()
            yield self.life.sleep(self.habits.poll_ms * self.rng.uniform(0.5, 1.5))
            if self._rejoin or self.stopping or self.coordinator is None:
                return
        self._told("commit", (yield from self.commit()))
        if self.rng.random() < LATE_COMMITS:
            yield from self.commit_late()

    @steps
    def _beats(self) -> Steps[None]:
        """What the heartbeat thread does."""
        life = self.life
        while True:
            yield life.sleep(self.habits.heartbeat_ms)
            if self.generation == _NO_GENERATION or self._joining:
                continue
            yield from self.find_coordinator()
            asked = self.member_id, self.generation
            reply: Reply = yield self.call(
                HeartbeatRequest(
                    group_id=self.habits.group_id,
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.habits.instance_id,
                ),
                self._heartbeat_version,
            )
            if asked == (self.member_id, self.generation) and not self._joining:
                self._told("heartbeat", reply.code)

    def _told(self, what: str, code: ErrorCode) -> None:
        """Does what clients do when they hear this."""
        if code in LOST_COORDINATOR or code is ErrorCode.REQUEST_TIMED_OUT:
            self.coordinator = None
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin = True
        elif code is ErrorCode.ILLEGAL_GENERATION:
            self._lose(forget_id=False)
        elif code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}:
            self._lose(forget_id=True)
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.refused = code
            self.positions.at.clear()
        elif code not in {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self.context.observer.unexpected(self.life.name, what, code)
            self._rejoin = True

    def _lose(self, *, forget_id: bool) -> None:
        """It is no member of a generation any more: what it owned may be another's (``onPartitionsLost``)."""
        self.generation = _NO_GENERATION
        self._rejoin = True
        self._prepared = False
        self.positions.at.clear()
        if forget_id:
            self.member_id = ""

    # --- leaving ------------------------------------------------------------------------------------------

    def _leave(self) -> Steps[None]:
        if self.generation != _NO_GENERATION and not self._rejoin:
            yield from self.commit()
        self.positions.at.clear()
        if self.habits.leaves and self.coordinator is not None and self.member_id:
            yield self.call(self._leave_request(), self._leave_version)
        self.generation = _NO_GENERATION

    def _leave_request(self) -> LeaveGroupRequest:
        habits = self.habits
        if self._leave_version < 3:
            return LeaveGroupRequest(group_id=habits.group_id, member_id=self.member_id)
        return LeaveGroupRequest(
            group_id=habits.group_id,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=habits.instance_id)],
        )

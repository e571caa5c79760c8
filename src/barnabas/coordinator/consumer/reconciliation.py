"""Moves one member towards its target assignment (``CurrentAssignmentBuilder``).

Theory of operation
-------------------
A member may keep what it has and is to have; it must give up what it has and is not to have; it may get what
it is to have and nobody holds. Giving up comes first, and only when the member no longer reports the
partitions as its own do they count as released. So no partition has two owners at any time, and what does
not move is read on all the while.

Kafka 4 differs from 3.9 in three points, which are followed here: a member keeps its epoch until it has
given everything up; partitions of topics that it no longer subscribes to are taken from it at once; and what
it is itself about to give up counts as free for it.
"""

from barnabas.coordinator.consumer.assignment import (
    NOTHING,
    Assignment,
    contains_any,
    merged,
)
from barnabas.coordinator.consumer.group import FREE, ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember
from barnabas.coordinator.consumer.states import TRANSITIONS, MemberState, Outcome
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import Uuid


class Reconciliation:
    """One member, its target and what it says it owns; `next` is how far it gets with that."""

    __slots__ = ("_group", "_member", "_owned", "_subscribed", "_target", "_target_epoch")

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        *,
        target_epoch: int,
        target: Assignment,
        owned: Assignment | None,
        subscribed: frozenset[Uuid],
    ) -> None:
        """`owned` is None when the member did not say; `subscribed` are the topics that it reads."""
        self._group = group
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._owned = owned
        self._subscribed = subscribed

    def next(self, *, subscription_changed: bool) -> ConsumerMember:
        """The member one step further, or the same one. Raises FENCED_MEMBER_EPOCH."""
        member = self._member
        match member.state:
            case MemberState.STABLE if member.member_epoch == self._target_epoch:
                return self._shrunk() if subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS if self._holds(member.pending_revocation):
                return self._shrunk() if subscription_changed else member
            case MemberState.UNKNOWN:
                return self._restarted()
            case _:
                return self._advanced(member.member_epoch)

    def _holds(self, assignment: Assignment) -> bool:
        """Whether the member still has any of this: it does until it says otherwise."""
        return self._owned is None or contains_any(self._owned, of=assignment)

    def _restarted(self) -> ConsumerMember:
        # A later Kafka left a state that is not known here: begin with nothing, from scratch.
        if self._owned is None or self._owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions "
                "and rejoin.",
            )
        return self._advanced(self._target_epoch)

    def _advanced(self, epoch: int) -> ConsumerMember:
        kept, given_up, free, waits = self._compare()
        if given_up and self._holds(given_up):
            return self._moved(Outcome.REVOKE, epoch, kept, given_up)
        outcome = Outcome.AWAIT if waits else Outcome.SETTLE
        return self._moved(outcome, self._target_epoch, merged(kept, free))

    def _compare(self) -> tuple[Assignment, Assignment, Assignment, bool]:
        """What the member keeps, gives up and may have at once, and whether others hold more of its target."""
        kept: dict[Uuid, frozenset[int]] = {}
        given_up: dict[Uuid, frozenset[int]] = {}
        free: dict[Uuid, frozenset[int]] = {}
        waits = False
        for topic_id in {**self._member.assigned, **self._target}:
            assigned = self._member.assigned.get(topic_id, frozenset())
            target = self._target.get(topic_id, frozenset()) if topic_id in self._subscribed else frozenset()
            wanted = target - assigned
            available = frozenset(one for one in wanted if self._is_available(topic_id, one))
            waits = waits or available != wanted
            for parts, partitions in (
                (kept, assigned & target),
                (given_up, assigned - target),
                (free, available),
            ):
                if partitions:
                    parts[topic_id] = partitions
        return kept, given_up, free, waits

    def _is_available(self, topic_id: Uuid, partition: int) -> bool:
        return self._group.partition_epoch(topic_id, partition) == FREE or partition in (
            self._member.pending_revocation.get(topic_id, ())
        )

    def _shrunk(self) -> ConsumerMember:
        """Takes topics away that the member no longer subscribes to, before there is a new target."""
        member = self._member
        gone = {topic: parts for topic, parts in member.assigned.items() if topic not in self._subscribed}
        if not gone:
            return member
        kept = {topic: parts for topic, parts in member.assigned.items() if topic in self._subscribed}
        given_up = merged(member.pending_revocation, gone)
        if self._holds(given_up):
            return self._moved(Outcome.REVOKE, member.member_epoch, kept, given_up)
        return member.at(member.member_epoch, member.state, kept, member.pending_revocation)

    def _moved(
        self, outcome: Outcome, epoch: int, assigned: Assignment, given_up: Assignment = NOTHING
    ) -> ConsumerMember:
        return self._member.at(epoch, TRANSITIONS[self._member.state][outcome], assigned, given_up)

"""Moves one member towards its target assignment (``CurrentAssignmentBuilder``).

Theory of operation
-------------------
A member keeps what it has and is to have. It must give up what it has and is not to have. It may get what it
is to have and no other member holds. Giving up comes first, and partitions count as released only when the
member no longer reports them as its own. So no partition has two owners at any time, and what does not move
is read all the while. Each heartbeat comes to one `Outcome`; `TRANSITIONS` says into which state that leads.
The diagram in the documentation is drawn from this table.

Kafka 4 differs from 3.9 in three points, which are followed here: a member keeps its epoch until it has given
everything up; partitions of topics that it no longer subscribes to are taken from it at once; and a partition
that the member itself is about to give up counts as free for it.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from barnabas.coordinator.consumer.assignment import NOTHING, Assignment, contains_any, merged
from barnabas.coordinator.consumer.group import FREE, ConsumerGroup
from barnabas.coordinator.consumer.member import ConsumerMember, MemberState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import Uuid


class Outcome(Enum):
    """What a heartbeat of a member came to."""

    HOLDS = "it still holds what it must give up"
    REVOKE = "it must give partitions up"
    AWAIT = "it waits for partitions that others hold"
    SETTLE = "it has its target"


_FORWARD: Final = {
    Outcome.REVOKE: MemberState.UNREVOKED_PARTITIONS,
    Outcome.AWAIT: MemberState.UNRELEASED_PARTITIONS,
    Outcome.SETTLE: MemberState.STABLE,
}

TRANSITIONS: Final[Mapping[MemberState, Mapping[Outcome, MemberState]]] = MappingProxyType(
    {
        MemberState.STABLE: MappingProxyType(_FORWARD),
        MemberState.UNREVOKED_PARTITIONS: MappingProxyType(
            {Outcome.HOLDS: MemberState.UNREVOKED_PARTITIONS, **_FORWARD}
        ),
        MemberState.UNRELEASED_PARTITIONS: MappingProxyType(_FORWARD),
        MemberState.UNKNOWN: MappingProxyType(_FORWARD),
    }
)
"""Only a member that was asked to give something up can still hold it."""


def reconcile(
    group: ConsumerGroup,
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Assignment,
    owned: Assignment | None,
    subscribed: frozenset[Uuid],
    subscription_changed: bool,
) -> ConsumerMember:
    """``CurrentAssignmentBuilder.build``: the member one step further, or the same one.

    `owned` is None when the member did not report it; `subscribed` are the topics that it reads. Raises
    FENCED_MEMBER_EPOCH.
    """
    epoch = member.member_epoch
    at_target = member.is_reconciled_to(target_epoch)
    revoking = member.state is MemberState.UNREVOKED_PARTITIONS
    if at_target or (revoking and _holds(owned, member.pending_revocation)):
        # There is nothing to do for the target: the member has it, or must give partitions up first.
        return _drop_unsubscribed(member, owned, subscribed) if subscription_changed else member
    # The record names a state of a later Kafka: what the member may hold is not known.
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its partitions "
                "and rejoin.",
            )
        # It owns nothing, so it may begin at the target's epoch, in any state.
        epoch = target_epoch
    # Three parts of the target: what the member has, what it must give up, and what it may get.
    kept, revoked, free, waits = _compare(group, member, target, subscribed)
    if revoked and _holds(owned, revoked):
        # Others get these partitions once the member confirms. It keeps its epoch until then.
        return _moved(member, Outcome.REVOKE, epoch, kept, revoked)
    # Nothing is left to give up: it moves to the epoch of the target, with what is free by now.
    # UNRELEASED_PARTITIONS: the rest comes with a later heartbeat, when its holders have let go.
    outcome = Outcome.AWAIT if waits else Outcome.SETTLE
    return _moved(member, outcome, target_epoch, merged(kept, free))


def _holds(owned: Assignment | None, assignment: Assignment) -> bool:
    """``ownsRevokedPartitions``: a member that does not report what it owns still has everything."""
    return owned is None or contains_any(owned, of=assignment)


def _compare(
    group: ConsumerGroup, member: ConsumerMember, target: Assignment, subscribed: frozenset[Uuid]
) -> tuple[Assignment, Assignment, Assignment, bool]:
    """``computeNextAssignment``: what the member keeps, gives up and may get now;
    whether others hold the rest.
    """
    kept: dict[Uuid, frozenset[int]] = {}
    revoked: dict[Uuid, frozenset[int]] = {}
    free: dict[Uuid, frozenset[int]] = {}
    waits = False
    for topic_id in {**member.assigned, **target}:
        has = member.assigned.get(topic_id, frozenset())
        # The target may be older than the subscription: topics that the member no longer reads are not for
        # it.
        wanted = target.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
        pending = member.pending_revocation.get(topic_id, frozenset())
        missing = wanted - has
        # Free: no member holds it, or this one does and has not confirmed yet that it gave it up.
        available = frozenset(
            one for one in missing if one in pending or group.partition_epoch(topic_id, one) == FREE
        )
        waits = waits or available != missing
        for assignment, partitions in ((kept, has & wanted), (revoked, has - wanted), (free, available)):
            if partitions:
                assignment[topic_id] = partitions
    return kept, revoked, free, waits


def _drop_unsubscribed(
    member: ConsumerMember, owned: Assignment | None, subscribed: frozenset[Uuid]
) -> ConsumerMember:
    """``updateCurrentAssignment``: takes topics away that the member no longer subscribes to."""
    gone = {topic: parts for topic, parts in member.assigned.items() if topic not in subscribed}
    if not gone:
        return member
    # It keeps its epoch: the target may be the same, only the subscription has changed.
    kept = {topic: parts for topic, parts in member.assigned.items() if topic in subscribed}
    revoked = merged(member.pending_revocation, gone)
    # As with a new target: the partitions stay with the member until it reports that it no longer has them.
    if _holds(owned, revoked):
        return _moved(member, Outcome.REVOKE, member.member_epoch, kept, revoked)
    # It has reported already that it owns none of them, so nothing has to be waited for.
    return replace(
        member,
        previous_member_epoch=member.member_epoch,
        assigned=kept,
        assignment_epochs=member.epochs_of(kept, member.pending_revocation, member.member_epoch),
    )


def _moved(
    member: ConsumerMember, outcome: Outcome, epoch: int, assigned: Assignment, revoked: Assignment = NOTHING
) -> ConsumerMember:
    # The response with the new epoch may get lost, so the previous one stays good for a while.
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=TRANSITIONS[member.state][outcome],
        assigned=assigned,
        pending_revocation=revoked,
        assignment_epochs=member.epochs_of(assigned, revoked, epoch),
    )

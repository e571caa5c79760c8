"""`StickyAssignor` and `CooperativeStickyAssignor`: balanced, and moving as little as possible.

Theory of operation
-------------------
Both know what each member had before, divide with the same algorithm, and differ in how they know it and in
what follows. The eager one revokes everything before a rebalance, so it sends what it had as user data. The
cooperative one keeps its partitions, whose list travels in the subscription; and because a partition must be
given up before another member may get it, what would change hands is left out of the assignment, and follows
in the rebalance that its revocation causes (KIP-429).

When all members subscribe to the same topics the balance can be counted out in one pass
(`sticky_equal`); else it is approached move by move (`sticky_mixed`).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from barnabas.client.assignors.assignor import (
    Assignment,
    Assignor,
    RebalanceProtocol,
    Subscription,
    Topics,
)
from barnabas.client.assignors.sticky_equal import EqualSubscriptions
from barnabas.client.assignors.sticky_members import MemberData, PreviousOwners
from barnabas.client.assignors.sticky_mixed import MixedSubscriptions
from barnabas.client.assignors.sticky_racks import Racks
from barnabas.client.assignors.sticky_user_data import (
    generation_of,
    read_generation,
    read_owned,
    write_generation,
    write_owned,
)
from barnabas.core.ids import TopicPartition

_NO_GENERATION: Final = -1


class _StickyAlgorithm(Assignor):
    """What both have in common (``AbstractStickyAssignor``)."""

    def member_data(self, subscription: Subscription) -> MemberData:
        """What the member had before, and in which generation."""
        raise NotImplementedError

    def _divide(
        self, topics: Topics, subscriptions: Mapping[str, Subscription]
    ) -> tuple[Assignment, dict[TopicPartition, str]]:
        """The assignment, and which partitions go straight from one member to another."""
        # In the order of their ids, so that all leaders divide alike.
        subscriptions = dict(sorted(subscriptions.items()))
        wanted = {topic for one in subscriptions.values() for topic in one.topics}
        topics = {topic: racks for topic, racks in topics.items() if topic in wanted}
        members = {member_id: self.member_data(one) for member_id, one in subscriptions.items()}
        owners = PreviousOwners(topics, members)
        racks = Racks(topics, subscriptions)
        if _all_equal(subscriptions):
            equal = EqualSubscriptions(topics, racks, owners)
            return equal.divide(), equal.changing_hands
        before = {member_id: one.owned for member_id, one in subscriptions.items()}
        mixed = MixedSubscriptions(topics, racks, owners, subscriptions).divide()
        return mixed, _changing_hands(before, mixed)


class StickyAssignor(_StickyAlgorithm):
    """Sticky, for the eager protocol."""

    name = "sticky"

    def __init__(self) -> None:
        self._last: tuple[Sequence[TopicPartition], int] | None = None

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        """What this member had last, and in which generation."""
        return None if self._last is None else write_owned(*self._last)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        """See `Assignor.on_assignment`."""
        self._last = (list(partitions), generation)

    def member_data(self, subscription: Subscription) -> MemberData:
        """From the user data alone: an eager member owns nothing while it joins."""
        return read_owned(subscription.user_data)

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        """See `Assignor.assign`."""
        return self._divide(topics, subscriptions)[0]


class CooperativeStickyAssignor(_StickyAlgorithm):
    """Sticky, for the cooperative protocol; follows the eager one where others of the member do."""

    name = "cooperative-sticky"
    protocols = frozenset(RebalanceProtocol)

    def __init__(self) -> None:
        self._generation = _NO_GENERATION

    def user_data(self, topics: Collection[str]) -> bytes | None:  # noqa: ARG002
        """The last generation, for leaders that do not find it in the subscription."""
        return write_generation(self._generation)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:  # noqa: ARG002
        """See `Assignor.on_assignment`."""
        self._generation = generation

    def member_data(self, subscription: Subscription) -> MemberData:
        """From the subscription, which says itself what the member owns."""
        generation = subscription.generation
        if generation is None:
            generation = generation_of(read_generation(subscription.user_data))
        return MemberData(subscription.owned, generation)

    def assign(self, topics: Topics, subscriptions: Mapping[str, Subscription]) -> Assignment:
        """See `Assignor.assign`; what changes hands is left out for now."""
        assignment, changing_hands = self._divide(topics, subscriptions)
        for tp, member_id in changing_hands.items():
            assignment[member_id].remove(tp)
        return assignment


def _all_equal(subscriptions: Mapping[str, Subscription]) -> bool:
    return len({frozenset(one.topics) for one in subscriptions.values()}) <= 1


def _changing_hands(
    before: Mapping[str, Sequence[TopicPartition]], after: Assignment
) -> dict[TopicPartition, str]:
    revoked = {tp for member_id, owned in before.items() for tp in set(owned).difference(after[member_id])}
    return {
        tp: member_id
        for member_id, partitions in after.items()
        for tp in set(partitions).difference(before[member_id])
        if tp in revoked
    }

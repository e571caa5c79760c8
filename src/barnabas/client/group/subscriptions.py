"""`Subscriptions`: what a consumer reads by choice or by assignment (``SubscriptionState``).

Either the caller assigns partitions, or subscribes to topics (by name or by a pattern) whose partitions the
group then assigns; never both. `partitions` holds the state of each assigned partition and is shared with the
fetcher.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from enum import Enum
from typing import TypeAlias

from barnabas.client.metadata import ClusterMetadata
from barnabas.client.subscription import AssignedPartition
from barnabas.client.types import OffsetAndMetadata
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition

Listener: TypeAlias = Callable[[list[TopicPartition]], Awaitable[object] | object]
"""Called with partitions, in their order; may be a coroutine function."""


class Kind(Enum):
    """How a consumer comes by its partitions."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    ASSIGNED = "assigned"


class Subscriptions:
    """One consumer's."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, AssignedPartition] = {}
        self.kind = Kind.NONE
        self.topics: frozenset[str] = frozenset()
        """The topics that this member wants; with a pattern, those that match it now."""
        self.group_topics: frozenset[str] = frozenset()
        """While this member leads: the topics of the whole group."""
        self.on_assigned: Listener | None = None
        self.on_revoked: Listener | None = None
        self.on_lost: Listener | None = None
        self._pattern: re.Pattern[str] | None = None

    @property
    def automatic(self) -> bool:
        """Whether the group assigns the partitions."""
        return self.kind in {Kind.TOPICS, Kind.PATTERN}

    @property
    def metadata_topics(self) -> frozenset[str]:
        """The topics whose changes matter."""
        return self.topics | self.group_topics

    def subscribe(
        self,
        topics: Collection[str] | re.Pattern[str],
        on_assigned: Listener | None,
        on_revoked: Listener | None,
        on_lost: Listener | None,
    ) -> None:
        """Wants these topics from now on; partitions follow with the next rebalance."""
        by_pattern = isinstance(topics, re.Pattern)
        self._become(Kind.PATTERN if by_pattern else Kind.TOPICS)
        if isinstance(topics, re.Pattern):
            self._pattern = topics
        else:
            self.topics = frozenset(topics)
        self.on_assigned, self.on_revoked, self.on_lost = on_assigned, on_revoked, on_lost

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Reads these partitions by the caller's choice."""
        self._become(Kind.ASSIGNED)
        self.set_partitions(partitions)

    def _become(self, kind: Kind) -> None:
        if self.kind not in {Kind.NONE, kind}:
            raise BarnabasError(
                "Subscription to topics, partitions and pattern are mutually exclusive: unsubscribe first"
                f" (there is one by {self.kind.value})"
            )
        self.kind = kind

    def unsubscribe(self) -> None:
        """Wants nothing any more."""
        self.kind = Kind.NONE
        self.topics = self.group_topics = frozenset()
        self._pattern = None
        self.partitions.clear()

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """These are assigned, and no others; those that were before keep their state."""
        wanted = dict.fromkeys(partitions)
        for tp in set(self.partitions).difference(wanted):
            del self.partitions[tp]
        for tp in wanted:
            if tp not in self.partitions:
                self.partitions[tp] = AssignedPartition(tp)

    def hold_back(self) -> None:
        """Hands out nothing of what is about to be revoked, so that what is committed now is the last word."""
        for state in self.partitions.values():
            state.pending_revocation = True

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of every partition that has one."""
        return {
            tp: OffsetAndMetadata(state.position, leader_epoch=state.position_epoch)
            for tp, state in self.partitions.items()
            if state.position is not None
        }

    def match(self, metadata: ClusterMetadata) -> bool:
        """Applies the pattern to the topics that there are; whether the topics changed."""
        if self._pattern is None:
            return False
        found = frozenset(
            name
            for name, topic in metadata.topics.items()
            if not topic.is_internal and self._pattern.fullmatch(name)
        )
        changed = found != self.topics
        self.topics = found
        return changed

    def admits(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment fits the subscription as it is now."""
        if self._pattern is not None:
            return all(self._pattern.fullmatch(tp.topic) for tp in partitions)
        return all(tp.topic in self.topics for tp in partitions)

    def __repr__(self) -> str:
        return (
            f"<Subscriptions {self.kind.value} {len(self.topics)} topics, {len(self.partitions)} partitions>"
        )

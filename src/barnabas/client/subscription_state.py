"""`SubscriptionState`: what a consumer reads, by its own choice or by its group's, and where it stands in it.

Either the caller assigns partitions, or subscribes to topics (by name or by a pattern) whose partitions the
group then assigns; never both. The state of each assigned partition is shared with the fetcher.
(``SubscriptionState`` of Kafka's consumer.)
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from barnabas.client.metadata import ClusterMetadata
from barnabas.client.types import OffsetAndMetadata, RawFetch
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import batch_headers

if TYPE_CHECKING:
    from barnabas.client.completed_fetch import CompletedFetch

Listener: TypeAlias = Callable[[list[TopicPartition]], Awaitable[object] | object]
"""Called with partitions, in their order; may be a coroutine function."""


class SubscriptionType(Enum):
    """How a consumer comes by its partitions."""

    NONE = "none"
    TOPICS = "topics"
    PATTERN = "pattern"
    ASSIGNED = "assigned"


class AssignedPartition:
    """State of one assigned partition. Its position is the offset of the next record to hand out."""

    __slots__ = (
        "buffered",
        "checked_epoch",
        "high_watermark",
        "in_flight",
        "last_stable_offset",
        "log_start_offset",
        "paused",
        "pending_revocation",
        "position",
        "position_epoch",
        "preferred_read_replica",
        "preferred_until",
        "reset_to",
        "retry_at",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        self.position_epoch = -1
        """The leader epoch of the last record before the position, which is committed with it (KIP-320)."""
        self.checked_epoch = -1
        """The leader epoch in which a leader was asked whether its log has that record."""
        self.reset_to: int | None = None
        """The time, or special timestamp, whose offset becomes the position, where `seek` or `seek_to_...`
        asked for one.
        """
        self.paused = False
        self.pending_revocation = False
        """Nothing more is handed out: it is about to be taken away."""
        self.buffered: CompletedFetch | None = None
        self.in_flight = False
        self.retry_at = 0.0
        """No request before this time (seconds of the monotonic clock)."""
        self.preferred_read_replica: int | None = None
        """The follower to which the leader sent this consumer (KIP-392), up to the time of the next field."""
        self.preferred_until = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    @property
    def is_held_back(self) -> bool:
        return self.paused or self.pending_revocation

    def seek(self, offset: int, epoch: int = -1) -> None:
        """Continue at this offset; what was fetched ahead is dropped."""
        self.position = offset
        self.position_epoch = epoch
        self.checked_epoch = -1
        self.reset_to = None
        self.buffered = None

    def reset(self, timestamp: int | None) -> None:
        """Continue where this time or special timestamp is (None: where ``auto.offset.reset`` says)."""
        self.position = None
        self.position_epoch = -1
        self.reset_to = timestamp
        self.buffered = None

    def move_behind(self, raw: RawFetch) -> int:
        """Continue behind the last whole batch of these; how many records they have."""
        count = 0
        for header in batch_headers(raw.records):
            count += header.count
            self.position = max(raw.position, header.next_offset)
            self.position_epoch = header.leader_epoch
        return count

    def lag(self, isolation_level: int) -> int | None:
        """Records between the position and the end that the last fetch saw; None where one is not known."""
        end = self.last_stable_offset if isolation_level else self.high_watermark
        return max(0, end - self.position) if end >= 0 and self.position is not None else None

    def is_fetchable(self, now: float) -> bool:
        return (
            self.position is not None
            and not self.is_held_back
            and not self.in_flight
            and self.buffered is None
            and now >= self.retry_at
        )

    def __repr__(self) -> str:
        state = "paused" if self.paused else "in flight" if self.in_flight else "idle"
        return f"<AssignedPartition {self.tp} at {self.position} {state}>"


class SubscriptionState:
    """One consumer's."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, AssignedPartition] = {}
        self.kind = SubscriptionType.NONE
        self.topics: frozenset[str] = frozenset()
        """The topics that this member wants; with a pattern, those that match it now."""
        self.group_topics: frozenset[str] = frozenset()
        """While this member leads: the topics of the whole group."""
        self.on_assigned: Listener | None = None
        self.on_revoked: Listener | None = None
        self.on_lost: Listener | None = None
        self._pattern: re.Pattern[str] | None = None

    @property
    def chosen(self) -> bool:
        """Whether something was subscribed to or assigned."""
        return self.kind is not SubscriptionType.NONE

    @property
    def automatic(self) -> bool:
        return self.kind in {SubscriptionType.TOPICS, SubscriptionType.PATTERN}

    @property
    def metadata_topics(self) -> frozenset[str]:
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
        self._become(SubscriptionType.PATTERN if by_pattern else SubscriptionType.TOPICS)
        if isinstance(topics, re.Pattern):
            self._pattern = topics
        else:
            self.topics = frozenset(topics)
        self.on_assigned, self.on_revoked, self.on_lost = on_assigned, on_revoked, on_lost

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self._become(SubscriptionType.ASSIGNED)
        self.set_partitions(partitions)

    def _become(self, kind: SubscriptionType) -> None:
        if self.kind not in {SubscriptionType.NONE, kind}:
            raise BarnabasError(
                "Subscription to topics, partitions and pattern are mutually exclusive: unsubscribe first"
                f" (there is one by {self.kind.value})"
            )
        self.kind = kind

    def unsubscribe(self) -> None:
        self.kind = SubscriptionType.NONE
        self.topics = self.group_topics = frozenset()
        self._pattern = None
        self.partitions.clear()

    def set_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """These are assigned, and no others; those that were before keep their state."""
        wanted = dict.fromkeys(partitions)
        for tp in set(self.partitions).difference(wanted):
            del self.partitions[tp]
        for tp in wanted:
            self.partitions.setdefault(tp, AssignedPartition(tp)).pending_revocation = False

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing more is handed out of what is about to be revoked, these and no others, so that the commit
        made now covers it all.
        """
        revoked = frozenset(partitions)
        for tp, state in self.partitions.items():
            state.pending_revocation = tp in revoked

    def all_consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The position of every partition that has one."""
        return {
            tp: OffsetAndMetadata(state.position, leader_epoch=state.position_epoch)
            for tp, state in self.partitions.items()
            if state.position is not None
        }

    def apply_pattern(self, metadata: ClusterMetadata) -> bool:
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

    def matches(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether an assignment fits the subscription as it is now
        (``checkAssignmentMatchedSubscription``).
        """
        if self._pattern is not None:
            return all(self._pattern.fullmatch(tp.topic) for tp in partitions)
        return all(tp.topic in self.topics for tp in partitions)

    def __repr__(self) -> str:
        return (
            f"<SubscriptionState {self.kind.value} {len(self.topics)} topics, {len(self.partitions)} "
            "partitions>"
        )

"""Waiting until a topic that was created or deleted is so for this broker's clients (``DelayedCreatePartitions``,
``DelayedDeleteTopics``).

The store has the change before the controller has acted on it. CreateTopics is answered when every new
partition has a leader, DeleteTopics when the topic is gone, as far as UpdateMetadata has said so.
"""

from collections.abc import Hashable, Iterable, Mapping

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.clock import Clock
from barnabas.core.ids import NO_LEADER
from barnabas.core.pending import Pending
from barnabas.replica.purgatory import DelayedOperation, Purgatory


class _Awaited(DelayedOperation):
    __slots__ = ("_cache", "_left", "_topics", "answer")

    def __init__(self, cache: MetadataCache, topics: Iterable[str]) -> None:
        super().__init__()
        self._cache = cache
        self._topics = frozenset(topics)
        self._left = list(self._topics)
        self.answer: Pending[set[str]] = Pending()

    def _missing(self, topic: str) -> bool:
        """Whether the topic is not yet as the request wants it."""
        raise NotImplementedError

    def try_complete(self, _key: Hashable = None) -> bool:
        # This is called for each topic of each update. What was found once is not looked at again, so that ten
        # thousand topics cost ten thousand looks in all and not for each call.
        left = self._left
        while left:
            if self._missing(left[-1]):
                return False
            left.pop()
        return self.force_complete()

    def on_complete(self) -> None:
        self.answer.complete({topic for topic in self._topics if self._missing(topic)})


class _Created(_Awaited):
    __slots__ = ("_partitions",)

    def __init__(self, cache: MetadataCache, partitions: Mapping[str, int]) -> None:
        super().__init__(cache, partitions)
        self._partitions = partitions

    def _missing(self, topic: str) -> bool:
        known = self._cache.partitions(topic)
        return sum(state.leader != NO_LEADER for state in known.values()) < self._partitions[topic]


class _Deleted(_Awaited):
    __slots__ = ()

    def _missing(self, topic: str) -> bool:
        return topic in self._cache


class TopicChanges:
    """The requests that wait for topics to come or go."""

    __slots__ = ("_cache", "_purgatory")

    def __init__(self, cache: MetadataCache, clock: Clock) -> None:
        self._cache = cache
        self._purgatory = Purgatory("Topic", clock)

    def created(self, partitions: Mapping[str, int], timeout_ms: int) -> Pending[set[str]]:
        """Waits until each topic has so many partitions with leaders; the topics that had not in time."""
        return self._wait(_Created(self._cache, partitions), partitions, timeout_ms)

    def deleted(self, topics: Iterable[str], timeout_ms: int) -> Pending[set[str]]:
        """Waits until the topics are gone; those that were not in time."""
        names = list(topics)
        return self._wait(_Deleted(self._cache, names), names, timeout_ms)

    def _wait(self, operation: _Awaited, topics: Iterable[str], timeout_ms: int) -> Pending[set[str]]:
        self._purgatory.try_complete_else_watch(operation, topics, timeout_ms)
        return operation.answer

    def metadata_changed(self, topics: Iterable[str]) -> None:
        """Asks those again that wait for these topics."""
        if self._purgatory.size:
            for topic in topics:
                self._purgatory.check_and_complete(topic)

    def shutdown(self) -> None:
        self._purgatory.complete_all()

    def __repr__(self) -> str:
        return f"<TopicChanges {self._purgatory}>"

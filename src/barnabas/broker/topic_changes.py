"""Waiting until a change that was asked for is so for this broker's clients (``DelayedCreatePartitions``,
``DelayedDeleteTopics``, ``DelayedElectLeader``).

The store has the change before the controller has acted on it. CreateTopics and CreatePartitions are answered
when every new partition has a leader, DeleteTopics when the topic is deleted, ElectLeaders when the new
leaders lead, as far as UpdateMetadata has said so.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.clock import Clock
from barnabas.core.ids import NO_LEADER, TopicPartition
from barnabas.core.pending import Pending
from barnabas.replica.purgatory import DelayedOperation, Purgatory


class _Awaited(DelayedOperation):
    __slots__ = ("_cache", "_changing", "_left", "answer")

    def __init__(self, cache: MetadataCache, changing: Iterable[Hashable]) -> None:
        """`changing` are the topics or the partitions that are awaited."""
        super().__init__()
        self._cache = cache
        self._changing = frozenset(changing)
        self._left = list(self._changing)
        self.answer: Pending[set[Any]] = Pending()

    def _missing(self, changing: Any) -> bool:
        """Whether the topic or the partition is not yet as the request wants it."""
        raise NotImplementedError

    def try_complete(self, _key: Hashable = None) -> bool:
        # This is called for each topic of each update. What was found once is not looked at again, so that
        # ten thousand topics cost ten thousand looks in all and not for each call.
        left = self._left
        while left:
            if self._missing(left[-1]):
                return False
            left.pop()
        return self.force_complete()

    def on_complete(self) -> None:
        self.answer.complete({each for each in self._changing if self._missing(each)})


class _Created(_Awaited):
    __slots__ = ("_partitions",)

    def __init__(self, cache: MetadataCache, partitions: Mapping[str, int]) -> None:
        super().__init__(cache, partitions)
        self._partitions = partitions

    def _missing(self, changing: str) -> bool:
        known = self._cache.partitions(changing)
        return sum(state.leader != NO_LEADER for state in known.values()) < self._partitions[changing]


class _Deleted(_Awaited):
    __slots__ = ()

    def _missing(self, changing: str) -> bool:
        return changing in self._cache


class _Elected(_Awaited):
    __slots__ = ("_leaders",)

    def __init__(self, cache: MetadataCache, leaders: Mapping[TopicPartition, int]) -> None:
        super().__init__(cache, leaders)
        self._leaders = leaders

    def _missing(self, changing: TopicPartition) -> bool:
        state = self._cache.partition(changing)
        return state is None or state.leader != self._leaders[changing]


class TopicChanges:
    """The requests that wait for topics to come or go, or to be led by others."""

    __slots__ = ("_cache", "_purgatory")

    def __init__(self, cache: MetadataCache, clock: Clock) -> None:
        self._cache = cache
        self._purgatory = Purgatory("Topic", clock)

    def created(self, partitions: Mapping[str, int], timeout_ms: int) -> Pending[set[str]]:
        """Waits until each topic has this number of partitions with leaders; returns the topics that had not
        in time.

        Without any time it does not look: no topic had them in time, as in ``ZkAdminManager``.
        """
        if timeout_ms <= 0:
            return Pending.of(set(partitions))
        return self._wait(_Created(self._cache, partitions), partitions, timeout_ms)

    def deleted(self, topics: Iterable[str], timeout_ms: int) -> Pending[set[str]]:
        """Waits until the topics are deleted; returns those that were not in time."""
        names = list(topics)
        return self._wait(_Deleted(self._cache, names), names, timeout_ms)

    def elected(self, leaders: Mapping[TopicPartition, int], timeout_ms: int) -> Pending[set[TopicPartition]]:
        """Waits until each partition has this leader; the partitions that had not in time."""
        return self._wait(_Elected(self._cache, leaders), {tp.topic for tp in leaders}, timeout_ms)

    def _wait(self, operation: _Awaited, topics: Iterable[str], timeout_ms: int) -> Pending[set[Any]]:
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

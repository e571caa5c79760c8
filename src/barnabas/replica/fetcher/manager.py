"""`ReplicaFetcherManager`: which fetcher copies which partition (``ReplicaFetcherManager``)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, java_abs, java_hash
from barnabas.replica.fetcher.replica_fetcher import FetchedBytes, LeaderEndPoint, ReplicaFetcher
from barnabas.replica.quota import ReplicationQuotaManager
from barnabas.replica.state_changes import InitialFetchState

_log = EventLog("replica.fetcher")

_INT_BITS: Final = 32


class ReplicaFetcherManager:
    """The fetchers of a broker (`replica.state_changes.Fetchers`)."""

    def __init__(
        self,
        end_points: Sequence[Callable[[int], LeaderEndPoint]],
        clock: Clock,
        *,
        backoff_ms: int,
        truncated: Callable[[], object],
        quota: ReplicationQuotaManager,
    ) -> None:
        """As many fetchers copy from a leader as there are `end_points`; each makes that of its fetcher for a
        leader.

        `truncated` is called after logs were cut: what is known of them on disk reaches too far.
        """
        self.failed_partitions: set[TopicPartition] = set()
        """Those that are not copied until the controller's next word on them (``FailedPartitions``)."""
        self._end_points = end_points
        self._clock = clock
        self._backoff_ms = backoff_ms
        self._truncated = truncated
        self._quota = quota
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        """By leader and fetcher id."""
        self._stopping = False
        self.fetched = FetchedBytes()

    @property
    def fetchers(self) -> list[ReplicaFetcher]:
        return list(self._fetchers.values())

    @property
    def max_lag(self) -> int:
        """``MaxLag``: how many records the partition that is the furthest behind lacks."""
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    def fetch(self, targets: Iterable[InitialFetchState]) -> None:
        """``addFetcherForPartitions``: begins to copy these from their leaders;
        not while the broker stops.
        """
        if self._stopping:
            return
        for target in targets:
            fetcher_id = self._fetcher_id(target.partition.tp)
            # A partition stays with its fetcher for as long as the leader is the same: the order of its
            # requests is kept.
            fetcher = self._fetchers.get((target.leader, fetcher_id))
            if fetcher is None:
                fetcher = self._create_fetcher(target.leader, fetcher_id)
            fetcher.add(target.partition, target.leader_epoch)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """``removeFetcherForPartitions``: does nothing for a partition that is not copied."""
        for tp in partitions:
            # The caller does not know the leader that it was copied from, so every fetcher is asked.
            for fetcher in self._fetchers.values():
                fetcher.remove(tp)
            # ``FailedPartitions.removeAll``: after the controller's next word on it, it may be tried again.
            self.failed_partitions.discard(tp)

    def resize(self, end_points: Sequence[Callable[[int], LeaderEndPoint]]) -> None:
        """``resizeThreadPool``: as many fetchers copy from each leader as there are `end_points` now;
        partitions go to theirs.
        """
        # KIP-226: the number may change while the broker runs, and with it the fetcher of each partition.
        # What is copied is noted before the fetchers that know it are closed.
        copied = [
            InitialFetchState(partition, leader_id, leader_epoch)
            for (leader_id, _), fetcher in self._fetchers.items()
            for partition, leader_epoch in fetcher.copied()
        ]
        self._close_fetchers()
        self._end_points = end_points
        self.fetch(copied)

    def _close_fetchers(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()

    def _fetcher_id(self, tp: TopicPartition) -> int:
        """``getFetcherId``; the sum wraps as Java's does."""
        value = (31 * java_hash(tp.topic) + tp.partition) & 0xFFFFFFFF
        signed = value - (1 << _INT_BITS) if value >> (_INT_BITS - 1) else value
        return java_abs(signed) % len(self._end_points)

    def _create_fetcher(self, leader_id: int, fetcher_id: int) -> ReplicaFetcher:
        key = (leader_id, fetcher_id)
        leader = self._end_points[fetcher_id](leader_id)

        def empty(fetcher: ReplicaFetcher) -> None:
            # ``shutdownIdleFetcherThreads``: its last partition was removed.
            assert self._fetchers.pop(key) is fetcher
            leader.close()
            _log.info("fetcher.ended", fetcher=fetcher.name)

        fetcher = self._fetchers[key] = ReplicaFetcher(
            f"ReplicaFetcherThread-{fetcher_id}-{leader_id}",
            leader,
            self._clock,
            backoff_ms=self._backoff_ms,
            failed=self.failed_partitions,
            truncated=self._truncated,
            on_empty=empty,
            quota=self._quota,
            fetched=self.fetched,
        )
        _log.info("fetcher.started", fetcher=fetcher.name, leader=leader_id)
        return fetcher

    def begin_shutdown(self) -> None:
        """``isShuttingDown``: partitions that get a new leader now are not copied from it.

        A replica that caught up once more would be waited for by its leader, and is never let into the ISR
        again.
        """
        self._stopping = True

    def close(self) -> None:
        """``closeAllFetchers``: nothing is copied from now on.
        The controller may not know yet that this broker stops.
        """
        self.begin_shutdown()
        self._close_fetchers()

    def __repr__(self) -> str:
        return f"<ReplicaFetcherManager {self.fetchers} failed={len(self.failed_partitions)}>"

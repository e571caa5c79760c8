"""Fetches that wait until there is enough to read (``DelayedFetch``)."""

from collections.abc import Hashable, Iterable, Sequence

from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.fetch_reader import FetchParams, FetchReader
from barnabas.replica.log_read import visible_end
from barnabas.replica.purgatory import DelayedOperation


class DelayedFetch(DelayedOperation):
    """A fetch that waits for more bytes, an error, or the end of its time; `over` says whether nothing had
    moved by then.

    In a session it may *rest* then: it stays under its keys until the next request resumes it. An idle
    follower of thousands of partitions would else cost a look at each of them with every request. What moves
    while it rests it knows by the next request. After `rest_ms` all are read again: by that each partition
    learns that its follower lives. With 0 it does not rest, and is over as if something had moved.
    """

    __slots__ = (
        "_clock",
        "_moved",
        "_params",
        "_partitions",
        "_read_again_ms",
        "_reader",
        "_rest_ms",
        "_rests",
        "_size",
        "_sizes",
        "over",
    )

    def __init__(
        self,
        reader: FetchReader,
        params: FetchParams,
        partitions: Sequence[CachedPartition],
        clock: Clock,
        rest_ms: float,
    ) -> None:
        super().__init__()
        self.over: Pending[bool] = Pending()
        self._reader = reader
        self._params = params
        self._partitions: dict[Hashable, CachedPartition] = {
            TopicPartition(each.topic or "", each.partition): each for each in partitions
        }
        self._sizes: dict[Hashable, int] = {}
        """What each partition with something to read has."""
        self._size = 0
        """Their sum."""
        self._clock = clock
        self._rest_ms = rest_ms
        self._read_again_ms = clock.monotonic_ms() + rest_ms if rest_ms else 0.0
        self._moved = False
        self._rests = False

    @property
    def topic_partitions(self) -> Iterable[Hashable]:
        return self._partitions

    def try_complete(self, key: Hashable = None) -> bool:
        """Completes when any partition is in trouble, or all together have enough.

        A partition that has moved is looked at alone: a fetch of ten thousand is woken by each append to any
        of them.
        """
        # It may have moved without bytes to read: a high watermark is news too.
        self._moved = self._moved or key is not None
        min_bytes = self._params.min_bytes
        for tp in self._partitions if key is None else (key,):
            others = self._size - self._sizes.get(tp, 0)
            available = self._available(self._partitions[tp], min_bytes - others)
            if available is None or others + available >= min_bytes:
                return self.force_complete()
            self._sizes[tp] = available
            self._size = others + available
        return False

    def _available(self, wanted: CachedPartition, enough: int) -> int | None:
        """How many bytes there are to read, as far as it matters;
        None for an error, which is answered at once.
        """
        params = self._params
        try:
            partition = self._reader.partition(wanted)
            log = partition.log_for(wanted.current_leader_epoch, leader_only=params.leader_only)
            end_offset = visible_end(log, params.isolation)
            if wanted.fetch_offset == end_offset and wanted.last_fetched_epoch < 0:
                return 0
            if wanted.fetch_offset > end_offset:
                return None  # the leader was truncated, or has not heard yet how far the others are
            throttled = params.from_follower and self._reader.throttles(partition, params.replica_id)
            if enough <= 1 and wanted.last_fetched_epoch < 0 and not throttled:
                return 1  # the usual consumer waits for anything at all: no need to measure it
            found = partition.read(
                wanted,
                params.isolation,
                max_bytes=wanted.max_bytes,
                min_one_message=False,
                leader_only=params.leader_only,
            )
        except KafkaError:
            return None
        if throttled and found.diverging is None:
            return 0
        # What lies in an older segment will not grow: waiting for more of it is in vain.
        behind = wanted.fetch_offset < end_offset and not found.on_last_segment
        return None if behind or found.diverging is not None else len(found.records)

    def expire(self) -> None:
        if self._moved or not self._rest_ms:
            self.force_complete()
            return
        self._rests = True
        left_ms = self._read_again_ms - self._clock.monotonic_ms()
        self.timer = self._clock.call_later(max(left_ms, 0.0), self.force_complete)
        self.over.complete(True)

    def can_resume(self, params: FetchParams) -> bool:
        """Whether it rests and stands for this request too."""
        return self._rests and not self.completed and params == self._params

    def resume(self) -> Pending[bool]:
        """Waits for as long again; see `over`."""
        assert self._rests, "it has its answer"
        if self.timer is not None:
            self.timer.cancel()
        self._rests = False
        self.over = Pending()
        self.timer = self._clock.call_later(self._params.max_wait_ms, self.expire)
        return self.over

    def on_complete(self) -> None:
        if not self._rests:
            self.over.complete(False)

    def __repr__(self) -> str:
        return f"<DelayedFetch {list(self._partitions.values())} min_bytes={self._params.min_bytes}>"

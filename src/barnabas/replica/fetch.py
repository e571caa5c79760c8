"""Reading for a fetch request, and waiting for news where there is too little (``DelayedFetch``)."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.messages.fetch import FetchPartition
from barnabas.replica.fetch_session import CachedPartition
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.partition import Isolation, LogRead, Partition
from barnabas.replica.purgatory import DelayedOperation, Purgatory
from barnabas.replica.selector import ReplicaSelector

_log = EventLog("replica.fetch")

CONSUMER_REPLICA_ID: Final = -1
LEADER: Final = -1
"""The preferred read replica of a consumer that is to stay here."""
PORTION: Final = 20
"""Partitions of a large fetch that are read in one piece; a read may take 50 us."""
WATCHED_MAX: Final = 10_000
"""Partitions under which a fetch waits; to ask them all once takes about 20 ms."""
POLL_MS: Final = 100.0
"""How often a larger fetch looks again."""


@dataclass(frozen=True, slots=True)
class FetchParams:
    """What holds for a whole fetch request; sizes in bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: Isolation
    replica_id: int = CONSUMER_REPLICA_ID
    broker_epoch: int = -1
    leader_only: bool = True
    """False for consumers that may read from a follower (KIP-392)."""
    rack: str = ""
    """Where the consumer is, if it says so."""
    listener: str = ""
    """Where it asks."""

    @property
    def from_follower(self) -> bool:
        """Whether a replica asks, not a consumer."""
        return self.replica_id >= 0


class PartitionRead:
    """What was read of one partition: `found`, or an error."""

    __slots__ = ("error", "found", "partition", "preferred_read_replica", "size")

    def __init__(
        self,
        partition: CachedPartition,
        found: LogRead | None,
        error: ErrorCode = ErrorCode.NONE,
        preferred_read_replica: int = LEADER,
    ) -> None:
        self.partition = partition
        self.found = found
        self.error = error
        self.preferred_read_replica = preferred_read_replica
        """The follower to read from instead; then nothing was read here."""
        self.size = 0 if found is None else len(found.records)

    @property
    def urgent(self) -> bool:
        """Whether the client must hear of it without waiting for more."""
        found = self.found
        return found is None or found.diverging is not None or self.preferred_read_replica != LEADER

    def __repr__(self) -> str:
        return f"<PartitionRead {self.partition} {self.error.name} {self.size} bytes>"


class FetchReader:
    """Reads the partitions of a fetch."""

    __slots__ = ("_clock", "_hosted", "_purgatory", "_selector")

    def __init__(
        self,
        hosted: HostedPartitions,
        purgatory: Purgatory,
        clock: Clock,
        selector: ReplicaSelector | None = None,
    ) -> None:
        self._hosted = hosted
        self._selector = selector
        self._purgatory = purgatory
        self._clock = clock

    def fetch(
        self, params: FetchParams, partitions: Iterable[CachedPartition]
    ) -> list[PartitionRead] | Pending[list[PartitionRead]]:
        """``fetchMessages``: what was read, at once or when there is enough, an error, or no time left."""
        reads = self.read(params, partitions, record_follower=True)
        size = 0
        urgent = not reads or params.max_wait_ms <= 0
        for each in reads:
            size += each.size
            urgent = urgent or each.urgent
        if urgent or size >= params.min_bytes:
            return reads
        operation = DelayedFetch(self, params, [each.partition for each in reads])
        # It may complete at once for another reason than bytes: a partition that is read past its end.
        self._purgatory.try_complete_else_watch(operation, operation.topic_partitions, params.max_wait_ms)
        return operation.answer

    def fetch_in_slices(
        self, params: FetchParams, partitions: list[CachedPartition]
    ) -> Sliced[list[PartitionRead]]:
        """As `fetch`, for so many partitions that they are read a portion at a time.

        More than `WATCHED_MAX` are not watched, but read again from time to time: to watch a million takes
        seconds, and so does to ask a million at each append.
        """
        until_ms = self._clock.monotonic_ms() + params.max_wait_ms
        reads, enough = yield from self._read_in_slices(params, partitions, record_follower=True)
        if not enough and len(partitions) <= WATCHED_MAX:
            operation = _DelayedLargeFetch(self, params, partitions)
            self._purgatory.try_complete_else_watch(operation, operation.topic_partitions, params.max_wait_ms)
            yield operation.answer
            reads, _ = yield from self._read_in_slices(params, partitions, record_follower=False)
            return reads
        while not enough:
            now_ms = self._clock.monotonic_ms()
            if now_ms >= until_ms:
                break
            pause: Pending[None] = Pending()
            self._clock.call_later(min(POLL_MS, until_ms - now_ms), partial(pause.complete, None))
            yield pause
            reads, enough = yield from self._read_in_slices(params, partitions, record_follower=False)
        return reads

    def _read_in_slices(
        self, params: FetchParams, partitions: list[CachedPartition], *, record_follower: bool
    ) -> Sliced[tuple[list[PartitionRead], bool]]:
        """What was read, and whether the client waits for no more."""
        reads: list[PartitionRead] = []
        size = 0
        urgent = params.max_wait_ms <= 0
        for start in range(0, len(partitions), PORTION):
            portion = self.read(
                params,
                partitions[start : start + PORTION],
                record_follower=record_follower,
                read_before=size,
            )
            for each in portion:
                size += each.size
                urgent = urgent or each.urgent
            reads += portion
            yield
        return reads, urgent or not reads or size >= params.min_bytes

    def read(
        self,
        params: FetchParams,
        partitions: Iterable[CachedPartition],
        *,
        record_follower: bool,
        read_before: int = 0,
    ) -> list[PartitionRead]:
        """``readFromLog``: one pass over the partitions, in order, until the size limits are used up.

        The first partition with records gives at least one batch, however large it is, so that a reader
        always gets on (KIP-74). `read_before` are the bytes of the partitions before these.
        """
        reads = []
        left = max(0, params.max_bytes - read_before)
        min_one_message = not read_before
        for each in partitions:
            read = self._read_one(params, each, left, min_one_message, record_follower)
            if read.size:
                min_one_message = False
                left = max(0, left - read.size)
            reads.append(read)
        return reads

    def _read_one(
        self,
        params: FetchParams,
        wanted: CachedPartition,
        left: int,
        min_one_message: bool,
        record_follower: bool,
    ) -> PartitionRead:
        request = wanted.request
        try:
            partition = self.partition(wanted)
            replica = (
                partition.follower(params.replica_id, request.current_leader_epoch)
                if params.replica_id >= 0
                else None
            )
            if params.rack and self._selector is not None:
                preferred = self._preferred_replica(self._selector, params, partition, request)
                if preferred is not None:
                    log = partition.log_for(request.current_leader_epoch, leader_only=False)
                    return PartitionRead(wanted, LogRead(log), preferred_read_replica=preferred)
            found = partition.read(
                request,
                params.isolation,
                max_bytes=min(request.partition_max_bytes, left),
                min_one_message=min_one_message,
                leader_only=params.leader_only,
            )
            if replica is not None and record_follower and found.diverging is None:
                partition.record_follower_fetch(replica, request, found, params.broker_epoch)
        except KafkaError as error:
            return PartitionRead(wanted, None, error.code)
        except Exception:
            _log.error("fetch.read_failed", partition=wanted, exc_info=True)
            return PartitionRead(wanted, None, ErrorCode.UNKNOWN_SERVER_ERROR)
        return PartitionRead(wanted, found)

    def _preferred_replica(
        self, selector: ReplicaSelector, params: FetchParams, partition: Partition, request: FetchPartition
    ) -> int | None:
        """``findPreferredReadReplica``: the follower that a consumer should read from; only leaders know."""
        if params.from_follower or partition.leader_log is None:
            return None
        return selector.select(
            partition, rack=params.rack, listener=params.listener, fetch_offset=request.fetch_offset
        )

    def partition(self, wanted: CachedPartition) -> Partition:
        """The partition asked for; raises what `HostedPartitions.serve` does, and INCONSISTENT_TOPIC_ID."""
        assert wanted.topic is not None, "names are resolved before reading"
        partition = self._hosted.serve(TopicPartition(wanted.topic, wanted.request.partition))
        if wanted.topic_id != ZERO_UUID and partition.topic_id not in (wanted.topic_id, ZERO_UUID):
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                "Topic ID in the fetch session did not match the topic ID in the log.",
            )
        return partition


class DelayedFetch(DelayedOperation):
    """A fetch that waits for more bytes, an error, or the end of its time."""

    __slots__ = ("_params", "_partitions", "_reader", "_size", "_sizes", "answer")

    def __init__(self, reader: FetchReader, params: FetchParams, partitions: list[CachedPartition]) -> None:
        super().__init__()
        self.answer: Pending[list[PartitionRead]] = Pending()
        self._reader = reader
        self._params = params
        self._partitions: dict[Hashable, CachedPartition] = {
            TopicPartition(each.topic or "", each.request.partition): each for each in partitions
        }
        self._sizes: dict[Hashable, int] = {}
        """What each partition with something to read has."""
        self._size = 0
        """Their sum."""

    @property
    def topic_partitions(self) -> Iterable[Hashable]:
        return self._partitions

    def try_complete(self, key: Hashable = None) -> bool:
        """Completes when any partition is in trouble, or all together have enough.

        A partition that has moved is looked at alone: a fetch of ten thousand is woken by each append to any of them.
        """
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
        """How many bytes there are to read, as far as it matters; None for an error, which is answered at once."""
        params, request = self._params, wanted.request
        try:
            partition = self._reader.partition(wanted)
            log = partition.log_for(request.current_leader_epoch, leader_only=params.leader_only)
            end_offset = partition.end_offset(log, params.isolation)
            if request.fetch_offset == end_offset and request.last_fetched_epoch < 0:
                return 0
            if request.fetch_offset > end_offset:
                return None  # the leader was truncated, or has not heard yet how far the others are
            if enough <= 1 and request.last_fetched_epoch < 0:
                return 1  # the usual consumer waits for anything at all: no need to measure it
            found = partition.read(
                request,
                params.isolation,
                max_bytes=request.partition_max_bytes,
                min_one_message=False,
                leader_only=params.leader_only,
            )
        except KafkaError:
            return None
        # What lies in an older segment will not grow: waiting for more of it is in vain.
        behind = request.fetch_offset < end_offset and not found.on_last_segment
        return None if behind or found.diverging is not None else len(found.records)

    def on_complete(self) -> None:
        self.answer.complete(
            self._reader.read(self._params, self._partitions.values(), record_follower=False)
        )

    def __repr__(self) -> str:
        return f"<DelayedFetch {list(self._partitions.values())} min_bytes={self._params.min_bytes}>"


class _DelayedLargeFetch(DelayedFetch):
    """One whose answer says only that it is over: its partitions are read again in slices."""

    __slots__ = ()

    def on_complete(self) -> None:
        self.answer.complete([])

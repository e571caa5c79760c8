"""Fetch requests: what is read at once, what waits for more, and what is read a portion at a time (``fetchMessages``)."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.delayed_fetch import DelayedFetch, LargeFetch
from barnabas.replica.fetch_reader import FetchParams, FetchReader, PartitionRead
from barnabas.replica.purgatory import Purgatory

PORTION: Final = 20
"""Partitions of a large fetch that are read in one piece; a read may take 50 us."""
WATCHED_MAX: Final = 10_000
"""Partitions under which a fetch waits; to ask them all once takes about 20 ms."""
POLL_MS: Final = 100.0
"""How often a larger fetch looks again."""
REST_MS: Final = 3000.0
"""So long the requests of a session in which nothing moves may go without a look at all its partitions."""


class Fetches:
    """The fetches of a broker; those that wait are in the purgatory."""

    __slots__ = ("_clock", "_purgatory", "_reader", "_rest_ms")

    def __init__(
        self, reader: FetchReader, purgatory: Purgatory, clock: Clock, rest_ms: float = REST_MS
    ) -> None:
        """`rest_ms`: as `REST_MS`. It is to be a part of the time for which a silent follower counts as in sync."""
        self._reader = reader
        self._purgatory = purgatory
        self._clock = clock
        self._rest_ms = rest_ms

    def fetch(
        self, params: FetchParams, partitions: Iterable[CachedPartition]
    ) -> list[PartitionRead] | Pending[list[PartitionRead]]:
        """``fetchMessages``: what was read, at once or when there is enough, an error, or no time left."""
        reads = self._reader.read(params, partitions, record_follower=True)
        size = 0
        urgent = not reads or params.max_wait_ms <= 0
        for each in reads:
            size += each.size
            urgent = urgent or each.urgent
        if urgent or size >= params.min_bytes:
            return reads
        operation = DelayedFetch(self._reader, params, [each.partition for each in reads])
        # It may complete at once for another reason than bytes: a partition that is read past its end.
        self._purgatory.try_complete_else_watch(operation, operation.topic_partitions, params.max_wait_ms)
        return operation.answer

    def fetch_in_slices(
        self, params: FetchParams, partitions: list[CachedPartition]
    ) -> Sliced[tuple[list[PartitionRead], LargeFetch | None]]:
        """As `fetch`, for so many partitions that they are read a portion at a time.

        Where nothing has moved until the time was over, a fetch that rests comes with what was read: the next request
        of the session may resume it. More than `WATCHED_MAX` are not watched, but read again from time to time: to
        watch a million takes seconds, and so does to ask a million at each append.
        """
        until_ms = self._clock.monotonic_ms() + params.max_wait_ms
        reads, enough = yield from self._read_in_slices(params, partitions, record_follower=True)
        if not enough and len(partitions) <= WATCHED_MAX:
            operation = LargeFetch(self._reader, params, partitions, self._clock, self._rest_ms)
            self._purgatory.try_complete_else_watch(operation, operation.topic_partitions, params.max_wait_ms)
            if (yield operation.over) and self._are_current(reads):
                return reads, operation
            operation.force_complete()
            reads, _ = yield from self._read_in_slices(params, partitions, record_follower=False)
            return reads, None
        while not enough:
            now_ms = self._clock.monotonic_ms()
            if now_ms >= until_ms:
                break
            pause: Pending[None] = Pending()
            self._clock.call_later(min(POLL_MS, until_ms - now_ms), partial(pause.complete, None))
            yield pause
            reads, enough = yield from self._read_in_slices(params, partitions, record_follower=False)
        return reads, None

    def _are_current(self, reads: list[PartitionRead]) -> bool:
        """Whether it would be read again as it was: a partition may have moved while the others were read."""
        try:
            for each in reads:
                found, log = each.found, self._reader.partition(each.partition).log
                if (
                    found is None
                    or each.throttled  # time alone lets it go on
                    or log is None
                    or found.high_watermark != log.high_watermark
                    or found.log_start_offset != log.log_start_offset
                ):
                    return False
        except KafkaError:
            return False
        return True

    def _read_in_slices(
        self, params: FetchParams, partitions: list[CachedPartition], *, record_follower: bool
    ) -> Sliced[tuple[list[PartitionRead], bool]]:
        """What was read, and whether the client waits for no more."""
        reads: list[PartitionRead] = []
        size = 0
        urgent = params.max_wait_ms <= 0
        for start in range(0, len(partitions), PORTION):
            portion = self._reader.read(
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

"""Fetch requests: what is read at once, what waits for more, and what is read a portion at a time
(``fetchMessages``).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import Work, further_steps
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.delayed_fetch import DelayedFetch
from barnabas.replica.fetch_reader import FetchParams, FetchReader, PartitionRead
from barnabas.replica.purgatory import Purgatory

AT_ONCE_MAX: Final = 100
"""Partitions that are worked off in one piece: nearly every fetch there is."""
PORTION: Final = 20
"""Partitions of a larger fetch that are worked off in one piece; a read may take 50 us."""
WATCHED_MAX: Final = 10_000
"""Partitions under which a fetch waits; to ask them all once takes about 20 ms."""
POLL_MS: Final = 100.0
"""How often a larger fetch looks again."""
REST_MS: Final = 3000.0
"""How long requests of a session in which nothing moves may be answered without a look at all its partitions.
"""


class Fetches:
    """The fetches of a broker; those that wait are in the purgatory."""

    __slots__ = ("clock", "purgatory", "reader", "rest_ms")

    def __init__(
        self, reader: FetchReader, purgatory: Purgatory, clock: Clock, rest_ms: float = REST_MS
    ) -> None:
        """`rest_ms`: as `REST_MS`. It is to be a part of the time for which a silent follower counts as in
        sync.
        """
        self.reader = reader
        self.purgatory = purgatory
        self.clock = clock
        self.rest_ms = rest_ms

    def fetch(
        self, params: FetchParams, partitions: Sequence[CachedPartition]
    ) -> list[PartitionRead] | Pending[list[PartitionRead]]:
        """What was read, at once or when there is enough, an error, or no time left."""
        work = Fetch(self, params, partitions)
        awaited = work.step(AT_ONCE_MAX)
        outcome = work.value if work.done else further_steps(work, awaited, self.clock, PORTION, None)
        return cast("list[PartitionRead] | Pending[list[PartitionRead]]", outcome)


class Fetch(Work[list[PartitionRead]]):
    """``fetchMessages``: reads, waits for more where there is not enough, and reads again.

    More than `WATCHED_MAX` partitions are not watched, but read again from time to time: to watch a million
    takes seconds, and so does to ask a million at each append.
    """

    __slots__ = (
        "_at",
        "_fetches",
        "_operation",
        "_params",
        "_partitions",
        "_reads",
        "_size",
        "_until_ms",
        "_urgent",
        "_was_read",
        "resting",
    )

    def __init__(self, fetches: Fetches, params: FetchParams, partitions: Sequence[CachedPartition]) -> None:
        # As `Work.__init__`, without the call: there is such an object for each request.
        self.done = False
        self.value = None
        self.resting: DelayedFetch | None = None
        """Where nothing has moved until the time was over: the next request of the session may resume it."""
        self._operation: DelayedFetch | None = None
        self._was_read = False
        """Whether it has read all before: then followers are noted."""
        self._at = 0
        self._size = 0
        """Partitions and bytes of this pass."""
        self._until_ms = 0.0
        self._fetches = fetches
        self._params = params
        self._partitions = partitions
        self._urgent = params.max_wait_ms <= 0
        self._reads: list[PartitionRead] = []
        if len(partitions) > WATCHED_MAX:
            self._until_ms = fetches.clock.monotonic_ms() + params.max_wait_ms

    def step(self, entries: int) -> Pending[Any] | None:
        operation = self._operation
        if operation is not None and not self._at:
            # The wait is over and nothing was woken: what was read before is still the answer.
            if operation.over.result():
                if self._are_current():
                    self.resting = operation
                    self.value = self._reads
                    self.done = True
                    return None
                operation.force_complete()
            self._reads = []
        fetches, params, partitions, at = self._fetches, self._params, self._partitions, self._at
        count = len(partitions)
        portion = partitions if count <= entries else partitions[at : at + entries]
        reads = fetches.reader.read(
            params, portion, record_follower=not self._was_read, read_before=self._size
        )
        if at:
            self._reads += reads
        else:
            self._reads = reads
        until = at + entries
        # What it has waited for ends it, however much was read: only a further portion has to know.
        if operation is None or until < count:
            size, urgent = self._size, self._urgent
            for each in reads:
                size += each.size
                urgent = urgent or each.urgent
            if until < count:
                self._size, self._urgent, self._at = size, urgent, until
                return None
            if operation is None and reads and not urgent and size < params.min_bytes:
                awaited = self._wait()
                if awaited is not None:
                    self._was_read = True
                    self._at = self._size = 0
                    return awaited
        self.value = self._reads
        self.done = True
        return None

    def _wait(self) -> Pending[Any] | None:
        """What to wait for before all are read again; None if the time is over."""
        fetches, params, partitions = self._fetches, self._params, self._partitions
        if not self._until_ms:
            rest_ms = fetches.rest_ms if len(partitions) > AT_ONCE_MAX else 0.0
            operation = DelayedFetch(fetches.reader, params, partitions, fetches.clock, rest_ms)
            self._operation = operation
            # It may complete at once for another reason than bytes: a partition that is read past its end.
            fetches.purgatory.try_complete_else_watch(
                operation, operation.topic_partitions, params.max_wait_ms
            )
            return operation.over
        left_ms = self._until_ms - fetches.clock.monotonic_ms()
        if left_ms <= 0:
            return None
        self._reads = []
        pause: Pending[None] = Pending()
        fetches.clock.call_later(min(POLL_MS, left_ms), partial(pause.complete, None))
        return pause

    def _are_current(self) -> bool:
        """Whether it would be read again as it was: a partition may have moved while the others were read."""
        try:
            for each in self._reads:
                found, log = each.found, self._fetches.reader.partition(each.partition).log
                if (
                    found is None
                    or each.throttled  # it can be read when time has passed, without any change here
                    or log is None
                    or found.high_watermark != log.high_watermark
                    or found.log_start_offset != log.log_start_offset
                ):
                    return False
        except KafkaError:
            return False
        return True

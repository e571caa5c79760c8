"""The broker's half of fetch sessions (KIP-227): what each client fetches, so that it need not say it again.

Theory of operation
-------------------
A client that reads a thousand partitions, of which three have news, sends a full fetch once and gets a
session id. From then on its requests name only what changed, and responses only what has news. A request
becomes a `broker.fetch_context.FetchContext`; this module holds the sessions in memory.

The cache has a bound on sessions; a new one may evict an idle one (not used for `eviction_ms`), or one that
lived longer than that and is smaller. Followers' sessions are privileged: only followers' requests evict them
while they are young.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from barnabas.core.eventlog import EventLog
from barnabas.protocol.fetch_session import INITIAL_EPOCH, INVALID_SESSION_ID, next_epoch
from barnabas.replica.cached_partition import CachedPartition, PartitionKey

if TYPE_CHECKING:
    from barnabas.replica.delayed_fetch import DelayedFetch

EVICTION_MS: Final = 120_000
CACHED_PARTITIONS_MAX: Final = 500_000
"""How many partitions the sessions of consumers may have together;
each takes 300 bytes and time of the GC.
"""

_log = EventLog("replica.fetch_session")


class FetchSession:
    """What one client fetches, in the order in which it is read."""

    __slots__ = (
        "created_ms",
        "epoch",
        "evictable_by_all",
        "evictable_by_privileged",
        "id",
        "last_used_ms",
        "partitions",
        "privileged",
        "resting",
        "size",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, *, privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.size = 0
        """The number of partitions when the session was last touched; eviction goes by it."""
        self.evictable_by_all = self.evictable_by_privileged = False
        self.resting: DelayedFetch | None = None
        """What its last request left behind where nothing had moved."""

    def update(self, changed: Collection[CachedPartition], forgotten: Collection[PartitionKey]) -> None:
        """What a request adds, changes and no longer wants."""
        if changed or forgotten:
            self.end_rest()
        for partition in changed:
            key = partition.key
            known = self.partitions.get(key)
            if known is not None:
                partition.remember(known.high_watermark, known.log_start_offset)
            self.partitions[key] = partition  # one that is known keeps its place
        for key in forgotten:
            self.partitions.pop(key, None)

    def end_rest(self) -> None:
        """The next request looks at all partitions."""
        resting, self.resting = self.resting, None
        if resting is not None:
            resting.force_complete()

    def move_to_end(self, partition: CachedPartition) -> None:
        """Lets the others be read first next time."""
        key = partition.key
        if self.partitions.pop(key, None) is not None:
            self.partitions[key] = partition

    def rank(self) -> tuple[bool, int, int]:
        """The order of eviction, smallest first (``EvictableKey``)."""
        return self.privileged, self.size, self.id

    def __repr__(self) -> str:
        return f"<FetchSession {self.id} epoch={self.epoch} partitions={len(self.partitions)}>"


class FetchSessionCache:
    """All sessions of a broker, at most `slots` of them, with at most `partitions_max` partitions between
    them.

    A consumer whose session would be one partition too many gets none, as where all slots are taken.
    Followers do.
    """

    __slots__ = (
        "_eviction_ms",
        "_new_id",
        "_now_ms",
        "_partitions",
        "_partitions_max",
        "_sessions",
        "_slots",
        "evictions",
    )

    def __init__(
        self,
        slots: int,
        *,
        new_id: Callable[[], int],
        now_ms: Callable[[], int],
        eviction_ms: int = EVICTION_MS,
        partitions_max: int = CACHED_PARTITIONS_MAX,
    ) -> None:
        """`new_id` draws from 1 to 2**31 - 1, at random: an id must not be guessed by accident."""
        self._slots = slots
        self._new_id = new_id
        self._now_ms = now_ms
        self._eviction_ms = eviction_ms
        self._partitions_max = partitions_max
        self._partitions = 0
        # Ordered by last use: touching moves a session to the end.
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def open(self, *, size: int, privileged: bool, uses_topic_ids: bool) -> FetchSession | None:
        """``maybeCreateSession``: a new session, if there is a free slot or one that may be taken."""
        now_ms = self._now_ms()
        # No slot is free, and no session may be evicted for this one: the client fetches without a session.
        if len(self._sessions) >= self._slots and not self._try_evict(privileged, size, now_ms):
            return None
        # Not for followers: there are as many of their partitions as this broker leads.
        while not privileged and self._partitions + size > self._partitions_max:
            stale = self._stale(now_ms)
            if stale is None:
                return None
            self._drop(stale)
        session_id = self._new_id()
        while session_id in self._sessions or session_id == INVALID_SESSION_ID:
            session_id = self._new_id()
        session = FetchSession(
            session_id, privileged=privileged, uses_topic_ids=uses_topic_ids, now_ms=now_ms
        )
        self._sessions[session_id] = session
        return session

    def touch(self, session: FetchSession) -> None:
        """Notes a use of the session, and by whom it may be evicted from now on."""
        now_ms = self._now_ms()
        # The last used is at the end, so that the first is the one to look at for eviction.
        self.remove(session.id)
        session.last_used_ms = now_ms
        session.size = len(session.partitions)
        # Only consumers' partitions are bounded: followers have as many as they replicate.
        if not session.privileged:
            if self._partitions + session.size > self._partitions_max:
                return  # it has grown: its next request is answered FETCH_SESSION_ID_NOT_FOUND
            self._partitions += session.size
        self._sessions[session.id] = session
        old = now_ms - session.created_ms > self._eviction_ms
        session.evictable_by_all = old
        session.evictable_by_privileged = old or not session.privileged

    def remove(self, session_id: int) -> bool:
        session = self._sessions.pop(session_id, None)
        if session is None:
            return False
        if not session.privileged:
            self._partitions -= session.size
        return True

    def _try_evict(self, privileged: bool, size: int, now_ms: int) -> bool:
        victim = self._stale(now_ms) or self._smaller(privileged, size)
        if victim is None:
            return False
        self._drop(victim)
        return True

    def _drop(self, victim: FetchSession) -> None:
        self.remove(victim.id)
        self.evictions += 1
        _log.debug("fetch_session.evicted", session=victim.id, partitions=victim.size)

    def _stale(self, now_ms: int) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()), None)
        return oldest if oldest and now_ms - oldest.last_used_ms > self._eviction_ms else None

    def _smaller(self, privileged: bool, size: int) -> FetchSession | None:
        evictable = (
            session
            for session in self._sessions.values()
            if (session.evictable_by_privileged if privileged else session.evictable_by_all)
        )
        smallest = min(evictable, key=FetchSession.rank, default=None)
        return smallest if smallest and (privileged, size, INVALID_SESSION_ID) >= smallest.rank() else None

    def __repr__(self) -> str:
        return f"<FetchSessionCache {len(self._sessions)}/{self._slots} evictions={self.evictions}>"

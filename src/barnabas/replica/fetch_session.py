"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that it need not say it again.

Theory of operation
-------------------
A client that reads a thousand partitions, of which three have news, sends a full fetch once and gets a
session id. From then on its requests name only what changed, and responses only what has news. Both sides
count an epoch; a request with another epoch than expected is answered INVALID_FETCH_SESSION_EPOCH, one for
a session that was evicted FETCH_SESSION_ID_NOT_FOUND, and the client starts over with a full fetch.

    epoch -1 (FINAL)     close the session if one is named; no new one
    epoch  0 (INITIAL)   close the session if one is named; open a new one if a slot is free
    epoch  n             the n-th incremental request of the session

A request becomes a `FetchContext`: it lists the partitions to read, and turns what was read into the
response. The cache has a bound on sessions; a new one may evict an idle one (not used for `eviction_ms`),
or one that lived longer than that and is smaller. Followers' sessions are privileged: only followers'
requests evict them while they are young.

Sessions refuse to know how a partition is read.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, Uuid
from barnabas.core.slices import Sliced
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
CACHED_PARTITIONS_MAX: Final = 500_000
"""So many partitions the sessions of consumers may have between them; each takes 300 bytes, and the time of the collector."""
SESSION_PARTITIONS_MAX: Final = 20_000
"""So many partitions a session may have: a request of it looks at each of them in one piece, in about 20 ms."""
PORTION: Final = 100
"""Partitions of a larger fetch that are worked off in one piece."""
TOPIC_IDS_SINCE: Final = 13
"""The Fetch version that names topics by id (KIP-516)."""

_INT_MAX: Final = 2**31 - 1
_log = EventLog("replica.fetch_session")

PartitionKey: TypeAlias = tuple[Uuid | str | None, int]


def next_epoch(epoch: int) -> int:
    """The epoch of the next request; it wraps to 1, because 0 would open a new session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _INT_MAX else epoch + 1


class CachedPartition:
    """One partition of a fetch: what the client asks of it, and what it was told last."""

    __slots__ = ("high_watermark", "log_start_offset", "request", "topic", "topic_id")

    def __init__(self, topic: str | None, topic_id: Uuid, request: FetchPartition) -> None:
        self.topic = topic
        """None while no topic of that id is known here."""
        self.topic_id = topic_id
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1

    @property
    def key(self) -> PartitionKey:
        """What names it inside a session: by topic id if there is one, else by topic name."""
        return (self.topic if self.topic_id == ZERO_UUID else self.topic_id), self.request.partition

    def remember(self, response: PartitionData) -> None:
        """Notes what a full response tells the client."""
        self.high_watermark = response.high_watermark
        self.log_start_offset = response.log_start_offset

    def has_news(self, response: PartitionData) -> bool:
        """Whether the client must hear of this, and notes it. An error is never remembered as told."""
        news = bool(response.records)
        if self.high_watermark != response.high_watermark:
            news = True
            self.high_watermark = response.high_watermark
        if self.log_start_offset != response.log_start_offset:
            news = True
            self.log_start_offset = response.log_start_offset
        if response.error_code:
            self.high_watermark = -1
            return True
        return news or response.preferred_read_replica >= 0 or response.diverging_epoch is not None

    def __repr__(self) -> str:
        return f"<CachedPartition {self.topic}-{self.request.partition} hw={self.high_watermark}>"


Results: TypeAlias = Iterable[tuple[CachedPartition, PartitionData]]


def build_response(results: Results, session_id: int = INVALID_SESSION_ID) -> FetchResponse:
    """A response in the order of the results; neighbours of one topic share an entry."""
    topics: list[FetchableTopicResponse] = []
    _add_results(topics, results)
    return FetchResponse(session_id=session_id, responses=topics)


def _add_results(topics: list[FetchableTopicResponse], results: Results) -> None:
    last_key: Uuid | str | None = None
    if topics:
        last_key = topics[-1].topic if topics[-1].topic_id == ZERO_UUID else topics[-1].topic_id
    for partition, data in results:
        key = partition.topic if partition.topic_id == ZERO_UUID else partition.topic_id
        if topics and key == last_key:
            topics[-1].partitions.append(data)
        else:
            topics.append(
                FetchableTopicResponse(
                    topic=partition.topic or "", topic_id=partition.topic_id, partitions=[data]
                )
            )
            last_key = key


class FetchContext:
    """A fetch without a session: the request says everything, and so does the response."""

    __slots__ = ("_partitions",)

    def __init__(self, partitions: Collection[CachedPartition]) -> None:
        self._partitions = partitions

    def partitions(self) -> Collection[CachedPartition]:
        """What to read, in order."""
        return self._partitions

    def respond(self, results: Results) -> FetchResponse:
        """The response for what was read."""
        return build_response(results)

    def respond_in_slices(
        self, results: list[tuple[CachedPartition, PartitionData]]
    ) -> Sliced[FetchResponse]:
        """The response for what was read of more partitions than are answered for at once."""
        yield
        return self.respond(results)


class HugeFetchContext(FetchContext):
    """A fetch of more partitions than a session may have: it has none, whatever the client asked for."""

    __slots__ = ()

    def respond_in_slices(
        self, results: list[tuple[CachedPartition, PartitionData]]
    ) -> Sliced[FetchResponse]:
        """The response, some results at a time."""
        response = FetchResponse(session_id=INVALID_SESSION_ID)
        for start in range(0, len(results), PORTION):
            _add_results(response.responses, results[start : start + PORTION])
            yield
        return response


class SessionErrorContext(FetchContext):
    """The request does not fit its session: nothing is read, the error is the answer."""

    __slots__ = ("_error",)

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(())
        self._error = error

    def respond(self, results: Results) -> FetchResponse:  # noqa: ARG002 - there is nothing to read
        """The error alone."""
        return FetchResponse(error_code=self._error, session_id=INVALID_SESSION_ID)


class FullFetchContext(FetchContext):
    """A full fetch that asks for a session."""

    __slots__ = ("_cache", "_privileged", "_uses_topic_ids")

    def __init__(
        self,
        partitions: Collection[CachedPartition],
        cache: "FetchSessionCache",
        *,
        privileged: bool,
        uses_topic_ids: bool,
    ) -> None:
        super().__init__(partitions)
        self._cache = cache
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids

    def respond(self, results: Results) -> FetchResponse:
        """Everything, and the id of the new session if there is room for one."""
        told = list(results)
        session = self._cache.open(
            size=len(told), privileged=self._privileged, uses_topic_ids=self._uses_topic_ids
        )
        if session is None:
            return build_response(told)
        for partition, data in told:
            partition.remember(data)
            session.partitions[partition.key] = partition
        self._cache.touch(session)
        return build_response(told, session.id)


class IncrementalFetchContext(FetchContext):
    """A request of a session: the session says what to read, the response has only the news."""

    __slots__ = ("_expected_epoch", "_session")

    def __init__(self, session: "FetchSession", expected_epoch: int, names: Mapping[Uuid, str]) -> None:
        if session.uses_topic_ids:
            for partition in session.partitions.values():
                partition.topic = partition.topic or names.get(partition.topic_id)
        super().__init__(list(session.partitions.values()))
        self._session = session
        self._expected_epoch = expected_epoch

    def respond(self, results: Results) -> FetchResponse:
        """The partitions with news; those with records go to the end of the line, for fairness."""
        session = self._session
        if session.epoch != self._expected_epoch:
            # A later request of the session was handled while this one waited: one of the two is a duplicate.
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        news = []
        for partition, data in results:
            if partition.has_news(data):
                news.append((partition, data))
                if data.records:
                    session.move_to_end(partition)
        return build_response(news, session.id)


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

    def update(self, changed: Iterable[CachedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Takes in what a request adds, changes and no longer wants."""
        for partition in changed:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
            else:
                known.request = partition.request
        for key in forgotten:
            self.partitions.pop(key, None)

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
    """All sessions of a broker, at most `slots` of them, and of so many partitions between them.

    A consumer whose session would be one partition too many gets none, as where all slots are taken. Followers do.
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
        """The session of that id."""
        return self._sessions.get(session_id)

    def open(self, *, size: int, privileged: bool, uses_topic_ids: bool) -> FetchSession | None:
        """A new session, if there is a free slot or one that may be taken."""
        now_ms = self._now_ms()
        if len(self._sessions) >= self._slots and not self._evict(privileged, size, now_ms):
            return None
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
        self.remove(session.id)
        session.last_used_ms = now_ms
        session.size = len(session.partitions)
        if not session.privileged:
            if self._partitions + session.size > self._partitions_max:
                return  # it has grown: its next request will be told that there is no such session
            self._partitions += session.size
        self._sessions[session.id] = session
        old = now_ms - session.created_ms > self._eviction_ms
        session.evictable_by_all = old
        session.evictable_by_privileged = old or not session.privileged

    def remove(self, session_id: int) -> bool:
        """Forgets a session; False if there is none of that id."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return False
        if not session.privileged:
            self._partitions -= session.size
        return True

    def _evict(self, privileged: bool, size: int, now_ms: int) -> bool:
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


class FetchManager:
    """Turns each Fetch request into its context (``FetchManager``)."""

    __slots__ = ("_cache",)

    def __init__(self, cache: FetchSessionCache) -> None:
        self._cache = cache

    def context(
        self, request: FetchRequest, version: int, names: Mapping[Uuid, str], *, from_follower: bool
    ) -> FetchContext:
        """The context of a request; `names` resolves topic ids (empty for versions without them)."""
        partitions = _requested(request, version, names)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._full(request, version, partitions, from_follower)
        session = self._cache.get(request.session_id)
        if session is None:
            return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return SessionErrorContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (version >= TOPIC_IDS_SINCE):
            return SessionErrorContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._incremental(request, version, names, session, partitions)

    def huge_context(
        self, request: FetchRequest, version: int, names: Mapping[Uuid, str]
    ) -> Sliced[FetchContext]:
        """The context of a request with more than `SESSION_PARTITIONS_MAX` entries."""
        self._cache.remove(request.session_id)
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        by_id = version >= TOPIC_IDS_SINCE
        found: dict[PartitionKey, CachedPartition] = {}
        for topic in request.topics:
            name = names.get(topic.topic_id) if by_id else topic.topic
            for entry in topic.partitions:
                partition = CachedPartition(name, topic.topic_id, entry)
                found[partition.key] = partition
                yield
            yield
        return HugeFetchContext(list(found.values()))

    def _full(
        self,
        request: FetchRequest,
        version: int,
        partitions: Collection[CachedPartition],
        from_follower: bool,
    ) -> FetchContext:
        if request.session_id != INVALID_SESSION_ID:
            self._cache.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return FetchContext(partitions)
        return FullFetchContext(
            partitions, self._cache, privileged=from_follower, uses_topic_ids=version >= TOPIC_IDS_SINCE
        )

    def _incremental(
        self,
        request: FetchRequest,
        version: int,
        names: Mapping[Uuid, str],
        session: FetchSession,
        partitions: Collection[CachedPartition],
    ) -> FetchContext:
        session.update(partitions, _forgotten(request, version))
        if not session.partitions:
            # Nothing is left to fetch: the session has served its purpose, its slot is free again.
            self._cache.remove(session.id)
            return FetchContext(partitions)
        if len(session.partitions) > SESSION_PARTITIONS_MAX:
            # The client begins again with a full fetch, and gets no session for so much.
            self._cache.remove(session.id)
            return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._cache.touch(session)
        session.epoch = next_epoch(session.epoch)
        return IncrementalFetchContext(session, session.epoch, names)


def _requested(request: FetchRequest, version: int, names: Mapping[Uuid, str]) -> Collection[CachedPartition]:
    by_id = version >= TOPIC_IDS_SINCE
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic = topics[0]
        name = names.get(topic.topic_id) if by_id else topic.topic
        return (CachedPartition(name, topic.topic_id, topic.partitions[0]),)
    # The last entry wins where a partition is named twice, at the place of the first.
    found: dict[PartitionKey, CachedPartition] = {}
    for topic in topics:
        name = names.get(topic.topic_id) if by_id else topic.topic
        for entry in topic.partitions:
            partition = CachedPartition(name, topic.topic_id, entry)
            found[partition.key] = partition
    return found.values()


def _forgotten(request: FetchRequest, version: int) -> Iterable[PartitionKey]:
    for topic in request.forgotten_topics_data:
        key = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.topic
        for partition in topic.partitions:
            yield key, partition

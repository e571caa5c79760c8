"""Each Fetch request becomes a context: what to read, and how to answer with it (``FetchManager``, KIP-227).

Theory of operation
-------------------
Both sides of a session count an epoch; a request with another epoch than expected is answered
INVALID_FETCH_SESSION_EPOCH, one for a session that was evicted FETCH_SESSION_ID_NOT_FOUND, and the client
starts over with a full fetch.

    epoch -1 (FINAL)     close the session if one is named; no new one
    epoch  0 (INITIAL)   close the session if one is named; open a new one if a slot is free
    epoch  n             the n-th incremental request of the session

How a partition is read is none of its business.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, Uuid
from barnabas.core.slices import Sliced, in_one_piece
from barnabas.protocol.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, INVALID_SESSION_ID, next_epoch
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.replica.cached_partition import CachedPartition, PartitionKey
from barnabas.replica.delayed_fetch import DelayedFetch
from barnabas.replica.fetch_reader import FetchParams, PartitionRead
from barnabas.replica.fetch_session import FetchSession, FetchSessionCache

SESSION_PARTITIONS_MAX: Final = 20_000
"""How many partitions a session may have: a request of it looks at each of them in one piece, in about 20 ms.
"""
TOPIC_IDS_SINCE: Final = 13
"""The Fetch version that names topics by id (KIP-516)."""

_FRAME_BYTES: Final = 34
_ENTRY_BYTES: Final = 40
"""Of a response with one topic, and of each partition, beside its records."""

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


def _response_bytes(reads: Sequence[PartitionRead], entries: int) -> int:
    return _FRAME_BYTES + entries * _ENTRY_BYTES + sum(read.size for read in reads)


class FetchContext:
    """A fetch without a session:
    the request says everything, and so does the response (``SessionlessFetchContext``).
    """

    __slots__ = ("_partitions", "_topics")

    def __init__(self, partitions: Sequence[CachedPartition]) -> None:
        self._partitions = partitions
        self._topics: list[FetchableTopicResponse] = []

    def partitions(self) -> Sequence[CachedPartition]:
        return self._partitions

    def take_resting(self, params: FetchParams) -> DelayedFetch | None:  # noqa: ARG002 - of sessions only
        """What the request before left behind, if it stands for this one too."""
        return None

    def leave_resting(self, fetch: DelayedFetch) -> None:
        """Nothing has moved. Without a session there is no next request to resume it."""
        fetch.force_complete()

    def add(self, results: Results) -> None:
        """A portion of the results of a large fetch; those that are left are given to `respond`."""
        _add_results(self._topics, results)

    def respond(self, results: Results) -> FetchResponse:
        _add_results(self._topics, results)
        return FetchResponse(session_id=INVALID_SESSION_ID, responses=self._topics)

    def response_bytes(self, reads: Sequence[PartitionRead], refused: int) -> int:
        """About how large a response is, that has what was read and as many refusals
        (``getResponseSize``).
        """
        return _response_bytes(reads, len(reads) + refused)

    def throttled(self) -> FetchResponse:
        """The answer to a client that has to wait: nothing, and nothing is remembered
        (``getThrottledResponse``).
        """
        return FetchResponse(session_id=INVALID_SESSION_ID)


class SessionErrorContext(FetchContext):
    """The request does not fit its session: nothing is read, the error is the answer."""

    __slots__ = ("_error",)

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(())
        self._error = error

    def respond(self, results: Results) -> FetchResponse:  # noqa: ARG002 - nothing is read
        return self.throttled()

    def throttled(self) -> FetchResponse:
        return FetchResponse(error_code=self._error, session_id=INVALID_SESSION_ID)


class FullFetchContext(FetchContext):
    """A full fetch that asks for a session."""

    __slots__ = ("_cache", "_privileged", "_remembered", "_uses_topic_ids")

    def __init__(
        self,
        partitions: Sequence[CachedPartition],
        cache: FetchSessionCache,
        *,
        privileged: bool,
        uses_topic_ids: bool,
    ) -> None:
        super().__init__(partitions)
        self._cache = cache
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids
        self._remembered: dict[PartitionKey, CachedPartition] = {}

    def add(self, results: Results) -> None:
        for partition, data in results:
            partition.remember(data.high_watermark, data.log_start_offset)
            self._remembered[partition.key] = partition
        _add_results(self._topics, results)

    def respond(self, results: Results) -> FetchResponse:
        """Everything, and the id of the new session if there is room for one: before it is there no other
        request can be of the session.
        """
        self.add(results)
        response = FetchResponse(session_id=INVALID_SESSION_ID, responses=self._topics)
        session = self._cache.open(
            size=len(self._remembered), privileged=self._privileged, uses_topic_ids=self._uses_topic_ids
        )
        if session is not None:
            session.partitions = self._remembered
            self._cache.touch(session)
            response.session_id = session.id
        return response


class IncrementalFetchContext(FetchContext):
    """A request of a session: the session says what to read, the response has only the news."""

    __slots__ = ("_expected_epoch", "_names", "_results", "_session")

    def __init__(self, session: FetchSession, expected_epoch: int, names: Mapping[Uuid, str]) -> None:
        super().__init__(())
        self._session = session
        self._expected_epoch = expected_epoch
        self._names = names
        self._results: list[tuple[CachedPartition, PartitionData]] = []

    def partitions(self) -> Sequence[CachedPartition]:
        partitions = list(self._session.partitions.values())
        if self._session.uses_topic_ids:
            for partition in partitions:
                partition.topic = partition.topic or self._names.get(partition.topic_id)
        return partitions

    def take_resting(self, params: FetchParams) -> DelayedFetch | None:
        resting = self._session.resting
        if resting is not None and resting.can_resume(params):
            return resting
        self._session.end_rest()
        return None

    def leave_resting(self, fetch: DelayedFetch) -> None:
        # Else a later request of the session has come, and reads by itself.
        if self._session.epoch == self._expected_epoch:
            self._session.resting = fetch
        else:
            fetch.force_complete()

    def add(self, results: Results) -> None:
        """What the session remembers and what the response says are of one moment, that of `respond`."""
        self._results += results

    def respond(self, results: Results) -> FetchResponse:
        """The partitions with news; those with records go to the end of the line, for fairness.

        In one piece: a session has at most `SESSION_PARTITIONS_MAX` partitions.
        """
        session = self._session
        if session.epoch != self._expected_epoch:
            # A later request of the session was handled while this one waited: one of the two is a duplicate.
            return self.throttled()
        news = []
        if self._results:
            self._results += results
            results = self._results
        for partition, data in results:
            moved = partition.has_news(data.high_watermark, data.log_start_offset, data.error_code)
            if data.records:
                session.move_to_end(partition)
            elif not moved and data.preferred_read_replica < 0 and data.diverging_epoch is None:
                continue
            news.append((partition, data))
        return build_response(news, session.id)

    def response_bytes(self, reads: Sequence[PartitionRead], refused: int) -> int:
        """As above; of what has not moved the response says nothing."""
        return _response_bytes(reads, refused + sum(read.size > 0 for read in reads))

    def throttled(self) -> FetchResponse:
        session = self._session
        stale = session.epoch != self._expected_epoch
        code = ErrorCode.INVALID_FETCH_SESSION_EPOCH if stale else ErrorCode.NONE
        return FetchResponse(error_code=code, session_id=session.id)


def new_context(
    cache: FetchSessionCache,
    request: FetchRequest,
    version: int,
    names: Mapping[Uuid, str],
    *,
    from_follower: bool,
    entries: int = 0,
    partitions: Sequence[CachedPartition] | None = None,
) -> FetchContext:
    """``FetchManager.newContext``; `names` resolves topic ids (empty for versions without them).

    Where a request's `entries` are too many for one piece of work, the `partitions` are what
    `requested` has found.
    """
    if partitions is None:
        partitions = _few_requested(request, version, names)
    too_many = entries > SESSION_PARTITIONS_MAX
    uses_topic_ids = version >= TOPIC_IDS_SINCE
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        # A full fetch ends the session that the client had.
        if request.session_id != INVALID_SESSION_ID:
            cache.remove(request.session_id)
        if too_many or request.session_epoch == FINAL_EPOCH:
            return FetchContext(partitions)
        return FullFetchContext(partitions, cache, privileged=from_follower, uses_topic_ids=uses_topic_ids)
    if too_many:
        cache.remove(request.session_id)
        return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    session = cache.get(request.session_id)
    # Evicted, or of this broker's former life: the client begins again with a full fetch.
    if session is None:
        return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    # A request was lost or sent twice: the two sides may differ in what the session holds.
    if session.epoch != request.session_epoch:
        return SessionErrorContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    # The client changed its version, so topics of the session are known by other keys (KIP-516).
    if session.uses_topic_ids != uses_topic_ids:
        return SessionErrorContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    session.update(partitions, _forgotten(request, version))
    if not session.partitions:
        # Nothing is left to fetch: the session has served its purpose, its slot is free again.
        cache.remove(session.id)
        return FetchContext(partitions)
    if len(session.partitions) > SESSION_PARTITIONS_MAX:
        # The client begins again with a full fetch, and gets no session for so much.
        cache.remove(session.id)
        return SessionErrorContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    cache.touch(session)
    session.epoch = next_epoch(session.epoch)
    return IncrementalFetchContext(session, session.epoch, names)


def requested(
    request: FetchRequest, version: int, names: Mapping[Uuid, str], entries: int = 0
) -> Sliced[list[CachedPartition]]:
    """What a request names; where it names a partition twice its last entry wins, at the place of the
    first.
    """
    if entries > SESSION_PARTITIONS_MAX and request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        return []  # more than a session may have: refused as it is
    found: dict[PartitionKey, CachedPartition] = {}
    for topic in request.topics:
        name = names.get(topic.topic_id) if version >= TOPIC_IDS_SINCE else topic.topic
        for entry in topic.partitions:
            partition = _cached(name, topic.topic_id, entry)
            found[partition.key] = partition
            yield
        yield
    return list(found.values())


def _cached(topic: str | None, topic_id: Uuid, asked: FetchPartition) -> CachedPartition:
    return CachedPartition(
        topic,
        topic_id,
        asked.partition,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
        asked.log_start_offset,
    )


def _few_requested(
    request: FetchRequest, version: int, names: Mapping[Uuid, str]
) -> Sequence[CachedPartition]:
    topics = request.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        topic = topics[0]
        name = names.get(topic.topic_id) if version >= TOPIC_IDS_SINCE else topic.topic
        return (_cached(name, topic.topic_id, topic.partitions[0]),)
    return in_one_piece(requested(request, version, names))


def _forgotten(request: FetchRequest, version: int) -> list[PartitionKey]:
    forgotten: list[PartitionKey] = []
    for topic in request.forgotten_topics_data:
        key = topic.topic_id if version >= TOPIC_IDS_SINCE else topic.topic
        forgotten += [(key, partition) for partition in topic.partitions]
    return forgotten

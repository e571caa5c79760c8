"""Fetch (1), v4-17.

Behaviour: reads partitions, first come first served until the size limits are used up; waits up to
max_wait_ms for min_bytes, but never with bad news. Consumers see what is committed, followers everything.
Versions:  v7 sessions (KIP-227) · v9 leader epochs (KIP-320) · v11 reads from followers (KIP-392) ·
           v12 flexible, diverging epochs (KIP-595) · v13 topic ids (KIP-516) · v15 replica state (KIP-903) ·
           v16 names the leader where another broker is asked (KIP-951).
Not implemented: v0-3, whose record formats Kafka 4 no longer has (KIP-896).
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.fetch_context import TOPIC_IDS_SINCE, FetchContext, new_context, requested
from barnabas.broker.isolation_level import isolation_of
from barnabas.broker.leaders import current_leader
from barnabas.broker.registry import handles
from barnabas.broker.request_metrics import FOLLOWER_FETCH
from barnabas.broker.throttling import NO_TIME, fetch_throttle_ms
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced, Work, further_steps
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.delayed_fetch import DelayedFetch
from barnabas.replica.fetch import AT_ONCE_MAX, PORTION, Fetch
from barnabas.replica.fetch_reader import LEADER, FetchParams, PartitionRead
from barnabas.replica.log_read import Isolation

REPLICA_STATE_SINCE: Final = 15
FOLLOWERS_SINCE: Final = 11
LEADERS_SINCE: Final = 16
STORAGE_ERROR_SINCE: Final = 6
ZSTD_SINCE: Final = 10

# The stages of a request.
_REQUEST: Final = 0
_SELECT: Final = 1
_READ: Final = 2
_ANSWER: Final = 3

# Bound once: every request asks for these, and an enum takes its time to find a member.
_MAY_READ: Final = Operation.READ
_TOPIC: Final = Resource.TOPIC

Results: TypeAlias = list[tuple[CachedPartition, PartitionData]]


def _failed(request: FetchRequest, error: KafkaError, version: int) -> Sliced[FetchResponse]:
    response = FetchResponse(error_code=error.code, session_id=request.session_id)
    # Old clients look into the partitions, new ones at the top.
    for topic in [] if version >= TOPIC_IDS_SINCE else request.topics:
        answer = FetchableTopicResponse(topic=topic.topic)
        response.responses.append(answer)
        for each in topic.partitions:
            partition = _refused(each.partition, error.code)
            partition.records = None
            answer.partitions.append(partition)
            yield
        yield
    return response


@handles(ApiKey.FETCH, versions=(4, 18), failed=_failed)
def fetch(context: RequestContext, request: FetchRequest) -> FetchResponse | Pending[FetchResponse]:
    work = _Fetch(context, request)
    awaited = work.step(AT_ONCE_MAX)
    if work.done:
        answer: FetchResponse = work.value
        return answer
    return further_steps(work, awaited, context.broker.clock, PORTION, context.peer)


class _Fetch(Work[FetchResponse]):
    """A request: what it asks for becomes a session's, is selected, read and answered;
    a portion of it at a time.
    """

    __slots__ = (
        "_at",
        "_context",
        "_entries",
        "_fetch",
        "_leaders",
        "_may_read",
        "_named",
        "_names",
        "_params",
        "_partitions",
        "_readable",
        "_refused",
        "_request",
        "_requested",
        "_resumed",
        "_session",
        "_stage",
        "_until_ms",
    )

    _session: FetchContext
    _partitions: Sequence[CachedPartition]
    """Both are there once the request has begun."""

    def __init__(self, context: RequestContext, request: FetchRequest) -> None:
        # As `Work.__init__`, without the call: there is such an object for each request.
        self.done = False
        self.value = None
        self._stage = _REQUEST
        self._requested: Sliced[list[CachedPartition]] | None = None
        self._at = 0
        """Partitions that this stage is done with."""
        self._resumed: Pending[bool] | None = None
        self._until_ms = 0.0
        services = context.broker
        version = context.version
        self._context = context
        self._request = request
        self._params = _params(context, request, services.config["fetch.max.bytes"])
        self._names = services.metadata_cache.snapshot.topic_names if version >= TOPIC_IDS_SINCE else {}
        self._may_read: dict[str, bool] = {}
        """Of each topic that the client asked for, once it was found out.

        Not `RequestContext.may`: it would have to hold `_times_named`, which holds this fetch, and what a
        fetch waits with would stay until Python looks for cycles.
        """
        self._readable: list[CachedPartition] = []
        self._refused: Results = []
        self._named: Counter[str | None] | None = None
        self._fetch: Fetch | None = None
        self._leaders: dict[int, NodeEndpoint] = {}
        self._entries = entries = _entries(request)
        if entries > AT_ONCE_MAX:
            self._requested = requested(request, version, self._names, entries)

    def step(self, entries: int) -> Pending[Any] | None:
        """The next portion of what is under way. In a request of few partitions one step is all of it."""
        if self._stage == _REQUEST:
            if not self._begin(entries):
                return None
            if self._resumed is not None:
                return self._resumed
        elif self._resumed is not None:
            if not self._resumed.result():
                self._go_on()
            else:
                if not self._throttle([]):
                    self.value = self._session.respond([])
                    self.done = True
                return None
        fetching, replicas = self._fetch, self._context.broker.replica_manager
        if fetching is None:
            if not self._select(entries):
                return None
            self._fetch = fetching = Fetch(replicas.fetches, self._params, self._readable)
            self._stage = _READ
        if self._stage == _READ:
            awaited = fetching.step(entries)
            if not fetching.done:
                return awaited
            if self._throttle(fetching.value):
                if fetching.resting is not None:
                    fetching.resting.force_complete()
                return None
            replicas.reader.record_sent(self._params, fetching.value)
            if fetching.resting is not None:
                self._leave_resting(fetching.resting)
            self._at = 0
            self._stage = _ANSWER
        self._answer(fetching.value, entries)
        return None

    def _begin(self, left: int) -> bool:
        """Looks at `left` more entries of the request; whether the request is a session's."""
        context, partitions = self._context, None
        if self._requested is not None:
            try:
                for _ in range(left):
                    next(self._requested)
            except StopIteration as found:
                partitions = found.value
            else:
                return False
        session = self._session = new_context(
            context.broker.fetch_sessions,
            self._request,
            context.version,
            self._names,
            from_follower=self._params.from_follower,
            entries=self._entries,
            partitions=partitions,
        )
        self._stage = _SELECT
        resting = session.take_resting(self._params)
        if resting is not None:
            # A request that changes nothing, of a session in which nothing had moved: news come once
            # something moves.
            self._until_ms = context.broker.clock.monotonic_ms() + self._params.max_wait_ms
            self._resumed = resting.resume()
        else:
            self._partitions = session.partitions()
        return True

    def _go_on(self) -> None:
        """Something has moved, or all are to be read once in a while: as if the request had come now."""
        left_ms = max(0, math.ceil(self._until_ms - self._context.broker.clock.monotonic_ms()))
        self._params = self._params.waiting(left_ms)
        self._partitions = self._session.partitions()
        self._resumed = None

    def _ask_for(self, topic: str) -> bool:
        context = self._context
        allowed = context.authorize(_MAY_READ, _TOPIC, topic, self._times_named)
        self._may_read[topic] = allowed
        return allowed

    def _times_named(self, topic: str) -> int:
        """How many partitions of a topic are asked for; a denial says so in the audit."""
        if self._named is None:
            self._named = Counter(each.topic for each in self._partitions)
        return self._named[topic]

    # --- who is refused, in which order, with which code ----------------------------------------------------

    def _select(self, left: int) -> bool:
        """Which of the next `left` partitions may be read, and the answers for the others;
        whether these were the last.
        """
        context, params, partitions, at = self._context, self._params, self._partitions, self._at
        count = len(partitions)
        portion = partitions if count <= left else partitions[at : at + left]
        self._at = until = at + left
        from_follower = params.from_follower
        if from_follower and not context.authorize_cluster(Operation.CLUSTER_ACTION):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            self._refused += [(each, _refused(each.partition, code)) for each in portion]
            return until >= count
        known = context.broker.metadata_cache.snapshot.partitions
        readable, refused, may_read = self._readable, self._refused, self._may_read
        for each in portion:
            index = each.partition
            if each.topic is None:
                refused.append((each, _refused(index, ErrorCode.UNKNOWN_TOPIC_ID)))
            elif not from_follower and not (
                may_read[each.topic] if each.topic in may_read else self._ask_for(each.topic)
            ):
                refused.append((each, _refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
            elif index not in known.get(each.topic, ()):
                refused.append((each, _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
            else:
                readable.append(each)
        return until >= count

    # --- the answer -----------------------------------------------------------------------------------------

    def _throttle(self, reads: list[PartitionRead]) -> bool:
        """Whether the client has to wait for a quota. It is answered then, and gets nothing."""
        context, session = self._context, self._session
        if not context.broker.quotas.enabled or self._params.from_follower:
            return False
        if fetch_throttle_ms(context, session.response_bytes(reads, len(self._refused))) <= 0:
            return False
        self.value = session.throttled()
        self.done = True
        return True

    def _leave_resting(self, resting: DelayedFetch) -> None:
        if self._refused:
            resting.force_complete()  # what is refused is refused with each answer
        else:
            self._session.leave_resting(resting)

    def _answer(self, reads: list[PartitionRead], left: int) -> None:
        """Answers for `left` partitions: those that were read, then those that were refused."""
        context, leaders, refused, at = self._context, self._leaders, self._refused, self._at
        until, count = at + left, len(reads)
        portion = reads if count <= left and not at else reads[at:until]
        results: Results = [(read.partition, _answer(context, read, leaders)) for read in portion]
        if refused:
            results += refused[max(at - count, 0) : max(until - count, 0)]
            count += len(refused)
        if until < count:
            self._at = until
            self._session.add(results)
            return
        response = self._session.respond(results)
        if leaders:
            response.node_endpoints = list(leaders.values())
        self.value = response
        self.done = True


def _entries(request: FetchRequest) -> int:
    entries = len(request.topics)
    for topic in request.topics:
        entries += len(topic.partitions)
    for forgotten in request.forgotten_topics_data:
        entries += len(forgotten.partitions) + 1
    return entries


def _params(context: RequestContext, request: FetchRequest, max_bytes: int) -> FetchParams:
    version = context.version
    replica_id, broker_epoch = request.replica_id, -1
    if version >= REPLICA_STATE_SINCE and request.replica_state is not None:
        replica_id, broker_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    if replica_id >= 0:
        isolation = Isolation.LOG_END
        context.metrics_key = FOLLOWER_FETCH
        context.counted = NO_TIME
    else:
        isolation = isolation_of(request.isolation_level)
    limit = request.max_bytes if replica_id >= 0 else min(request.max_bytes, max_bytes)
    quota = context.broker.quotas.fetch
    if quota.enabled and replica_id < 0:
        limit = int(min(limit, quota.most_in_window(context.principal, context.client_id)))
    return FetchParams(
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, limit),
        max_bytes=limit,
        isolation=isolation,
        replica_id=replica_id,
        broker_epoch=broker_epoch,
        leader_only=replica_id >= 0 or version < FOLLOWERS_SINCE,
        rack=request.rack_id,
        listener=context.listener,
    )


def _refused(partition: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=-1,
        records=b"",
    )


def _answer(context: RequestContext, read: PartitionRead, leaders: dict[int, NodeEndpoint]) -> PartitionData:
    index = read.partition.partition
    found = read.found
    if found is None:
        return _error(context, read, leaders)
    if context.version < ZSTD_SINCE and _is_zstd(context, read):
        return _refused(index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    data = PartitionData(
        partition_index=index,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        log_start_offset=found.log_start_offset,
        aborted_transactions=None,
        records=found.records,
    )
    if found.aborted is not None:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
            for each in found.aborted
        ]
    if read.preferred_read_replica != LEADER:
        data.preferred_read_replica = read.preferred_read_replica
    if found.diverging is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=found.diverging.epoch, end_offset=found.diverging.end_offset
        )
    return data


def _is_zstd(context: RequestContext, read: PartitionRead) -> bool:
    """Whether the topic is compressed with what such an old consumer cannot read (KIP-110)."""
    tp = TopicPartition(read.partition.topic or "", read.partition.partition)
    partition = context.broker.replica_manager.partition(tp)
    log = None if partition is None else partition.log
    return log is not None and log.config.compression_type == "zstd"


def _error(context: RequestContext, read: PartitionRead, leaders: dict[int, NodeEndpoint]) -> PartitionData:
    code = read.error
    if code is ErrorCode.KAFKA_STORAGE_ERROR and context.version < STORAGE_ERROR_SINCE:
        # An old client would take the code that it does not know for a fatal one.
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = _refused(read.partition.partition, code)
    data.aborted_transactions = None  # what was not even looked up has an empty list, as in Kafka
    moved = read.error in {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
    if moved and context.version >= LEADERS_SINCE:
        tp = TopicPartition(read.partition.topic or "", data.partition_index)
        leader = current_leader(context, tp)
        data.current_leader = LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)
        if leader.endpoint is not None:
            leaders[leader.id] = NodeEndpoint(
                node_id=leader.id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack
            )
    return data

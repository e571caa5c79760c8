"""Fetch (1), v4-17.

Behaviour: reads partitions, first come first served until the size limits are used up; waits up to max_wait_ms
for min_bytes, but never with bad news. Consumers see what is committed, followers everything.
Versions:  v7 sessions (KIP-227) · v9 leader epochs (KIP-320) · v11 reads from followers (KIP-392) ·
           v12 flexible, diverging epochs (KIP-595) · v13 topic ids (KIP-516) · v15 replica state (KIP-903) ·
           v16 names the leader where another broker is asked (KIP-951).
Not implemented: v0-3, whose record formats are gone (KIP-896).
"""

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import Permissions, RequestContext
from barnabas.broker.isolation_level import isolation_of
from barnabas.broker.leaders import current_leader
from barnabas.broker.registry import handles
from barnabas.broker.request_metrics import FOLLOWER_FETCH
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced, in_slices
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.delayed_fetch import LargeFetch
from barnabas.replica.fetch_context import (
    PORTION,
    TOPIC_IDS_SINCE,
    FetchContext,
    new_context,
    new_large_context,
)
from barnabas.replica.fetch_reader import LEADER, FetchParams, PartitionRead
from barnabas.replica.log_read import Isolation

REPLICA_STATE_SINCE: Final = 15
FOLLOWERS_SINCE: Final = 11
LEADERS_SINCE: Final = 16
STORAGE_ERROR_SINCE: Final = 6
ZSTD_SINCE: Final = 10
AT_ONCE_MAX: Final = 100
"""Partitions of a fetch that is worked off in one piece: nearly every fetch there is."""


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


@handles(ApiKey.FETCH, versions=(4, 17), failed=_failed)
def fetch(context: RequestContext, request: FetchRequest) -> FetchResponse | Pending[FetchResponse]:
    services = context.broker
    version = context.version
    params = _params(context, request, services.config["fetch.max.bytes"])
    names = services.metadata_cache.snapshot.topic_names if version >= TOPIC_IDS_SINCE else {}
    entries = _entries(request)
    if entries > AT_ONCE_MAX:
        large = new_large_context(
            services.fetch_sessions,
            request,
            version,
            names,
            entries=entries,
            from_follower=params.from_follower,
        )
        return in_slices(_fetch_much(context, params, large), context.broker.clock, holder=context.peer)
    session = new_context(
        services.fetch_sessions, request, version, names, from_follower=params.from_follower
    )
    resting = session.take_resting(params)
    if resting is not None:
        waited = _resume(context, params, session, resting)
        return in_slices(waited, context.broker.clock, holder=context.peer)
    partitions = session.partitions()
    if len(partitions) > AT_ONCE_MAX:
        return in_slices(_fetch_much(context, params, session), context.broker.clock, holder=context.peer)
    readable, refused = _select(context, partitions, params, context.may(Operation.READ))
    reads = services.replica_manager.fetches.fetch(params, readable)
    if isinstance(reads, Pending):
        return reads.then(lambda done: _respond(context, params, session, done, refused))
    return _respond(context, params, session, reads, refused)


def _entries(request: FetchRequest) -> int:
    entries = len(request.topics)
    for topic in request.topics:
        entries += len(topic.partitions)
    for forgotten in request.forgotten_topics_data:
        entries += len(forgotten.partitions) + 1
    return entries


def _resume(
    context: RequestContext, params: FetchParams, session: FetchContext, resting: LargeFetch
) -> Sliced[FetchResponse]:
    """A request that changes nothing, of a session in which nothing had moved: there is news once something moves."""
    clock = context.broker.clock
    until_ms = clock.monotonic_ms() + params.max_wait_ms
    if (yield resting.resume()):
        return session.respond(())
    left_ms = max(0, math.ceil(until_ms - clock.monotonic_ms()))
    return (yield from _fetch_much(context, replace(params, max_wait_ms=left_ms), session))


def _fetch_much(
    context: RequestContext, params: FetchParams, session: FetchContext | Sliced[FetchContext]
) -> Sliced[FetchResponse]:
    """The same for many partitions, a portion of them at a time: each is answered as it is when it is read."""
    if not isinstance(session, FetchContext):
        session = yield from session
    partitions = list(session.partitions())
    may_read = context.may(Operation.READ)
    readable: list[CachedPartition] = []
    refused: list[tuple[CachedPartition, PartitionData]] = []
    for start in range(0, len(partitions), PORTION):
        selected = _select(context, partitions[start : start + PORTION], params, may_read)
        readable += selected[0]
        refused += selected[1]
        yield
    reads, resting = yield from context.broker.replica_manager.fetches.fetch_in_slices(params, readable)
    if resting is not None:
        if refused:
            resting.force_complete()  # what is refused is refused with each answer
        else:
            session.leave_resting(resting)
    context.broker.replica_manager.reader.record_sent(params, reads)
    leaders: dict[int, NodeEndpoint] = {}
    results = []
    for read in reads:
        results.append((read.partition, _answer(context, read, leaders)))
        yield
    results += refused
    response = yield from session.respond_in_slices(results)
    response.node_endpoints = list(leaders.values())
    return response


def _params(context: RequestContext, request: FetchRequest, max_bytes: int) -> FetchParams:
    version = context.version
    replica_id, broker_epoch = request.replica_id, -1
    if version >= REPLICA_STATE_SINCE and request.replica_state is not None:
        replica_id, broker_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    if replica_id >= 0:
        isolation = Isolation.LOG_END
        context.metrics_key = FOLLOWER_FETCH
    else:
        isolation = isolation_of(request.isolation_level)
    limit = request.max_bytes if replica_id >= 0 else min(request.max_bytes, max_bytes)
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


def _select(
    context: RequestContext,
    partitions: Collection[CachedPartition],
    params: FetchParams,
    may_read: Permissions,
) -> tuple[list[CachedPartition], list[tuple[CachedPartition, PartitionData]]]:
    """The partitions that may be read, and the answers for those that may not."""
    if params.from_follower and not context.authorize_cluster(Operation.CLUSTER_ACTION):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return [], [(each, _refused(each.request.partition, code)) for each in partitions]
    known = context.broker.metadata_cache.snapshot.partitions
    readable = []
    refused = []
    for each in partitions:
        index = each.request.partition
        if each.topic is None:
            refused.append((each, _refused(index, ErrorCode.UNKNOWN_TOPIC_ID)))
        elif not params.from_follower and not may_read[each.topic]:
            refused.append((each, _refused(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        elif index not in known.get(each.topic, ()):
            refused.append((each, _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
        else:
            readable.append(each)
    return readable, refused


def _refused(partition: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=code,
        high_watermark=-1,
        records=b"",
    )


def _respond(
    context: RequestContext,
    params: FetchParams,
    session: FetchContext,
    reads: list[PartitionRead],
    refused: list[tuple[CachedPartition, PartitionData]],
) -> FetchResponse:
    leaders: dict[int, NodeEndpoint] = {}
    context.broker.replica_manager.reader.record_sent(params, reads)
    results = [(read.partition, _answer(context, read, leaders)) for read in reads]
    results += refused
    response = session.respond(results)
    if leaders:
        response.node_endpoints = list(leaders.values())
    return response


def _answer(context: RequestContext, read: PartitionRead, leaders: dict[int, NodeEndpoint]) -> PartitionData:
    index = read.partition.request.partition
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
        aborted_transactions=found.aborted,
        records=found.records,
    )
    if read.preferred_read_replica != LEADER:
        data.preferred_read_replica = read.preferred_read_replica
    if found.diverging is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=found.diverging.epoch, end_offset=found.diverging.end_offset
        )
    return data


def _is_zstd(context: RequestContext, read: PartitionRead) -> bool:
    """Whether the topic is compressed with what such an old consumer cannot read (KIP-110)."""
    tp = TopicPartition(read.partition.topic or "", read.partition.request.partition)
    partition = context.broker.replica_manager.partition(tp)
    log = None if partition is None else partition.log
    return log is not None and log.config.compression_type == "zstd"


def _error(context: RequestContext, read: PartitionRead, leaders: dict[int, NodeEndpoint]) -> PartitionData:
    code = read.error
    if code is ErrorCode.KAFKA_STORAGE_ERROR and context.version < STORAGE_ERROR_SINCE:
        # An old client would take the code that it does not know for a fatal one.
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    data = _refused(read.partition.request.partition, code)
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

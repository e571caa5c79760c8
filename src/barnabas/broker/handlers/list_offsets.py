"""ListOffsets (2), v1-11.

Behaviour: for each partition the place that a time names: the first record at or after it, or one of the
special times (latest -1, earliest -2, greatest timestamp -3, earliest local -4, latest tiered -5, earliest
pending upload -6; nothing is tiered here).
Versions:  v2 isolation · v4 leader epochs (KIP-320) · v5 OFFSET_NOT_AVAILABLE (KIP-207) · v6 flexible ·
           v7 greatest timestamp (KIP-734) · v8 earliest local (KIP-405) · v9 latest tiered (KIP-1005) ·
           v10 how long tiered storage may take (KIP-1075) · v11 earliest pending upload (KIP-1023).
Not implemented: v0, which lists the offsets of segments (KIP-896).
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.isolation_level import isolation_of
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced, in_slices
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.replica.log_read import Isolation
from barnabas.replica.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)

CONSUMER: Final = -1
DEBUGGING_CONSUMER: Final = -2
LEADER_EPOCHS_SINCE: Final = 4
OFFSET_NOT_AVAILABLE_SINCE: Final = 5

AT_ONCE: Final = 8
"""Entries without a look at the clock: to look into a batch for a time takes up to 4 ms."""

SPECIAL_TIMES: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version that brought each."""


def _refused(partition: int, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition, error_code=code)


def _failed(request: ListOffsetsRequest, error: KafkaError, _version: int) -> Sliced[ListOffsetsResponse]:
    response = ListOffsetsResponse()
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        for each in topic.partitions:
            answer.partitions.append(_refused(each.partition_index, error.code))
            yield
        yield
    return response


@handles(ApiKey.LIST_OFFSETS, versions=(1, 11), failed=_failed)
def list_offsets(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Pending[ListOffsetsResponse]:
    """Finds offsets by time."""
    work = _list_offsets(context, request)
    return in_slices(work, context.broker.clock, holder=context.peer, at_once=AT_ONCE)


def _list_offsets(context: RequestContext, request: ListOffsetsRequest) -> Sliced[ListOffsetsResponse]:
    may_describe = context.may(Operation.DESCRIBE)
    duplicates = yield from _duplicates(request)
    found: list[ListOffsetsTopicResponse] = []
    denied: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        name, allowed = topic.name, may_describe[topic.name]
        answer = ListOffsetsTopicResponse(name=name)
        (found if allowed else denied).append(answer)
        for each in topic.partitions:
            if allowed:
                tp = TopicPartition(name, each.partition_index)
                found_offset = yield from _find(context, request, tp, each, duplicates)
                answer.partitions.append(found_offset)
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                answer.partitions.append(_refused(each.partition_index, code))
            yield
        yield
    return ListOffsetsResponse(topics=found + denied)


def _duplicates(request: ListOffsetsRequest) -> Sliced[set[TopicPartition]]:
    seen: set[TopicPartition] = set()
    twice: set[TopicPartition] = set()
    for topic in request.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            (twice if tp in seen else seen).add(tp)
            yield
        yield
    return twice


def _find(
    context: RequestContext,
    request: ListOffsetsRequest,
    tp: TopicPartition,
    wanted: ListOffsetsPartition,
    duplicates: set[TopicPartition],
) -> Sliced[ListOffsetsPartitionResponse]:
    if tp in duplicates:
        return _refused(tp.partition, ErrorCode.INVALID_REQUEST)
    if wanted.timestamp < 0 and context.version < SPECIAL_TIMES.get(wanted.timestamp, 1 << 15):
        return _refused(tp.partition, ErrorCode.UNSUPPORTED_VERSION)
    try:
        place = yield from context.broker.replica_manager.list_offset(
            tp,
            wanted.timestamp,
            _isolation(request),
            wanted.current_leader_epoch,
            leader_only=request.replica_id != DEBUGGING_CONSUMER,
        )
    except KafkaError as error:
        unavailable = error.code is ErrorCode.OFFSET_NOT_AVAILABLE
        too_old = unavailable and context.version < OFFSET_NOT_AVAILABLE_SINCE
        return _refused(tp.partition, ErrorCode.LEADER_NOT_AVAILABLE if too_old else error.code)
    answer = ListOffsetsPartitionResponse(
        partition_index=tp.partition, timestamp=place.timestamp, offset=place.offset
    )
    if context.version >= LEADER_EPOCHS_SINCE:
        answer.leader_epoch = place.leader_epoch
    return answer


def _isolation(request: ListOffsetsRequest) -> Isolation:
    if request.replica_id != CONSUMER:
        return Isolation.LOG_END
    return isolation_of(request.isolation_level)

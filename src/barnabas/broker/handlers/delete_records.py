"""DeleteRecords (21), v0-2.

Behaviour: the leader moves the start of each partition's log up (KIP-107), and answers when all live replicas
have done so, or when the time is over. The records are hidden at once; their segments go with the next
clean-up.
Versions:  v1 quotas after the answer · v2 flexible.
Not implemented: nothing.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced_by_time
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from barnabas.replica.delete_records import INVALID_LOW_WATERMARK, Deletion

_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _failed(request: DeleteRecordsRequest, error: KafkaError, _version: int) -> Sliced[DeleteRecordsResponse]:
    outcome = {}
    for topic in request.topics:
        for each in topic.partitions:
            outcome[TopicPartition(topic.name, each.partition_index)] = _error(error.code)
            yield
        yield
    response = yield from _response(outcome.items())
    return response


@handles(ApiKey.DELETE_RECORDS, versions=(0, 2), failed=_failed)
@sliced_by_time
def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> Sliced[DeleteRecordsResponse]:
    may_delete = context.may(Operation.DELETE)
    known = context.broker.metadata_cache.snapshot.partitions
    refused: dict[TopicPartition, Deletion] = {}
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        partitions = known.get(topic.name, {})
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if not may_delete[topic.name]:
                refused[tp] = _error(_REFUSED)
            elif tp.partition not in partitions:
                refused[tp] = _error(_UNKNOWN)
            else:
                offsets[tp] = each.offset  # the last one counts where a partition is named twice
            yield
        yield
    deletions = yield from context.broker.replica_manager.delete_records(offsets, request.timeout_ms)
    response = yield from _response([*deletions.items(), *refused.items()])
    return response


def _error(code: ErrorCode) -> Deletion:
    return Deletion(INVALID_LOW_WATERMARK, INVALID_LOW_WATERMARK, code)


def _response(outcome: Iterable[tuple[TopicPartition, Deletion]]) -> Sliced[DeleteRecordsResponse]:
    topics: dict[str, DeleteRecordsTopicResult] = {}
    for tp, deletion in outcome:
        topic = topics.setdefault(tp.topic, DeleteRecordsTopicResult(name=tp.topic))
        topic.partitions.append(
            DeleteRecordsPartitionResult(
                partition_index=tp.partition,
                low_watermark=deletion.low_watermark,
                error_code=deletion.error,
            )
        )
        yield
    return DeleteRecordsResponse(topics=list(topics.values()))

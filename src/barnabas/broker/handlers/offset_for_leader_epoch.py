"""OffsetForLeaderEpoch (23), v2-4.

Behaviour: where a leader epoch ended in the leader's log, so that followers and consumers find out whether
what they read was cut off (KIP-101, KIP-320).
Versions:  v2 current leader epoch · v3 replica id · v4 flexible.
Not implemented: v0-1 (KIP-896).
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def _failed(
    request: OffsetForLeaderEpochRequest, error: KafkaError, _version: int
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    EpochEndOffset(partition=each.partition, error_code=error.code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), failed=_failed)
def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Finds the ends of epochs."""
    names = [topic.topic for topic in request.topics]
    # Followers have the one permission, consumers the other.
    if context.authorize_cluster(Operation.CLUSTER_ACTION):
        allowed = set(names)
    else:
        allowed = context.authorized(Operation.DESCRIBE, names)
    found, denied = [], []
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        if topic.topic in allowed:
            result.partitions = [_find(context, topic.topic, each) for each in topic.partitions]
            found.append(result)
        else:
            result.partitions = [
                EpochEndOffset(partition=each.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for each in topic.partitions
            ]
            denied.append(result)
    return OffsetForLeaderEpochResponse(topics=found + denied)


def _find(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    tp = TopicPartition(topic, wanted.partition)
    try:
        end = context.broker.replica_manager.epoch_end(tp, wanted.leader_epoch, wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.end_offset)

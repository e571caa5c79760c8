"""OffsetForLeaderEpoch (23), v2-4.

Behaviour: where a leader epoch ended in the leader's log, so that followers and consumers find out whether
what they read was cut off (KIP-101, KIP-320).
Versions:  v2 current leader epoch · v3 replica id · v4 flexible.
Not implemented: v0-1 (KIP-896).
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
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
) -> Sliced[OffsetForLeaderEpochResponse]:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answer = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answer)
        for each in topic.partitions:
            answer.partitions.append(EpochEndOffset(partition=each.partition, error_code=error.code))
            yield
        yield
    return response


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), failed=_failed)
@sliced
def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Sliced[OffsetForLeaderEpochResponse]:
    """Finds the ends of epochs."""
    # Followers have the one permission, consumers the other.
    follower = context.authorize_cluster(Operation.CLUSTER_ACTION, log_if_denied=False)
    may_describe = context.may(Operation.DESCRIBE)
    found: list[OffsetForLeaderTopicResult] = []
    denied: list[OffsetForLeaderTopicResult] = []
    for topic in request.topics:
        name = topic.topic
        allowed = follower or may_describe[name]
        answer = OffsetForLeaderTopicResult(topic=name)
        (found if allowed else denied).append(answer)
        for each in topic.partitions:
            if allowed:
                answer.partitions.append(_find(context, name, each))
            else:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                answer.partitions.append(EpochEndOffset(partition=each.partition, error_code=code))
            yield
        yield
    return OffsetForLeaderEpochResponse(topics=found + denied)


def _find(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    tp = TopicPartition(topic, wanted.partition)
    try:
        end = context.broker.replica_manager.epoch_end(tp, wanted.leader_epoch, wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.end_offset)

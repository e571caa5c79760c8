"""DescribeProducers (61), v0.

Behaviour: what the log of each partition remembers of its producers (KIP-664); any replica answers, not the
leader alone.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, validate_topic_name
from barnabas.core.slices import Sliced
from barnabas.log.producers import NO_OFFSET
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def _failed(
    request: DescribeProducersRequest, error: KafkaError, _version: int
) -> Sliced[DescribeProducersResponse]:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for partition in topic.partition_indexes:
            answer.partitions.append(PartitionResponse(partition_index=partition, error_code=error.code))
            yield
        yield
    return response


@handles(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), failed=_failed)
@sliced
def describe_producers(
    context: RequestContext, request: DescribeProducersRequest
) -> Sliced[DescribeProducersResponse]:
    may_read = context.may(Operation.READ)
    known = context.broker.metadata_cache.snapshot.partitions
    response = DescribeProducersResponse()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        error = _topic_error(topic.name, may_read=may_read[topic.name], exists=topic.name in known)
        for partition in topic.partition_indexes:
            if error is None:
                described = yield from _describe(context, TopicPartition(topic.name, partition))
            else:
                described = PartitionResponse(
                    partition_index=partition, error_code=error.code, error_message=error.message
                )
            answer.partitions.append(described)
            yield
        yield
    return response


def _topic_error(name: str, *, may_read: bool, exists: bool) -> KafkaError | None:
    try:
        validate_topic_name(name)
    except KafkaError as error:
        return error
    if not may_read:
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None if exists else KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _describe(context: RequestContext, tp: TopicPartition) -> Sliced[PartitionResponse]:
    """``activeProducerState``: the producers at this moment, written down in slices."""
    try:
        producers = context.broker.replica_manager.active_producers(tp)
    except KafkaError as error:
        # Kafka gives the code without a message where the partition is not served here.
        return PartitionResponse(partition_index=tp.partition, error_code=error.code)
    answer = PartitionResponse(partition_index=tp.partition)
    for each in producers:
        first_offset = each.current_txn_first_offset
        answer.active_producers.append(
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=NO_OFFSET if first_offset is None else first_offset,
            )
        )
        yield
    return answer

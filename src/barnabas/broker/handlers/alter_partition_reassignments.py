"""AlterPartitionReassignments (45), v0-1.

Behaviour: the controller begins to move partitions to other brokers, or ends a move (no replicas) and goes
back (KIP-455). The answer says what was begun; ListPartitionReassignments says what is not done yet.
Versions:  v0 flexible · v1 may refuse to change the number of replicas (KIP-860).
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def _failed(
    request: AlterPartitionReassignmentsRequest, error: KafkaError, _version: int
) -> Sliced[AlterPartitionReassignmentsResponse]:
    response = AlterPartitionReassignmentsResponse(error_code=error.code, error_message=_message(error))
    for topic in request.topics:
        answer = ReassignableTopicResponse(name=topic.name)
        for partition in topic.partitions:
            answer.partitions.append(_partition(partition.partition_index, error))
            yield
        response.responses.append(answer)
        yield
    return response


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), failed=_failed)
@sliced
def alter_partition_reassignments(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Sliced[AlterPartitionReassignmentsResponse]:
    context.require_cluster(Operation.ALTER)
    wanted: dict[TopicPartition, list[int] | None] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            # Of a partition that is named twice, the last counts.
            wanted[TopicPartition(topic.name, partition.partition_index)] = partition.replicas
            yield
        yield
    try:
        begun = context.broker.controller.alter_partition_reassignments(
            wanted, allow_replication_factor_change=request.allow_replication_factor_change
        )
        results = yield from alone(context, begun)
    except KafkaError as refusal:
        # NOT_CONTROLLER: here the partitions are not named.
        return AlterPartitionReassignmentsResponse(error_code=refusal.code, error_message=str(refusal))
    topics: dict[str, ReassignableTopicResponse] = {}
    for tp, error in results.items():
        answer = topics.setdefault(tp.topic, ReassignableTopicResponse(name=tp.topic))
        answer.partitions.append(_partition(tp.partition, error))
        yield
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=list(topics.values()),
    )


def _partition(number: int, error: KafkaError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition_index=number, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=number, error_code=error.code, error_message=_message(error)
    )


def _message(error: KafkaError) -> str | None:
    """``ApiError``: a code's own text is not sent, but with NO_REASSIGNMENT_IN_PROGRESS it is."""
    return error.message if error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS else error.own_message

"""ListPartitionReassignments (46), v0.

Behaviour: the controller says which partitions are on the move, of those that are named or of all (KIP-455).
Versions:  v0 flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import alone, sliced
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def _failed(
    request: ListPartitionReassignmentsRequest, error: KafkaError, _version: int
) -> Sliced[ListPartitionReassignmentsResponse]:
    """What was asked for is named again, on the way nowhere (``getErrorResponse``)."""
    response = ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.own_message)
    for topic in request.topics or ():
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(OngoingPartitionReassignment(partition_index=index))
            yield
        response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))
    return response


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), failed=_failed)
@sliced
def list_partition_reassignments(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Sliced[ListPartitionReassignmentsResponse]:
    context.require_cluster(Operation.DESCRIBE)
    wanted: dict[TopicPartition, None] | None = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            for partition in topic.partition_indexes:
                wanted[TopicPartition(topic.name, partition)] = None
                yield
            yield
    try:
        moving = yield from alone(context, context.broker.controller.list_partition_reassignments(wanted))
    except KafkaError as error:
        return ListPartitionReassignmentsResponse(error_code=error.code, error_message=str(error))
    topics: dict[str, OngoingTopicReassignment] = {}
    for tp, assignment in moving.items():
        answer = topics.setdefault(tp.topic, OngoingTopicReassignment(name=tp.topic))
        answer.partitions.append(
            OngoingPartitionReassignment(
                partition_index=tp.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
        yield
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))

"""StopReplica (5), v0-4.

Behaviour: the controller stops replicas, and has them deleted where it says so.
Versions:  v1 broker epochs (KIP-380) · v2 flexible · v3 leader epochs, deletion per partition (KIP-570) · v4.
Not implemented: nothing.
"""

from collections.abc import Iterator

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import in_turn_by_time
from barnabas.cluster.leadership import ControllerEpoch
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import NO_EPOCH, TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.state_changes import ReplicaToStop


def _failed(request: StopReplicaRequest, error: KafkaError, _version: int) -> Sliced[StopReplicaResponse]:
    """Who may not do this hears so of each replica; what is out of date is so as a whole."""
    response = StopReplicaResponse(error_code=error.code)
    if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        for tp, _, _ in _replicas(request):
            response.partition_errors.append(
                StopReplicaPartitionError(
                    topic_name=tp.topic, partition_index=tp.partition, error_code=error.code
                )
            )
            yield
    return response


@handles(ApiKey.STOP_REPLICA, versions=(0, 4), failed=_failed, throttled=False)
@in_turn_by_time
def stop_replica(context: RequestContext, request: StopReplicaRequest) -> Sliced[StopReplicaResponse]:
    context.require_cluster(Operation.CLUSTER_ACTION)
    context.require_current_broker(request.broker_epoch)
    return (yield from stop_replicas(context.broker.replica_manager, request))


def stop_replicas(replicas: ReplicaManager, request: StopReplicaRequest) -> Sliced[StopReplicaResponse]:
    """Has the replica manager do what the request says, in the control queue.
    Raises STALE_CONTROLLER_EPOCH.
    """
    controller = ControllerEpoch(request.controller_id, request.controller_epoch)
    stopped = yield from replicas.stop_replicas(controller, _replicas(request))
    response = StopReplicaResponse()
    for tp, code in stopped:
        response.partition_errors.append(
            StopReplicaPartitionError(topic_name=tp.topic, partition_index=tp.partition, error_code=code)
        )
        yield
    return response


def _replicas(request: StopReplicaRequest) -> Iterator[ReplicaToStop]:
    """The replicas of a request, out of any version's way to name them."""
    for old in request.ungrouped_partitions:
        tp = TopicPartition(old.topic_name, old.partition_index)
        yield ReplicaToStop(tp, NO_EPOCH, request.delete_partitions)
    for group in request.topics:
        for index in group.partition_indexes:
            yield ReplicaToStop(TopicPartition(group.name, index), NO_EPOCH, request.delete_partitions)
    for topic in request.topic_states:
        for state in topic.partition_states:
            tp = TopicPartition(topic.topic_name, state.partition_index)
            yield ReplicaToStop(tp, state.leader_epoch, state.delete_partition)

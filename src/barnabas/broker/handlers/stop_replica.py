"""StopReplica (5), v0-4.

Behaviour: the controller stops replicas, and has them deleted where it says so; a coordinator resigns from what
is deleted.
Versions:  v1 broker epochs (KIP-380) · v2 flexible · v3 leader epochs, deletion per partition (KIP-570) · v4.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.epochs import require_current_broker
from barnabas.broker.registry import handles
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.replica.state_changes import stops


@handles(ApiKey.STOP_REPLICA, versions=(0, 4), throttled=False)
def stop_replica(context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    """Stops replicas."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    require_current_broker(context, request.broker_epoch)
    response = context.broker.replica_manager.stop_replicas(request)
    refused = {
        TopicPartition(each.topic_name, each.partition_index)
        for each in response.partition_errors
        if each.error_code
    }
    for tp, leader_epoch, deleted in stops(request):
        # What is only stopped may still be heard of, by LeaderAndIsr; what is deleted will not.
        if deleted and tp.topic == GROUP_METADATA_TOPIC and tp not in refused:
            context.broker.group_coordinator.resigned(
                tp.partition, leader_epoch if leader_epoch >= 0 else None
            )
    return response

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
from barnabas.broker.sliced import in_turn
from barnabas.core.ids import GROUP_METADATA_TOPIC
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.replica.state_changes import stops


@handles(ApiKey.STOP_REPLICA, versions=(0, 4), throttled=False)
@in_turn
def stop_replica(context: RequestContext, request: StopReplicaRequest) -> Sliced[StopReplicaResponse]:
    """Stops replicas."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    require_current_broker(context, request.broker_epoch)
    response = yield from context.broker.replica_manager.stop_replicas(request)
    # The answers come in the order of the request.
    for each, (tp, leader_epoch, deleted) in zip(response.partition_errors, stops(request), strict=True):
        # What is only stopped may still be heard of, by LeaderAndIsr; what is deleted will not.
        if deleted and tp.topic == GROUP_METADATA_TOPIC and not each.error_code:
            context.broker.group_coordinator.resigned(
                tp.partition, leader_epoch if leader_epoch >= 0 else None
            )
        yield
    return response

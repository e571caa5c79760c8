"""StopReplica (5), v0-4.

Behaviour: the controller stops replicas, and has them deleted where it says so.
Versions:  v1 broker epochs (KIP-380) · v2 flexible · v3 leader epochs, deletion per partition (KIP-570) · v4.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.epochs import require_current_broker
from barnabas.broker.registry import handles
from barnabas.broker.sliced import in_turn_by_time
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse


@handles(ApiKey.STOP_REPLICA, versions=(0, 4), throttled=False)
@in_turn_by_time
def stop_replica(context: RequestContext, request: StopReplicaRequest) -> Sliced[StopReplicaResponse]:
    context.require_cluster(Operation.CLUSTER_ACTION)
    require_current_broker(context, request.broker_epoch)
    return (yield from context.broker.replica_manager.stop_replicas(request))

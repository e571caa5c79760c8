"""AlterPartition (56), v0-3.

Behaviour: a leader proposes a change of the ISR, the controller decides (KIP-497).
Versions:  v1 recovery state (KIP-704) · v2 topic ids · v3 broker epochs of the ISR (KIP-903).
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


@handles(ApiKey.ALTER_PARTITION, versions=(0, 3), throttled=False)
def alter_partition(
    context: RequestContext, request: AlterPartitionRequest
) -> Pending[AlterPartitionResponse]:
    """Hands proposals to the controller."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    controller = context.broker.controller
    if not controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    return controller.alter_partition(request, context.version)

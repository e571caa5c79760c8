"""AllocateProducerIds (67), v0.

Behaviour: a broker asks the controller for its next block of producer ids (KIP-730).
Versions:  v0 flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.cluster.controller.producer_ids import ProducerIdBlock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


@handles(ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0))
def allocate_producer_ids(
    context: RequestContext, request: AllocateProducerIdsRequest
) -> Pending[AllocateProducerIdsResponse]:
    context.require_cluster(Operation.CLUSTER_ACTION)
    controller = context.broker.controller
    if not controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    return controller.allocate_producer_ids(request.broker_id, request.broker_epoch).then(_response)


def _response(block: ProducerIdBlock) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)

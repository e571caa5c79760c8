"""ControlledShutdown (7), v0-3.

Behaviour: a broker that is about to stop asks the controller to move its leaderships; the answer names
those that are still there.
Versions:  v0 has a header without client id · v2 broker epochs (KIP-380) · v3 flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


@handles(ApiKey.CONTROLLED_SHUTDOWN, versions=(0, 3), throttled=False)
def controlled_shutdown(
    context: RequestContext, request: ControlledShutdownRequest
) -> Pending[ControlledShutdownResponse]:
    context.require_cluster(Operation.CLUSTER_ACTION)
    controller = context.broker.controller
    return controller.controlled_shutdown(request.broker_id, request.broker_epoch).then(_response)


def _response(remaining: list[TopicPartition]) -> ControlledShutdownResponse:
    return ControlledShutdownResponse(
        remaining_partitions=[
            RemainingPartition(topic_name=tp.topic, partition_index=tp.partition) for tp in remaining
        ]
    )

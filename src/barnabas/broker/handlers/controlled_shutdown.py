"""ControlledShutdown (7), v0-3.

Behaviour: a broker that is about to stop asks the controller to move its leaderships; the answer names
those that are still there.
Versions:  v0 has a header without client id · v2 broker epochs (KIP-380) · v3 flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


@handles(ApiKey.CONTROLLED_SHUTDOWN, versions=(0, 3), throttled=False)
def controlled_shutdown(
    context: RequestContext, request: ControlledShutdownRequest
) -> Pending[ControlledShutdownResponse]:
    """Moves leaderships away."""
    context.require_cluster(Operation.CLUSTER_ACTION)
    return context.broker.controller.controlled_shutdown(request)

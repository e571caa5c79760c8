"""ListGroups (16), v0-5.

Behaviour: the groups that this broker coordinates: all to who may describe the cluster, else those that the
client may describe. While groups are being loaded it lists what it knows and says so.
Versions:  v3 flexible · v4 states, also to filter by (KIP-518) · v5 types, also to filter by (KIP-848).
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import may
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@handles(ApiKey.LIST_GROUPS, versions=(0, 5))
@sliced
def list_groups(context: RequestContext, request: ListGroupsRequest) -> Sliced[ListGroupsResponse]:
    everything = context.authorize_cluster(Operation.DESCRIBE)
    coordinator = context.broker.group_coordinator
    response = yield from coordinator.list_groups(request.states_filter, request.types_filter)
    if everything:
        return response
    found, response.groups = response.groups, []
    for group in found:
        if may(context, Operation.DESCRIBE, group.group_id):
            response.groups.append(group)
        yield
    return response

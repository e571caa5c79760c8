"""ListGroups (16), v0-5.

Behaviour: the groups that this broker coordinates: all where the client may describe the cluster, else
those that it may describe. While groups are being loaded it lists what it knows and says so.
Versions:  v3 flexible · v4 states, also to filter by (KIP-518) · v5 types, also to filter by (KIP-848).
Not implemented: nothing.
"""

from collections.abc import Iterable

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@handles(ApiKey.LIST_GROUPS, versions=(0, 5))
@sliced
def list_groups(context: RequestContext, request: ListGroupsRequest) -> Sliced[ListGroupsResponse]:
    may_see_all = context.authorize_cluster(Operation.DESCRIBE, log_if_denied=False)
    may_describe = context.may(Operation.DESCRIBE, Resource.GROUP, log_if_denied=False)
    coordinator = context.broker.group_coordinator
    states = yield from _lowered(request.states_filter)
    types = yield from _lowered(request.types_filter)
    response = ListGroupsResponse()
    if coordinator.loading:
        response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    # Each group is listed as it is when its turn comes.
    for group in coordinator.groups():
        wanted = (not states or group.state_name.lower() in states) and (
            not types or group.type.value in types
        )
        if wanted and (may_see_all or may_describe[group.group_id]):
            response.groups.append(
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state_name,
                    group_type=group.type.value,
                )
            )
        yield
    return response


def _lowered(words: Iterable[str]) -> Sliced[set[str]]:
    """Filters ignore case."""
    lowered = set()
    for word in words:
        lowered.add(word.lower())
        yield
    return lowered

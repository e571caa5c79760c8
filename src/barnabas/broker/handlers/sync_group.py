"""SyncGroup (14), v0-5.

Behaviour: the leader of a generation brings the assignment; each member is answered with its part.
Versions:  v3 static members (KIP-345) · v4 flexible · v5 protocol type and name, which a member must repeat (KIP-559).
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import client_of, require_group
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE: Final = 5


@handles(ApiKey.SYNC_GROUP, versions=(0, 5))
def sync_group(
    context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Pending[SyncGroupResponse]:
    """Hands out the partitions of a generation."""
    unnamed = request.protocol_type is None or request.protocol_name is None
    if unnamed and context.version >= PROTOCOL_SINCE:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require_group(context, Operation.READ, request.group_id)
    return context.broker.group_coordinator.sync_group(client_of(context), request, context.version)

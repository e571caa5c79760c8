"""SyncGroup (14), v0-5.

Behaviour: the leader of a generation brings the assignment; each member is answered with its part.
Versions:  v3 static members (KIP-345) · v4 flexible · v5 protocol type and name, which a member must repeat
           (KIP-559).
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_group
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.coordinator.classic.members import SyncRequest
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE: Final = 5


@handles(ApiKey.SYNC_GROUP, versions=(0, 5))
@sliced
def sync_group(context: RequestContext, request: SyncGroupRequest) -> Sliced[SyncGroupResponse]:
    unnamed = request.protocol_type is None or request.protocol_name is None
    if unnamed and context.version >= PROTOCOL_SINCE:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    require_group(context, Operation.READ, request.group_id)
    assignments = {}
    for each in request.assignments:
        assignments[each.member_id] = each.assignment
        yield
    answer = context.broker.group_coordinator.sync_group(
        SyncRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=assignments,
        )
    )
    result = (yield answer) if isinstance(answer, Pending) else answer
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )

"""Heartbeat (12), v0-4.

Behaviour: a member is alive; the answer says when it has to join again.
Versions:  v3 static members (KIP-345) · v4 flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_group
from barnabas.broker.registry import handles
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT, versions=(0, 4))
def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    require_group(context, Operation.READ, request.group_id)
    code = context.broker.group_coordinator.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=code)

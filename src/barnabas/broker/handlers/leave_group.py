"""LeaveGroup (13), v0-5.

Behaviour: members leave their group, which rebalances without waiting for their sessions to end.
Versions:  v3 several members, by id or by instance id (KIP-345) · v4 flexible · v5 reasons (KIP-800).
           Before v3 the one member's error is the answer's.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import afterwards, require_group
from barnabas.broker.registry import handles
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

SEVERAL_SINCE: Final = 3


@handles(ApiKey.LEAVE_GROUP, versions=(0, 5))
def leave_group(
    context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Pending[LeaveGroupResponse]:
    """Takes members out of their group."""
    require_group(context, Operation.READ, request.group_id)
    leave = context.broker.group_coordinator.leave_group
    if context.version >= SEVERAL_SINCE:
        return leave(request, context.version)
    request.members = [MemberIdentity(member_id=request.member_id)]
    return afterwards(leave(request, context.version), _of_one)


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    code = response.error_code or next((member.error_code for member in response.members), 0)
    return LeaveGroupResponse(error_code=code)

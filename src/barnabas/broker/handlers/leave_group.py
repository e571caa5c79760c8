"""LeaveGroup (13), v0-5.

Behaviour: members leave their group, which rebalances without waiting for their sessions to end.
Versions:  v3 several members, by id or by instance id (KIP-345) · v4 flexible · v5 reasons (KIP-800).
           Before v3 the one member's error is the answer's.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_group
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

SEVERAL_SINCE: Final = 3
PORTION: Final = 500
"""So many members leave in one piece."""


@handles(ApiKey.LEAVE_GROUP, versions=(0, 5))
@sliced
def leave_group(context: RequestContext, request: LeaveGroupRequest) -> Sliced[LeaveGroupResponse]:
    """Takes members out of their group, some at a time: a group may lose its members one by one as well."""
    require_group(context, Operation.READ, request.group_id)
    several = context.version >= SEVERAL_SINCE
    leaving = request.members if several else [MemberIdentity(member_id=request.member_id)]
    response = LeaveGroupResponse()
    for start in range(0, max(len(leaving), 1), PORTION):
        portion = LeaveGroupRequest(
            group_id=request.group_id, member_id=request.member_id, members=leaving[start : start + PORTION]
        )
        answer = context.broker.group_coordinator.leave_group(portion, context.version)
        left = (yield answer) if isinstance(answer, Pending) else answer
        if left.error_code:
            return LeaveGroupResponse(error_code=left.error_code)
        response.members += left.members
        yield
    if several:
        return response
    return LeaveGroupResponse(error_code=next((member.error_code for member in response.members), 0))

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
from barnabas.coordinator.classic.members import LeavingMember
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

SEVERAL_SINCE: Final = 3
PORTION: Final = 500
"""How many members leave in one piece."""


@handles(ApiKey.LEAVE_GROUP, versions=(0, 5))
@sliced
def leave_group(context: RequestContext, request: LeaveGroupRequest) -> Sliced[LeaveGroupResponse]:
    require_group(context, Operation.READ, request.group_id)
    coordinator = context.broker.group_coordinator
    if context.version < SEVERAL_SINCE:
        answer = coordinator.leave_group(request.group_id, [LeavingMember(request.member_id)])
        (code,) = (yield answer) if isinstance(answer, Pending) else answer
        return LeaveGroupResponse(error_code=code)
    # In portions: a group may lose its members one by one as well. A request without members still asks,
    # because the group may have another coordinator.
    response = LeaveGroupResponse()
    for start in range(0, max(len(request.members), 1), PORTION):
        portion = request.members[start : start + PORTION]
        answer = coordinator.leave_group(
            request.group_id,
            [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in portion],
        )
        codes = (yield answer) if isinstance(answer, Pending) else answer
        response.members += [
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
            for each, code in zip(portion, codes, strict=True)
        ]
        yield
    return response

"""LeaveGroup: members go on their own accord, or an administrator removes them (``handleLeaveGroup``)."""

from typing import Final

from barnabas.coordinator.classic.group import ClassicGroup
from barnabas.coordinator.classic.rebalancing import Rebalances
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCHES_SINCE: Final = 3


def leaving_members(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """Who is to leave; older versions know one member a request."""
    return request.members if version >= BATCHES_SINCE else [MemberIdentity(member_id=request.member_id)]


def leave(rebalances: Rebalances, group: ClassicGroup, leaving: MemberIdentity) -> ErrorCode:
    """Removes one member, known by its id, or by its instance id alone where an administrator asks."""
    reason = f"LeaveGroup; client reason: {leaving.reason or 'not provided'}"
    try:
        member_id = leaving.member_id or _static_member_id(group, leaving.group_instance_id)
        if member_id in group.members.pending:
            rebalances.remove_pending(group, member_id)
        else:
            member = group.check_member(member_id, leaving.group_instance_id)
            rebalances.remove_member(group, member, f"{member_id} leaves by {reason}")
    except KafkaError as refused:
        return refused.code
    return ErrorCode.NONE


def _static_member_id(group: ClassicGroup, group_instance_id: str | None) -> str:
    member_id = group.members.static.get(group_instance_id or "")
    if member_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member_id


def leave_response(leaving: list[MemberIdentity], codes: list[ErrorCode], version: int) -> LeaveGroupResponse:
    """One entry a member; older versions carry the only one's code at the top."""
    if version < BATCHES_SINCE:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
            for each, code in zip(leaving, codes, strict=True)
        ],
    )

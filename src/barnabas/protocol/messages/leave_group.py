"""LeaveGroup (13): members go on their own accord (KIP-345 for several at once)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class MemberIdentity(Struct):
    """A member that leaves, by member id or by instance id."""

    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", default=None, nullable="3+")
    reason: str | None = field("5+", default=None, nullable="5+", ignorable=True)


class LeaveGroupRequest(Request, api=13, versions="0-5", flexible="4+"):
    """Leaves: one member until v2, `members` from v3 on."""

    group_id: str = field("0+")
    member_id: str = field("0-2")
    members: list[MemberIdentity] = field("3+")


class MemberResponse(Struct):
    """What became of one member."""

    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", nullable="3+")
    error_code: int16 = field("3+")


class LeaveGroupResponse(Response, api=13, versions="0-5", flexible="4+"):
    """One entry a member."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    members: list[MemberResponse] = field("3+")

"""SyncGroup (14): the leader hands out the assignment, each member gets its part."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class SyncGroupRequestAssignment(Struct):
    """What one member is to consume, in the assignor's own bytes."""

    member_id: str = field("0+")
    assignment: bytes = field("0+")


class SyncGroupRequest(Request, api=14, versions="0-5", flexible="4+"):
    """Waits for the leader's assignment; the leader brings it."""

    group_id: str = field("0+")
    generation_id: int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", default=None, nullable="3+")
    protocol_type: str | None = field("5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = field("5+", default=None, nullable="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field("0+")


class SyncGroupResponse(Response, api=14, versions="0-5", flexible="4+"):
    """The member's own part."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    protocol_type: str | None = field("5+", default=None, nullable="5+", ignorable=True)
    protocol_name: str | None = field("5+", default=None, nullable="5+", ignorable=True)
    assignment: bytes = field("0+")

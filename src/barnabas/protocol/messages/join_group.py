"""JoinGroup (11): a member enters the next generation of its group (KIP-394, KIP-345)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class JoinGroupRequestProtocol(Struct):
    """An assignor that the member knows, with what the member says about itself to the leader."""

    name: str = field("0+")
    metadata: bytes = field("0+")


class JoinGroupRequest(Request, api=11, versions="0-9", flexible="6+"):
    """Joins; waits until the whole group has."""

    group_id: str = field("0+")
    session_timeout_ms: int32 = field("0+")
    rebalance_timeout_ms: int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field("0+")
    group_instance_id: str | None = field("5+", default=None, nullable="5+")
    protocol_type: str = field("0+")
    protocols: list[JoinGroupRequestProtocol] = field("0+")
    reason: str | None = field("8+", default=None, nullable="8+", ignorable=True)


class JoinGroupResponseMember(Struct):
    """A member, as only the leader gets to see it."""

    member_id: str = field("0+")
    group_instance_id: str | None = field("5+", default=None, nullable="5+", ignorable=True)
    metadata: bytes = field("0+")


class JoinGroupResponse(Response, api=11, versions="0-9", flexible="6+"):
    """The new generation."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    error_code: int16 = field("0+")
    generation_id: int32 = field("0+", default=-1)
    protocol_type: str | None = field("7+", default=None, nullable="7+", ignorable=True)
    protocol_name: str | None = field("0+", nullable="7+")
    leader: str = field("0+")
    skip_assignment: bool = field("9+")
    """The leader keeps the assignment that there is (KIP-814)."""
    member_id: str = field("0+")
    members: list[JoinGroupResponseMember] = field("0+")

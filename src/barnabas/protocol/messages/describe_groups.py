"""DescribeGroups (15): classic groups with their members."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class DescribeGroupsRequest(Request, api=15, versions="0-6", flexible="5+"):
    """Asks for groups by id."""

    groups: list[str] = field("0+")
    include_authorized_operations: bool = field("3+")


class DescribedGroupMember(Struct):
    """A member, its metadata and assignment in the assignor's own bytes."""

    member_id: str = field("0+")
    group_instance_id: str | None = field("4+", default=None, nullable="4+", ignorable=True)
    client_id: str = field("0+")
    client_host: str = field("0+")
    member_metadata: bytes = field("0+")
    member_assignment: bytes = field("0+")


class DescribedGroup(Struct):
    """One group."""

    error_code: int16 = field("0+")
    error_message: str | None = field("6+", default=None, nullable="6+")
    group_id: str = field("0+")
    group_state: str = field("0+")
    protocol_type: str = field("0+")
    protocol_data: str = field("0+")
    members: list[DescribedGroupMember] = field("0+")
    authorized_operations: int32 = field("3+", default=-2147483648)


class DescribeGroupsResponse(Response, api=15, versions="0-6", flexible="5+"):
    """One entry a group."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    groups: list[DescribedGroup] = field("0+")

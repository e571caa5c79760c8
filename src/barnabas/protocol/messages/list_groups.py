"""ListGroups (16): the groups that a broker coordinates (KIP-518, KIP-848)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class ListGroupsRequest(Request, api=16, versions="0-5", flexible="3+"):
    """Asks for all groups, or those in some states or of some types."""

    states_filter: list[str] = field("4+")
    types_filter: list[str] = field("5+")


class ListedGroup(Struct):
    """One group."""

    group_id: str = field("0+")
    protocol_type: str = field("0+")
    group_state: str = field("4+", ignorable=True)
    group_type: str = field("5+", ignorable=True)


class ListGroupsResponse(Response, api=16, versions="0-5", flexible="3+"):
    """The groups that this broker coordinates."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")
    groups: list[ListedGroup] = field("0+")

"""DeleteGroups (42): empty groups to remove (KIP-229)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class DeleteGroupsRequest(Request, api=42, versions="0-3", flexible="2+"):
    """Deletes groups by id."""

    groups_names: list[str] = field("0+")


class DeletableGroupResult(Struct):
    """What became of one group."""

    group_id: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("3+", default=None, nullable="3+", ignorable=True)


class DeleteGroupsResponse(Response, api=42, versions="0-3", flexible="2+"):
    """One entry a group."""

    throttle_time_ms: int32 = field("0+")
    results: list[DeletableGroupResult] = field("0+")

"""Heartbeat (12): a member is alive, and learns that its group rebalances."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import int16, int32


class HeartbeatRequest(Request, api=12, versions="0-4", flexible="4+"):
    """Sent by every member while its group lasts."""

    group_id: str = field("0+")
    generation_id: int32 = field("0+")
    member_id: str = field("0+")
    group_instance_id: str | None = field("3+", default=None, nullable="3+")


class HeartbeatResponse(Response, api=12, versions="0-4", flexible="4+"):
    """Whether the generation still stands."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0+")

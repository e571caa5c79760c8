"""FindCoordinator (10): which broker coordinates a group or a transactional id (KIP-699)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class FindCoordinatorRequest(Request, api=10, versions="0-6", flexible="3+"):
    """Asks for the coordinator of one key, or (v4+) of several."""

    key: str = field("0-3")
    key_type: int8 = field("1+")
    """A `CoordinatorType`; other numbers arrive too."""
    coordinator_keys: list[str] = field("4+")


class Coordinator(Struct):
    """The coordinator of one key."""

    key: str = field("4+")
    node_id: int32 = field("4+")
    host: str = field("4+")
    port: int32 = field("4+")
    error_code: int16 = field("4+")
    error_message: str | None = field("4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Response, api=10, versions="0-6", flexible="3+"):
    """Where the coordinator is: at the top until v3, in `coordinators` from v4 on."""

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0-3")
    error_message: str | None = field("1-3", nullable="1-3", ignorable=True)
    node_id: int32 = field("0-3")
    host: str = field("0-3")
    port: int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")

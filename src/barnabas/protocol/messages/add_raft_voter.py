"""AddRaftVoter (80): a controller becomes a voter of the metadata quorum (KIP-853)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int16, int32, uint16


class Listener(Struct):
    """One endpoint of the new voter."""

    name: str = field("0+")
    host: str = field("0+")
    port: uint16 = field("0+")


class AddRaftVoterRequest(Request, api=80, versions="0-1", flexible="0+"):
    """Names the voter, by its id and by the directory that holds its log."""

    cluster_id: str | None = field("0+", nullable="0+")
    timeout_ms: int32 = field("0+")
    voter_id: int32 = field("0+")
    voter_directory_id: Uuid = field("0+")
    listeners: list[Listener] = field("0+")
    ack_when_committed: bool = field("1+", default=True)
    """Answer when the new set of voters is committed, not already when the leader has written it."""


class AddRaftVoterResponse(Response, api=80, versions="0-1", flexible="0+"):
    """Whether it votes."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", ignorable=True)

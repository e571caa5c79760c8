"""RemoveRaftVoter (81): a voter leaves the metadata quorum (KIP-853)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import Uuid, int16, int32


class RemoveRaftVoterRequest(Request, api=81, versions="0", flexible="0+"):
    """Names the voter, by its id and by the directory that holds its log."""

    cluster_id: str | None = field("0+", nullable="0+")
    voter_id: int32 = field("0+")
    voter_directory_id: Uuid = field("0+")


class RemoveRaftVoterResponse(Response, api=81, versions="0", flexible="0+"):
    """Whether it is gone."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+", ignorable=True)

"""CreateAcls (30): new access rules (KIP-140, KIP-290)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class AclCreation(Struct):
    """One rule."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    resource_pattern_type: int8 = field("1+", default=3)
    principal: str = field("0+")
    host: str = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class CreateAclsRequest(Request, api=30, versions="0-3", flexible="2+"):
    """Creates rules."""

    creations: list[AclCreation] = field("0+")


class AclCreationResult(Struct):
    """What became of one rule."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class CreateAclsResponse(Response, api=30, versions="0-3", flexible="2+"):
    """One entry a rule, in the order of the request."""

    throttle_time_ms: int32 = field("0+")
    results: list[AclCreationResult] = field("0+")

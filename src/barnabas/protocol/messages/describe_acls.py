"""DescribeAcls (29): access rules that a filter matches (KIP-140, KIP-290)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class DescribeAclsRequest(Request, api=29, versions="0-3", flexible="2+"):
    """The filter: null matches any name, principal or host."""

    resource_type_filter: int8 = field("0+")
    resource_name_filter: str | None = field("0+", nullable="0+")
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: str | None = field("0+", nullable="0+")
    host_filter: str | None = field("0+", nullable="0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class AclDescription(Struct):
    """One rule for one resource pattern."""

    principal: str = field("0+")
    host: str = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class DescribeAclsResource(Struct):
    """Rules of one resource pattern."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: int8 = field("1+", default=3)
    acls: list[AclDescription] = field("0+")


class DescribeAclsResponse(Response, api=29, versions="0-3", flexible="2+"):
    """The rules that match."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resources: list[DescribeAclsResource] = field("0+")

"""DeleteAcls (31): access rules to remove, by filter (KIP-140, KIP-290)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class DeleteAclsFilter(Struct):
    """One filter: null matches any name, principal or host."""

    resource_type_filter: int8 = field("0+")
    resource_name_filter: str | None = field("0+", nullable="0+")
    pattern_type_filter: int8 = field("1+", default=3)
    principal_filter: str | None = field("0+", nullable="0+")
    host_filter: str | None = field("0+", nullable="0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class DeleteAclsRequest(Request, api=31, versions="0-3", flexible="2+"):
    """Deletes the rules that any of the filters matches."""

    filters: list[DeleteAclsFilter] = field("0+")


class DeleteAclsMatchingAcl(Struct):
    """A rule that matched, and whether it is gone."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    pattern_type: int8 = field("1+", default=3)
    principal: str = field("0+")
    host: str = field("0+")
    operation: int8 = field("0+")
    permission_type: int8 = field("0+")


class DeleteAclsFilterResult(Struct):
    """The rules that one filter matched."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = field("0+")


class DeleteAclsResponse(Response, api=31, versions="0-3", flexible="2+"):
    """One entry a filter, in the order of the request."""

    throttle_time_ms: int32 = field("0+")
    filter_results: list[DeleteAclsFilterResult] = field("0+")

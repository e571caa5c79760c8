"""ListConfigResources (74): the names of resources that have a configuration (KIP-714, KIP-1142)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class ListConfigResourcesRequest(Request, api=74, versions="0-1", flexible="0+"):
    """Asks for resources of some types (v0: client metrics only)."""

    resource_types: list[int8] = field("1+")


class ConfigResource(Struct):
    """One resource."""

    resource_name: str = field("0+")
    resource_type: int8 = field("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, api=74, versions="0-1", flexible="0+"):
    """The names."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    config_resources: list[ConfigResource] = field("0+")

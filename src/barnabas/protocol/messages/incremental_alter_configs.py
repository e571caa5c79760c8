"""IncrementalAlterConfigs (44): single configuration values change (KIP-339)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class AlterableConfig(Struct):
    """One key and what happens to it: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str = field("0+")
    config_operation: int8 = field("0+")
    value: str | None = field("0+", nullable="0+")


class AlterConfigsResource(Struct):
    """A resource and its values."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configs: list[AlterableConfig] = field("0+")


class IncrementalAlterConfigsRequest(Request, api=44, versions="0-1", flexible="1+"):
    """Changes the keys that are named, and no others."""

    resources: list[AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")
    """Checks, and changes nothing."""


class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")


class IncrementalAlterConfigsResponse(Response, api=44, versions="0-1", flexible="1+"):
    """One entry a resource."""

    throttle_time_ms: int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")

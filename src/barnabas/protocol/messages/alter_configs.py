"""AlterConfigs (33): the whole configuration of resources is replaced (KIP-133)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class AlterableConfig(Struct):
    """One key and its new value."""

    name: str = field("0+")
    value: str | None = field("0+", nullable="0+")


class AlterConfigsResource(Struct):
    """A resource and its values."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configs: list[AlterableConfig] = field("0+")


class AlterConfigsRequest(Request, api=33, versions="0-2", flexible="2+"):
    """Replaces configurations: a key that is not named falls back to its default."""

    resources: list[AlterConfigsResource] = field("0+")
    validate_only: bool = field("0+")


class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")


class AlterConfigsResponse(Response, api=33, versions="0-2", flexible="2+"):
    """One entry a resource."""

    throttle_time_ms: int32 = field("0+")
    responses: list[AlterConfigsResourceResponse] = field("0+")

"""DescribeConfigs (32): configuration values with where they come from (KIP-133, KIP-226, KIP-569)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class DescribeConfigsResource(Struct):
    """A resource, and which of its keys are asked for: all when null."""

    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configuration_keys: list[str] | None = field("0+", nullable="0+")


class DescribeConfigsRequest(Request, api=32, versions="0-4", flexible="4+"):
    """Asks for the configuration of topics, brokers or broker loggers."""

    resources: list[DescribeConfigsResource] = field("0+")
    include_synonyms: bool = field("1+")
    include_documentation: bool = field("3+")


class DescribeConfigsSynonym(Struct):
    """A place that a value could have come from, in order of precedence."""

    name: str = field("1+")
    value: str | None = field("1+", nullable="1+")
    source: int8 = field("1+")


class DescribeConfigsResourceResult(Struct):
    """One key with its value; a sensitive value is null."""

    name: str = field("0+")
    value: str | None = field("0+", nullable="0+")
    read_only: bool = field("0+")
    is_default: bool = field("0")
    config_source: int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: bool = field("0+")
    synonyms: list[DescribeConfigsSynonym] = field("1+", ignorable=True)
    config_type: int8 = field("3+", ignorable=True)
    documentation: str | None = field("3+", nullable="3+", ignorable=True)


class DescribeConfigsResult(Struct):
    """The configuration of one resource."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    resource_type: int8 = field("0+")
    resource_name: str = field("0+")
    configs: list[DescribeConfigsResourceResult] = field("0+")


class DescribeConfigsResponse(Response, api=32, versions="0-4", flexible="4+"):
    """One entry a resource."""

    throttle_time_ms: int32 = field("0+")
    results: list[DescribeConfigsResult] = field("0+")

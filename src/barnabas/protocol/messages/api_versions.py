"""ApiVersions (18): which APIs a broker serves, and in which versions (KIP-35, KIP-511, KIP-584)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class ApiVersionsRequest(Request, api=18, versions="0-5", flexible="3+"):
    """Asks what the broker speaks; sent first on a connection, before any authentication."""

    client_software_name: str = field("3+", ignorable=True)
    client_software_version: str = field("3+", ignorable=True)
    cluster_id: str | None = field("5+", default=None, nullable="5+", ignorable=True)
    """The cluster and the node that the client means to talk to, both or none (KIP-1242)."""
    node_id: int32 = field("5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    """One API and the versions of it that the broker serves."""

    api_key: int16 = field("0+")
    min_version: int16 = field("0+")
    max_version: int16 = field("0+")


class SupportedFeatureKey(Struct):
    """A feature and the levels of it that the broker could serve."""

    name: str = field("3+")
    min_version: int16 = field("3+")
    max_version: int16 = field("3+")


class FinalizedFeatureKey(Struct):
    """A feature and the level that the whole cluster has agreed on."""

    name: str = field("3+")
    max_version_level: int16 = field("3+")
    min_version_level: int16 = field("3+")


class ApiVersionsResponse(Response, api=18, versions="0-5", flexible="3+"):
    """The broker's table of APIs. Always under response header 0, so that any client can read it."""

    error_code: int16 = field("0+")
    api_keys: list[ApiVersion] = field("0+")
    throttle_time_ms: int32 = field("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, ignorable=True)
    finalized_features_epoch: int64 = field("3+", default=-1, tag=1, ignorable=True)
    """Grows with every change of the features; -1 when unknown."""
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field("3+", tag=3, ignorable=True)

"""DescribeCluster (60): the cluster's id, controller and brokers (KIP-700)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class DescribeClusterRequest(Request, api=60, versions="0-2", flexible="0+"):
    """Asks for the brokers, or (v1+, `endpoint_type` 2) for the controllers."""

    include_cluster_authorized_operations: bool = field("0+")
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+")


class DescribeClusterBroker(Struct):
    """One broker at its endpoint for the listener that was asked."""

    broker_id: int32 = field("0+")
    host: str = field("0+")
    port: int32 = field("0+")
    rack: str | None = field("0+", default=None, nullable="0+")
    is_fenced: bool = field("2+")


class DescribeClusterResponse(Response, api=60, versions="0-2", flexible="0+"):
    """The cluster as the broker knows it."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", default=None, nullable="0+")
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: str = field("0+")
    controller_id: int32 = field("0+", default=-1)
    brokers: list[DescribeClusterBroker] = field("0+")
    cluster_authorized_operations: int32 = field("0+", default=-2147483648)

"""GetTelemetrySubscriptions (71): which metrics a client is to report (KIP-714)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import Uuid, int8, int16, int32


class GetTelemetrySubscriptionsRequest(Request, api=71, versions="0", flexible="0+"):
    """Asks for the subscription; a client without an id sends zeros and gets one."""

    client_instance_id: Uuid = field("0+")


class GetTelemetrySubscriptionsResponse(Response, api=71, versions="0", flexible="0+"):
    """Which metrics, how often, how compressed."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    client_instance_id: Uuid = field("0+")
    subscription_id: int32 = field("0+")
    accepted_compression_types: list[int8] = field("0+")
    push_interval_ms: int32 = field("0+")
    telemetry_max_bytes: int32 = field("0+")
    delta_temporality: bool = field("0+")
    requested_metrics: list[str] = field("0+")

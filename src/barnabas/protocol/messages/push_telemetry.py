"""PushTelemetry (72): a client's metrics (KIP-714)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import field
from barnabas.protocol.wire import Uuid, int8, int16, int32


class PushTelemetryRequest(Request, api=72, versions="0", flexible="0+"):
    """Metrics in OTLP form, compressed."""

    client_instance_id: Uuid = field("0+")
    subscription_id: int32 = field("0+")
    terminating: bool = field("0+")
    compression_type: int8 = field("0+")
    metrics: bytes = field("0+")


class PushTelemetryResponse(Response, api=72, versions="0", flexible="0+"):
    """Whether they were taken."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")

"""PushTelemetry (72), v0.

Behaviour: takes a client's metrics (KIP-714), in OTLP and compressed with any codec; the metrics endpoint
shows them. INVALID_RECORD for what cannot be read.
Not implemented: nothing. Advertised only where pushes are taken (`barnabas.client.telemetry.enable`).
"""

from barnabas.broker.client_metrics.subscriptions import TelemetryClient
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


@handles(ApiKey.PUSH_TELEMETRY, versions=(0, 0))
def push_telemetry(
    context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse | Pending[PushTelemetryResponse]:
    """Takes the metrics."""
    manager = context.broker.client_metrics
    if manager is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    taken = manager.push(
        request.client_instance_id,
        TelemetryClient(context.header.client_id, context.peer),
        bytes(request.metrics),
        subscription_id=request.subscription_id,
        codec=request.compression_type,
        terminating=request.terminating,
    )
    return taken.then(lambda _: PushTelemetryResponse())

"""GetTelemetrySubscriptions (71), v0.

Behaviour: which metrics the client is to push, and how often (KIP-714); a client without an id gets one.
It is asked for once an interval, or at once after a push that was refused for its subscription.
Not implemented: nothing. Advertised only where pushes are taken (`barnabas.client.telemetry.enable`).
"""

from barnabas.broker.client_metrics.manager import ACCEPTED_COMPRESSION
from barnabas.broker.client_metrics.subscriptions import TelemetryClient
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)


@handles(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0))
def get_telemetry_subscriptions(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """The subscription of the client."""
    manager = context.broker.client_metrics
    if manager is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    client = TelemetryClient(context.header.client_id, context.peer)
    told = manager.get_subscription(request.client_instance_id, client)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=told.instance_id,
        subscription_id=told.wanted.subscription_id,
        accepted_compression_types=list(map(int, ACCEPTED_COMPRESSION)),
        push_interval_ms=told.wanted.interval_ms,
        telemetry_max_bytes=manager.bytes_max,
        delta_temporality=True,
        requested_metrics=list(told.wanted.metrics),
    )

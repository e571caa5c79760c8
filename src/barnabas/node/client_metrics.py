"""What takes the metrics of clients, where a broker has it: made of the configuration."""

from collections.abc import Mapping
from importlib import import_module
from random import Random
from typing import Any, NamedTuple

from barnabas.broker.client_metrics.manager import ClientMetricsManager
from barnabas.broker.client_metrics.receiver import ClientMetricsReceiver
from barnabas.broker.client_metrics.subscriptions import ClientMetricsSubscriptions, ConfiguredSubscriptions
from barnabas.core.clock import Clock
from barnabas.core.offload import Offload


class ClientMetrics(NamedTuple):
    """The two parts: who pushes, and what is kept of it."""

    manager: ClientMetricsManager
    receiver: ClientMetricsReceiver


def client_metrics(
    config: Mapping[str, Any],
    configured: ConfiguredSubscriptions,
    clock: Clock,
    rng: Random,
    offload: Offload,
) -> ClientMetrics:
    """Both parts, for a broker that takes pushes (`broker.profiles.takes_client_metrics`)."""
    # Here, and not at the first push: that takes the time of a hundred requests.
    import_module("opentelemetry.proto.metrics.v1.metrics_pb2")
    receiver = ClientMetricsReceiver(
        clock, offload, series_max=config["barnabas.client.telemetry.series.max"]
    )
    manager = ClientMetricsManager(
        ClientMetricsSubscriptions(configured), receiver, clock, rng, bytes_max=config["telemetry.max.bytes"]
    )
    return ClientMetrics(manager, receiver)

"""`want_all_metrics`: every broker of a cluster asks every client for its metrics (KIP-714)."""

from functools import partial

from bare_requests import Asker
from barnabas.admin import AlterConfigOp, ConfigResource, ResourceType
from barnabas.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from waiting import until

INTERVAL_MS = 200


def want_all_metrics(admin, *ports):
    """All metrics five times a second, from when the brokers at these ports say so.

    A change is acknowledged before every broker has heard of it, as in Kafka, and a client that asked one
    which has not comes again after five minutes.
    """
    changes = [AlterConfigOp("metrics", "*"), AlterConfigOp("interval.ms", str(INTERVAL_MS))]
    admin.configs.alter({ConfigResource(ResourceType.CLIENT_METRICS, "all"): changes})
    for port in ports:
        until(partial(_wanted, Asker(port)))


def _wanted(asker):
    return asker.ask(GetTelemetrySubscriptionsRequest(), 0).requested_metrics

"""What is read of a broker's metrics: Prometheus' text of our brokers, and of the JMX exporter over Kafka.

The usual rules of the exporter make of a percentile
``kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"}``, others put the attribute into
the name, and without rules the MBean's name is a label:
``kafka_network_RequestMetrics_99thPercentile{name="TotalTimeMs",request="Produce"}``. All three are read.
"""

import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from barnabas.operations.client_pushes import LABEL, is_of_client

Figures: TypeAlias = dict[str, float]

_LINE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABELS_CHARS_MAX: Final = 4_000
_ATTRIBUTES: Final = "value|count|oneminuterate|99thpercentile"
_ATTRIBUTE: Final = re.compile(rf"(.+)_({_ATTRIBUTES})")

_GAUGES: Final = {
    "kafka_network_requestchannel_requestqueuesize": "request_queue_size",
    "kafka_network_socketserver_networkprocessoravgidlepercent": "network_idle",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent": "handler_idle",
    "barnabas_event_loop_busy_seconds_total": "loop_busy_s",
}
_TIMES: Final = {"Produce": "produce_ms", "FetchConsumer": "fetch_consumer_ms"}
"""99th percentiles of ``TotalTimeMs`` by request."""
_TOTAL_TIME: Final = "kafka_network_requestmetrics_totaltimems"
_LOOP_LAG: Final = "barnabas_event_loop_lag_ms"
_REQUESTS: Final = frozenset(
    {
        "kafka_network_requestmetrics_requests_total",
        "kafka_network_requestmetrics_requestspersec",
        "kafka_network_requestmetrics_requestspersec_total",
    }
)
_OLDEST: Final = {
    "Produce": 3,
    "Fetch": 4,
    "FetchConsumer": 4,
    "ListOffsets": 1,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "CreateTopics": 2,
    "DeleteTopics": 1,
    "DescribeConfigs": 1,
}
"""The lowest version of a request that Kafka 4.0 takes, where 3.9 takes lower ones (KIP-896)."""


class MetricLine(NamedTuple):
    """A sample: the name in small letters without the attribute of its MBean, which stands apart."""

    name: str
    attribute: str
    labels: Mapping[str, str]
    value: float


def metric_line(line: str) -> MetricLine | None:
    """A line of Prometheus' text; None for a comment and for what is none."""
    match = None if line.startswith("#") else _LINE.fullmatch(line)
    if match is None or len(match[2] or "") > _LABELS_CHARS_MAX:
        return None
    try:
        value = float(match[3])
    except ValueError:
        return None
    labels = dict(LABEL.findall(match[2] or ""))
    name, attribute = match[1].lower(), ""
    if split := _ATTRIBUTE.fullmatch(name):
        name, attribute = split[1], split[2]
    if "name" in labels and name.startswith("kafka_"):
        name = f"{name}_{labels['name'].lower()}"
    return MetricLine(name, attribute, labels, value)


def figures_of(text: str) -> Figures:
    """The figures by their names here; what a broker does not say is not there.

    ``loop_busy_s`` and ``old_requests`` (requests in versions that Kafka 4.0 does not take) count since the
    start of the broker.
    """
    found: Figures = {}
    # Not splitlines(): it ends a line at U+2028 too, so a client's label could begin a line of the broker.
    for line in text.split("\n"):
        one = None if is_of_client(line) else metric_line(line)
        if one is None or not math.isfinite(one.value):
            continue
        if one.name in _GAUGES:
            found[_GAUGES[one.name]] = one.value
        elif one.name == _TOTAL_TIME and _is_percentile_99(one):
            if name := _TIMES.get(one.labels.get("request", "")):
                found[name] = one.value
        elif one.name == _LOOP_LAG and _is_percentile_99(one):
            found["loop_lag_ms"] = one.value
        elif one.name in _REQUESTS and one.attribute in {"", "count"}:
            oldest = _OLDEST.get(one.labels.get("request", ""), 0)
            version = one.labels.get("version", "")
            if version.isascii() and version.isdigit() and len(version) < 6:
                is_old = int(version) < oldest
                found["old_requests"] = found.get("old_requests", 0.0) + is_old * one.value
    return found


def _is_percentile_99(one: MetricLine) -> bool:
    quantile = one.labels.get("quantile")
    return one.attribute == "99thpercentile" if quantile is None else quantile == "0.99"

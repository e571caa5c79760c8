"""What a client pushes, read: OTLP metrics in protobuf (``MetricsData``), as values with labels.

Only gauges and sums are taken, which is all that clients of Kafka send. Everything that a client chooses is
bounded: the bytes after decompression, the points, the lengths of names and labels.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.core.errors import BarnabasError
from barnabas.records.compression import Codec, decompress

POINTS_MAX: Final = 2_000
"""The most values of one push; what is beyond is left out."""
NAME_CHARS_MAX: Final = 200
LABEL_CHARS_MAX: Final = 256
LABELS_MAX: Final = 16

Labels: TypeAlias = tuple[tuple[str, str], ...]

_OWN_LABELS: Final = ("client_id", "client_instance_id")
_LABEL_OF_MACHINE: Final = "broker"
"""A machine of several brokers adds it to each sample; a second label of the name spoils the whole scrape."""
_KAFKA_PREFIX: Final = "org_apache_kafka_"
_DELTA: Final = 1
"""``AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA``."""


class MalformedError(BarnabasError):
    """Bytes that are no metrics, or too many of them."""


class Point(NamedTuple):
    """One value."""

    name: str
    """As the metrics endpoint shows it; that of a counter ends in ``_total``."""
    labels: Labels
    value: float
    is_delta: bool
    """Whether the value comes on top of those before."""


class Push(NamedTuple):
    """All that one push has."""

    points: list[Point]
    left_out: int
    """Values and metrics that were not taken."""


def is_available() -> bool:
    """Whether the library that reads OTLP is installed."""
    try:
        return find_spec("opentelemetry.proto.metrics.v1.metrics_pb2") is not None
    except ModuleNotFoundError:
        return False


def read_push(codec: int, data: bytes, limit: int) -> Push:
    """The values of a push of at most `limit` bytes after decompression.

    Raises MalformedError, and TooLargeError of `records.compression` for more than that.
    """
    plain = decompress(Codec(codec), data, limit)
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - few brokers need them
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415

    try:
        metrics = MetricsData.FromString(plain)
    except DecodeError as error:
        raise MalformedError(f"no metrics of OTLP: {error}") from error
    points: list[Point] = []
    left_out = 0
    for resource in metrics.resource_metrics:
        shared = _labels(resource.resource.attributes)
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                left_out += _take(metric, shared, points)
    return Push(points, left_out)


def _take(metric: Any, shared: dict[str, str], points: list[Point]) -> int:
    """Adds the values of one metric; how many were left out."""
    kind = metric.WhichOneof("data")
    if kind == "gauge":
        data, is_counter, is_delta = metric.gauge, False, False
    elif kind == "sum":
        data = metric.sum
        is_counter, is_delta = data.is_monotonic, data.aggregation_temporality == _DELTA
    else:
        return 1  # a histogram or a summary, or nothing
    if not metric.name or len(metric.name) > NAME_CHARS_MAX:
        return len(data.data_points)
    name = _shown_name(metric.name, is_counter=is_counter)
    left_out = 0
    for point in data.data_points:
        which = point.WhichOneof("value")
        if which is None or len(points) >= POINTS_MAX:
            left_out += 1
            continue
        labels = shared
        if point.attributes:
            labels = {**shared, **_labels(point.attributes)}
        points.append(Point(name, tuple(sorted(labels.items())), float(getattr(point, which)), is_delta))
    return left_out


def _labels(attributes: Iterable[Any]) -> dict[str, str]:
    """Attributes as labels of Prometheus; those that are no plain values are left out."""
    labels: dict[str, str] = {}
    for attribute in attributes:
        which = attribute.value.WhichOneof("value")
        if (
            which not in ("string_value", "int_value", "bool_value", "double_value")
            or len(labels) >= LABELS_MAX
        ):
            continue
        name = _label_name(attribute.key[:NAME_CHARS_MAX])
        if name and name not in _OWN_LABELS:
            value = getattr(attribute.value, which)
            text = str(value).lower() if which == "bool_value" else str(value)
            labels[name] = text[:LABEL_CHARS_MAX]
    return labels


@lru_cache(maxsize=4096)
def _shown_name(name: str, *, is_counter: bool) -> str:
    """A client's name of a metric as one of Prometheus; a counter's ends in ``_total``, no other's does.

    What does not begin as Kafka's own names do begins with ``client_``, so that no client can name a metric
    of the broker.
    """
    shown = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    if not shown.startswith(_KAFKA_PREFIX):
        shown = f"client_{shown}"
    if shown.endswith("_total") != is_counter:
        shown += "_total" if is_counter else "_value"
    return shown


@lru_cache(maxsize=1024)
def _label_name(name: str) -> str:
    shown = re.sub(r"[^a-zA-Z0-9_]", "_", name).strip("_")
    if shown == _LABEL_OF_MACHINE:
        return f"client_{shown}"
    return f"_{shown}" if shown[:1].isdigit() else shown

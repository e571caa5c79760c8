"""Metrics as OTLP, as far as brokers read it (``opentelemetry/proto/metrics/v1/metrics.proto``).

::

    MetricsData     = resource_metrics:1*
    ResourceMetrics = resource:1{attributes:1*} scope_metrics:2*
    ScopeMetrics    = metrics:2*
    Metric          = name:1 (gauge:5{data_points:1*} | sum:7{data_points:1* temporality:2 is_monotonic:3})
    NumberDataPoint = start_time_unix_nano:2 time_unix_nano:3 as_double:4 attributes:7*
    KeyValue        = key:1 value:2{string_value:1}

Written by hand: the messages are few, and a client must not need a library for them.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_FIXED: Final = struct.Struct("<Q")
_DOUBLE: Final = struct.Struct("<d")
DELTA: Final = 1
CUMULATIVE: Final = 2


class Value(NamedTuple):
    """One value. A counter grows, and `value` is by how much, or how far it has come; a gauge is as it is."""

    name: str
    value: float
    labels: Mapping[str, str]
    is_counter: bool


def metrics_data(
    values: Iterable[Value], labels: Mapping[str, str], *, since_ns: int, now_ns: int, temporality: int
) -> bytes:
    """All values in one message; `labels` are those of the client."""
    metrics = b"".join(_field(2, _metric(one, since_ns, now_ns, temporality)) for one in values)
    resource = _field(1, _attributes(1, labels))
    return _field(1, resource + _field(2, metrics))


def _metric(one: Value, since_ns: int, now_ns: int, temporality: int) -> bytes:
    point = (
        _key(2, 1)
        + _FIXED.pack(since_ns)
        + _key(3, 1)
        + _FIXED.pack(now_ns)
        + _key(4, 1)
        + _DOUBLE.pack(one.value)
        + _attributes(7, one.labels)
    )
    if one.is_counter:
        data = _field(7, _field(1, point) + _key(2, 0) + _varint(temporality) + _key(3, 0) + b"\x01")
    else:
        data = _field(5, _field(1, point))
    return _field(1, one.name.encode()) + data


def _attributes(number: int, labels: Mapping[str, str]) -> bytes:
    return b"".join(
        _field(number, _field(1, name.encode()) + _field(2, _field(1, text.encode())))
        for name, text in labels.items()
    )


def _field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return _key(number, 2) + _varint(len(content)) + content


def _key(number: int, wire_type: int) -> bytes:
    return bytes((number << 3 | wire_type,))


def _varint(number: int) -> bytes:
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)

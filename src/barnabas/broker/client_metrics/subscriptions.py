"""Which metrics a client is asked for: the subscriptions that match it, taken together.

``ClientMetricsManager.createClientInstance`` and ``ClientMetricsInstanceMetadata``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from barnabas.core.client_metrics_config import (
    ALL_METRICS,
    DEFAULT_INTERVAL_MS,
    INTERVAL_MS,
    MATCH,
    METRICS,
    match_patterns,
    validated,
)
from barnabas.core.ids import Uuid, java_hash, uuid_text
from barnabas.network.peer import Peer
from barnabas.records.crc import crc32c

_BUCKETS: Final = 16


class TelemetryClient(NamedTuple):
    """Who sends a request, as far as subscriptions can look at it."""

    client_id: str | None
    peer: Peer

    def attributes(self, instance_id: Uuid) -> dict[str, str | None]:
        """The values of the selectors of `match`."""
        name, version = self.peer.software
        host, port = self.peer.address[:2]
        return {
            "client_instance_id": uuid_text(instance_id),
            "client_id": self.client_id,
            "client_software_name": name,
            "client_software_version": version,
            "client_source_address": host,
            "client_source_port": str(port),
        }


class Wanted(NamedTuple):
    """What one client is asked for."""

    metrics: tuple[str, ...]
    """Prefixes of names, in the order in which Kafka answers; none: the client pushes nothing."""
    interval_ms: int
    subscription_id: int


class ConfiguredSubscriptions(Protocol):
    """Where the settings come from (`cluster.metadata.configs.ConfigStore`)."""

    @property
    def client_metrics(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of all subscriptions, by name."""

    @property
    def client_metrics_version(self) -> int:
        """Grows whenever one of them was changed."""


class _Subscription(NamedTuple):
    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any]

    def is_for(self, attributes: Mapping[str, str | None]) -> bool:
        """Whether each expression matches the whole value of its selector; one without any is for all."""
        for selector, pattern in self.patterns.items():
            value = attributes[selector]
            if value is None or pattern.fullmatch(value) is None:
                return False
        return True


class ClientMetricsSubscriptions:
    """All subscriptions, parsed when one of them was changed."""

    def __init__(self, configured: ConfiguredSubscriptions) -> None:
        self._configured = configured
        self._parsed: list[_Subscription] = []
        self._parsed_version = -1

    @property
    def version(self) -> int:
        """Grows whenever one of them was changed."""
        return self._configured.client_metrics_version

    def wanted_of(self, instance_id: Uuid, client: TelemetryClient) -> Wanted:
        """What the client is asked for by all subscriptions that are for it."""
        if self._parsed_version != self.version:
            self._parse()
        attributes = client.attributes(instance_id)
        metrics: dict[str, None] = {}
        interval_ms = DEFAULT_INTERVAL_MS
        for subscription in self._parsed:
            if subscription.is_for(attributes):
                metrics.update(dict.fromkeys(subscription.metrics))
                interval_ms = min(interval_ms, subscription.interval_ms)
        ordered = (ALL_METRICS,) if ALL_METRICS in metrics else _hash_set_order(metrics)
        return Wanted(ordered, interval_ms, _subscription_id(ordered, interval_ms, instance_id))

    def _parse(self) -> None:
        self._parsed_version = self.version
        self._parsed = []
        for name, values in self._configured.client_metrics.items():
            config = validated(name, values)
            self._parsed.append(
                _Subscription(tuple(config[METRICS]), config[INTERVAL_MS], match_patterns(config[MATCH]))
            )

    def __repr__(self) -> str:
        return f"<ClientMetricsSubscriptions {len(self._parsed)} version={self._parsed_version}>"


def _subscription_id(metrics: Iterable[str], interval_ms: int, instance_id: Uuid) -> int:
    """``computeSubscriptionId``: a checksum of what is asked for, different for each client."""
    text = f"[{', '.join(metrics)}]{interval_ms}"
    # Java's Uuid.hashCode: its two halves, and the halves of what they differ in.
    halves = int.from_bytes(instance_id[:8]) ^ int.from_bytes(instance_id[8:])
    mixed = crc32c(text.encode()) ^ halves >> 32 ^ halves & 0xFFFFFFFF
    return mixed - (1 << 32) if mixed >= 1 << 31 else mixed


def _hash_set_order(texts: Mapping[str, None]) -> tuple[str, ...]:
    """Texts in the order in which a HashSet of Java has them: the checksum is of that."""
    buckets = _BUCKETS
    while len(texts) > buckets * 3 // 4:
        buckets *= 2

    def bucket(text: str) -> int:
        folded = java_hash(text) & 0xFFFFFFFF
        return (folded ^ folded >> 16) & (buckets - 1)

    return tuple(sorted(texts, key=bucket))

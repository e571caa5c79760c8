"""`ProducerMetrics`: what a producer has done, by Kafka's names (``SenderMetricsRegistry``).

Counted once a request and once a batch, never once a record.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.client.producer_batch import ProducerBatch
from barnabas.client.sampled import Sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.client.partition_queue import PartitionQueue

Metrics: TypeAlias = dict[str, dict[str, float]]
"""Values by name, in groups: ``metrics()["producer-metrics"]["record-send-rate"]``."""


NAMES_LOOKED_UP: Final = (
    "buffer-available-bytes",
    "buffer-total-bytes",
    "metadata-age",
    "requests-in-flight",
    "waiting-threads",
)
"""Those of a producer that are looked up when they are asked for."""


class _Counts:
    """Records and bytes, of a topic or of all."""

    __slots__ = ("bytes", "errors", "retries", "sent")

    def __init__(self) -> None:
        self.sent = Sampled()
        self.bytes = Sampled()
        self.errors = Sampled()
        self.retries = Sampled()

    def shown(self) -> dict[str, float]:
        """By their names in Kafka's metrics of topics; those of the producer share the first six."""
        each = {"record-send": self.sent, "record-error": self.errors, "record-retry": self.retries}
        shown = {f"{name}-total": one.total for name, one in each.items()}
        return shown | {f"{name}-rate": one.rate() for name, one in each.items()}


class ProducerMetrics:
    """One producer's; lives on its event loop. Times are milliseconds, rates are a second's."""

    def __init__(self) -> None:
        self._all = _Counts()
        self._topics: dict[str, _Counts] = {}
        self._batch_bytes = Sampled()
        self._requests = Sampled()
        self._records_per_request = Sampled()
        self._record_bytes = Sampled()
        self._queued_ms = Sampled()
        self._latency_ms = Sampled()
        self._splits = Sampled()
        self._compression = Sampled()

    def sent(self, batches: "Sequence[tuple[PartitionQueue, ProducerBatch]]", now: float) -> None:
        """A request goes out with these batches."""
        records = 0
        for _, batch in batches:
            counts = self._of(batch)
            counts.sent.record(batch.count)
            counts.bytes.record(batch.size_bytes)
            self._all.sent.record(batch.count)
            self._all.bytes.record(batch.size_bytes)
            self._batch_bytes.record(batch.size_bytes)
            self._record_bytes.record(batch.size_bytes / batch.count)
            self._queued_ms.record((now - batch.created_at) * 1000)
            self._compression.record(batch.builder.compression_ratio)
            records += batch.count
        self._requests.record(1)
        self._records_per_request.record(records)

    def answered(self, latency_s: float) -> None:
        """A broker answered a request."""
        self._latency_ms.record(latency_s * 1000)

    def retried(self, batch: ProducerBatch) -> None:
        """A batch is sent again."""
        for counts in (self._all, self._of(batch)):
            counts.retries.record(batch.count)

    def failed(self, batch: ProducerBatch) -> None:
        """A batch was given up."""
        for counts in (self._all, self._of(batch)):
            counts.errors.record(batch.count)

    def split(self) -> None:
        """A batch was too large, and split."""
        self._splits.record(1)

    def _of(self, batch: ProducerBatch) -> _Counts:
        topic = batch.tp.topic
        if topic not in self._topics:
            self._topics[topic] = _Counts()
        return self._topics[topic]

    def shown(self, now: dict[str, float]) -> Metrics:
        """All of them, with `now`: what is looked up when it is asked for."""
        whole = self._all.shown() | {
            "batch-size-avg": self._batch_bytes.average(),
            "batch-size-max": self._batch_bytes.most(),
            "batch-split-total": self._splits.total,
            "batch-split-rate": self._splits.rate(),
            "compression-rate-avg": self._compression.average(),
            "outgoing-byte-total": self._all.bytes.total,
            "outgoing-byte-rate": self._all.bytes.rate(),
            "record-queue-time-avg": self._queued_ms.average(),
            "record-queue-time-max": self._queued_ms.most(),
            "record-size-avg": self._record_bytes.average(),
            "record-size-max": self._record_bytes.most(),
            "records-per-request-avg": self._records_per_request.average(),
            "request-latency-avg": self._latency_ms.average(),
            "request-latency-max": self._latency_ms.most(),
            "request-rate": self._requests.rate(),
            "request-total": self._requests.total,
        }
        topics = {
            f"producer-topic-metrics.{topic}": counts.shown()
            | {"byte-total": counts.bytes.total, "byte-rate": counts.bytes.rate()}
            for topic, counts in self._topics.items()
        }
        return {"producer-metrics": whole | now, **topics}

    def __repr__(self) -> str:
        return f"<ProducerMetrics {self._all.sent.total:.0f} records sent>"

"""`ConsumerMetrics`: what a consumer has done and how far behind it is, by Kafka's names
(``FetchMetricsRegistry``, ``KafkaConsumerMetrics``).

Counted once a poll, an answer and a partition, never once a record.
"""

import time
from collections.abc import Iterable
from typing import Final

from barnabas.client.producer_metrics import Metrics
from barnabas.client.sampled import Sampled
from barnabas.client.subscription_state import AssignedPartition

_FETCHES: Final = "consumer-fetch-manager-metrics"


class _Consumed:
    """Records and bytes, of a topic or of all."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records = Sampled()
        self.bytes = Sampled()

    def shown(self) -> dict[str, float]:
        return {
            "records-consumed-total": self.records.total,
            "records-consumed-rate": self.records.rate(),
            "bytes-consumed-total": self.bytes.total,
            "bytes-consumed-rate": self.bytes.rate(),
        }


class ConsumerMetrics:
    """One consumer's; lives on its event loop. Times are milliseconds, rates are a second's."""

    def __init__(self) -> None:
        self._all = _Consumed()
        self._topics: dict[str, _Consumed] = {}
        self._latency_ms = Sampled()
        self._fetch_bytes = Sampled()
        self._fetches = Sampled()
        self._between_polls_ms = Sampled()
        self._polled_at: float | None = None

    def polled(self) -> None:
        """The caller polls."""
        now = time.monotonic()
        if self._polled_at is not None:
            self._between_polls_ms.record((now - self._polled_at) * 1000)
        self._polled_at = now

    def fetched(self, latency_s: float, size_bytes: int) -> None:
        """A broker answered a fetch with so many bytes of records."""
        self._fetches.record(1)
        self._latency_ms.record(latency_s * 1000)
        self._fetch_bytes.record(size_bytes)

    def read(self, topic: str, size_bytes: int) -> None:
        """Bytes of this topic were taken out of what was fetched."""
        for counts in (self._all, self._of(topic)):
            counts.bytes.record(size_bytes)

    def consumed(self, topic: str, records: int) -> None:
        """The caller got so many records of this topic."""
        for counts in (self._all, self._of(topic)):
            counts.records.record(records)

    def _of(self, topic: str) -> _Consumed:
        if topic not in self._topics:
            self._topics[topic] = _Consumed()
        return self._topics[topic]

    def shown(self, partitions: Iterable[AssignedPartition], isolation_level: int) -> Metrics:
        """All of them; lags are those of the partitions as they stand now."""
        states = list(partitions)
        lags = {state.tp: lag for state in states if (lag := state.lag(isolation_level)) is not None}
        polled_at = self._polled_at
        whole = self._all.shown() | {
            "fetch-latency-avg": self._latency_ms.average(),
            "fetch-latency-max": self._latency_ms.most(),
            "fetch-rate": self._fetches.rate(),
            "fetch-size-avg": self._fetch_bytes.average(),
            "fetch-size-max": self._fetch_bytes.most(),
            "fetch-total": self._fetches.total,
            "records-lag-max": max(lags.values(), default=float("nan")),
        }
        polls = {
            "last-poll-seconds-ago": -1 if polled_at is None else time.monotonic() - polled_at,
            "time-between-poll-avg": self._between_polls_ms.average(),
            "time-between-poll-max": self._between_polls_ms.most(),
        }
        topics = {f"{_FETCHES}.{topic}": counts.shown() for topic, counts in self._topics.items()}
        by_partition = {
            f"{_FETCHES}.{tp.topic}:{tp.partition}": {"records-lag": float(lag)} for tp, lag in lags.items()
        }
        return {
            "consumer-metrics": polls,
            "consumer-coordinator-metrics": {"assigned-partitions": float(len(states))},
            _FETCHES: whole,
            **topics,
            **by_partition,
        }

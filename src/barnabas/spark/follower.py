"""How far a streaming query is, for people: committed to a consumer group, as lag, and as metrics.

The checkpoint alone says where a query continues; what is committed here is read by `kafka-consumer-groups`
and every tool that watches lag, and can start another query (``startingOffsets=group:NAME``). A batch's end
is committed when the query reports the batch, which it does after the batch is durable: the group is never
ahead of the checkpoint.

The listener only remembers positions, so that no broker holds Spark's events up; a thread commits the newest
ones.
"""

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from prometheus_client import start_http_server
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from barnabas.core.errors import BarnabasError
from barnabas.spark.groups.lag import lag_rows, one_record_at_a_time, standings_of
from barnabas.spark.kafka import KafkaFetcher, admin_client
from barnabas.spark.offsets import Positions, SourceOffset

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

_log = logging.getLogger("barnabas.spark")

RETRY_S: Final = 5.0
"""How long after a commit that failed the next one is tried."""
_LAG_TIMEOUT_MS: Final = 30_000


class PartitionLag(NamedTuple):
    """How far a query is behind the end of a partition."""

    topic: str
    partition: int
    position: int
    """The offset that it reads next."""
    end: int | None
    """None for a topic that was deleted, as with the two below."""
    records: int | None
    seconds: float | None
    """From the time of the next record to that of the newest."""


class QueryFollower:
    """Follows one streaming query; made by `barnabas.spark.follow`. ``with`` closes it."""

    def __init__(
        self, query: "StreamingQuery", client: Mapping[str, str], group: str | None, spark: "SparkSession"
    ) -> None:
        self._query = query
        self._client = dict(client)
        self._group = group
        self._spark = spark
        self._run_id = str(query.runId)
        self._name = query.name or str(query.id)
        self._admin = admin_client(self._client)
        self._changed = threading.Condition()
        self._commit_lock = threading.Lock()
        self._lag_lock = threading.Lock()
        self._fetcher: KafkaFetcher | None = None
        self._positions: Positions = {}
        self._committed: Positions = {}
        self._totals = Totals()
        self._closed = False
        self._server: WSGIServer | None = None
        self._listener = _Listener(self)
        self._thread = threading.Thread(target=self._commit_changes, name="barnabas-follower", daemon=True)
        spark.streams.addListener(self._listener)
        for progress in query.recentProgress:  # batches that ended before the listener was there
            self.observe(json.loads(progress.json))
        self._thread.start()

    def observe(self, progress: Mapping[str, Any]) -> None:
        """Takes the progress of a batch that is durable; those of other queries are left alone."""
        if progress["runId"] != self._run_id:
            return
        with self._changed:
            if self._totals.add(progress):
                self._positions |= positions_of(progress)
                self._changed.notify_all()

    def _commit_changes(self) -> None:
        """Commits what is new until the end; a commit that fails is logged, and the next one is tried."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._positions != self._committed)
                if self._closed:
                    return
            try:
                self.commit()
            except (BarnabasError, OSError) as error:
                _log.warning(
                    "the progress of %s is not committed to group %s: %s", self._name, self._group, error
                )
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, RETRY_S)

    def commit(self) -> None:
        """Commits what is not committed yet, now.
        Raises KafkaError: UNKNOWN_MEMBER_ID where consumers are in the group.
        """
        with self._commit_lock:  # one after the other: of two at a time the older could come last
            with self._changed:
                new = {
                    tp: offset for tp, offset in self._positions.items() if self._committed.get(tp) != offset
                }
            if new and self._group is not None:
                self._admin.groups.alter_offsets(self._group, new)
            with self._changed:
                self._committed |= new

    def lag(self) -> list[PartitionLag]:
        """How far the query is behind, by partition, as of now. Raises KafkaError and TimeoutError."""
        with self._changed:
            positions = dict(self._positions)
        with self._lag_lock:
            if self._fetcher is None:
                self._fetcher = KafkaFetcher(one_record_at_a_time(self._client))
            standings = standings_of(self._admin, {self._name: positions})
            found = lag_rows(standings, self._fetcher, _LAG_TIMEOUT_MS)
        return [
            PartitionLag(
                row["topic"],
                row["partition"],
                row["committedOffset"],
                row["logEndOffset"],
                row["lag"],
                row["lagSeconds"],
            )
            for row in found.to_pylist()
        ]

    def metrics(self) -> str:
        """Rates, batch times and the lag as Prometheus reads them. Raises KafkaError and TimeoutError."""
        return generate_latest(_Families([*self._figures(), *_lag_figures(self._name, self.lag())])).decode()

    def collect(self) -> Iterator[Metric]:
        """For a registry of `prometheus_client`:
        as `metrics`, without the lag while the brokers do not say it.
        """
        yield from self._figures()
        try:
            yield from _lag_figures(self._name, self.lag())
        except (BarnabasError, OSError) as error:
            _log.warning("the lag of %s cannot be had: %s", self._name, error)

    def _figures(self) -> list[Metric]:
        with self._changed:
            return self._totals.figures(self._name)

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> int:
        """Answers ``GET /metrics`` until it is closed; the port.
        Raises OSError, and RuntimeError the second time.
        """
        if self._server is not None:
            raise RuntimeError("the metrics of this query are served already")
        self._server, _ = start_http_server(port, host, self)
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Commits what the query has done up to now, and follows it no longer. Raises KafkaError."""
        with self._changed:
            if self._closed:
                return
        try:
            self._spark.streams.removeListener(self._listener)
            # The event of the last batch may still be on its way when a query has ended.
            for progress in self._query.recentProgress:
                self.observe(json.loads(progress.json))
            self.commit()
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self._thread.join()
            if self._server is not None:
                self._server.shutdown()
                self._server.server_close()
            self._admin.close()
            with self._lag_lock:
                if self._fetcher is not None:
                    self._fetcher.close()
                    self._fetcher = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Follower of {self._name} group={self._group} batch={self._totals.last_batch}>"


class Totals:
    """What the batches of a query add up to."""

    def __init__(self) -> None:
        self.last_batch = -1
        self.batches = 0
        self.rows = 0
        self.seconds = 0.0
        self.rates: dict[str, float] = {}

    def add(self, progress: Mapping[str, Any]) -> bool:
        """Whether the batch is a new one: a query that waits reports the last one again."""
        if progress["batchId"] <= self.last_batch:
            return False
        self.last_batch = progress["batchId"]
        self.batches += 1
        self.rows += progress.get("numInputRows") or 0
        self.seconds += progress.get("durationMs", {}).get("triggerExecution", 0) / 1000
        for source, name in (("inputRowsPerSecond", "input"), ("processedRowsPerSecond", "processed")):
            self.rates[name] = progress.get(source) or 0.0
        return True

    def figures(self, query: str) -> list[Metric]:
        """What they are now."""
        rows = CounterMetricFamily("barnabas_spark_input_rows", "Rows that were read.", labels=["query"])
        rows.add_metric([query], self.rows)
        seconds = SummaryMetricFamily(
            "barnabas_spark_batch_seconds", "Time that batches took.", labels=["query"]
        )
        seconds.add_metric([query], self.batches, round(self.seconds, 3))
        batch = GaugeMetricFamily("barnabas_spark_batch_id", "The last batch.", labels=["query"])
        batch.add_metric([query], self.last_batch)
        found: list[Metric] = [rows, seconds, batch]
        for name, value in self.rates.items():
            rate = GaugeMetricFamily(
                f"barnabas_spark_{name}_rows_per_second",
                f"Rows of {name}, in the last batch.",
                labels=["query"],
            )
            rate.add_metric([query], value)
            found.append(rate)
        return found


def _lag_figures(query: str, lag: Sequence[PartitionLag]) -> list[Metric]:
    labels = ["query", "topic", "partition"]
    records = GaugeMetricFamily("barnabas_spark_lag_records", "Records that are not read yet.", labels=labels)
    seconds = GaugeMetricFamily("barnabas_spark_lag_seconds", "Age of the next record.", labels=labels)
    for one in lag:
        of = [query, one.topic, str(one.partition)]
        if one.records is not None:
            records.add_metric(of, one.records)
        if one.seconds is not None:
            seconds.add_metric(of, one.seconds)
    return [records, seconds]


class _Families:
    """What `generate_latest` takes for a registry."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def positions_of(progress: Mapping[str, Any]) -> Positions:
    """Where the batch ended, of the sources that are ours.
    Where two read a partition, the one that is behind counts.
    """
    found: Positions = {}
    for source in progress["sources"]:
        offset = source["endOffset"]
        offset = json.loads(offset) if isinstance(offset, str) else offset
        if isinstance(offset, dict) and SourceOffset.is_ours(offset):
            for tp, position in SourceOffset.decode(offset).positions.items():
                found[tp] = min(position, found.get(tp, position))
    return found


def lag_of(progress: Mapping[str, Any]) -> int | None:
    """How many records there were behind the end of the batch when it was planned, of the sources that are
    ours. None where the brokers' end is not in the progress.
    """
    ends: Positions = {}
    for source in progress["sources"]:
        found = source.get("latestOffset")
        found = json.loads(found) if isinstance(found, str) else found
        if isinstance(found, dict):
            ends |= SourceOffset.decode(found).positions
    positions = positions_of(progress)
    if not positions or not ends.keys() >= positions.keys():
        return None
    return sum(max(ends[tp] - at, 0) for tp, at in positions.items())


class _Listener(StreamingQueryListener):  # type: ignore[misc]
    """Hands progress on."""

    def __init__(self, follower: QueryFollower) -> None:
        self._follower = follower

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing: only the progress counts."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is durable."""
        self._follower.observe(json.loads(event.progress.json))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing has moved."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The last batch was reported before."""

"""How far a streaming query is, for people: committed to a consumer group, as lag, and as metrics.

The checkpoint alone says where a query goes on; what is committed here is read by `kafka-consumer-groups` and
every tool that watches lag, and can start another query (``startingOffsets=group:NAME``). A batch's end is
committed when the query reports the batch, which it does after the batch is durable: the group is never ahead
of the checkpoint.

The listener only remembers positions, so that no broker holds Spark's events up; a thread commits the newest
ones.
"""

import json
import logging
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

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
    """None for a topic that is gone, as with the two below."""
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
        self._server: ThreadingHTTPServer | None = None
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
        """Commits what is new until the end, and goes on when it cannot."""
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
        lag = self.lag()
        with self._changed:
            lines = self._totals.lines(self._name)
        for kind in ("records", "seconds"):
            lines.append(f"# TYPE barnabas_spark_lag_{kind} gauge")
            for one in lag:
                value = getattr(one, kind)
                if value is not None:
                    labels = f'query="{_escaped(self._name)}",topic="{one.topic}",partition="{one.partition}"'
                    lines.append(f"barnabas_spark_lag_{kind}{{{labels}}} {value}")
        return "\n".join(lines) + "\n"

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> int:
        """Answers ``GET /metrics`` until it is closed; the port.
        Raises OSError, and RuntimeError the second time.
        """
        if self._server is not None:
            raise RuntimeError("the metrics of this query are served already")
        follower = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    text, status = (follower.metrics(), 200) if self.path == "/metrics" else ("", 404)
                except (BarnabasError, OSError) as error:
                    text, status = f"{error}\n", 503
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Nothing: a scrape is no event."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        threading.Thread(target=self._server.serve_forever, name="barnabas-metrics", daemon=True).start()
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

    def lines(self, query: str) -> list[str]:
        """In Prometheus' text format."""
        labels = f'{{query="{_escaped(query)}"}}'
        found = [
            ("barnabas_spark_input_rows_total", "counter", self.rows),
            ("barnabas_spark_batch_seconds", "summary", None),
            ("barnabas_spark_batch_id", "gauge", self.last_batch),
            *(
                (f"barnabas_spark_{name}_rows_per_second", "gauge", value)
                for name, value in self.rates.items()
            ),
        ]
        lines = []
        for name, kind, value in found:
            lines.append(f"# TYPE {name} {kind}")
            if value is None:
                lines += [
                    f"{name}_count{labels} {self.batches}",
                    f"{name}_sum{labels} {round(self.seconds, 3)}",
                ]
            else:
                lines.append(f"{name}{labels} {value}")
        return lines


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


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

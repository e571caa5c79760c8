"""Watching streaming queries: until they have read enough, and what their progress says afterwards."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.spark.demo.errors import DemoError
from barnabas.spark.errors import first_line
from barnabas.spark.offsets import Positions, SourceOffset

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_PATIENCE_S: Final = 180
_POLL_S: Final = 0.1


class MicroBatch(NamedTuple):
    """What the demo shows of one micro-batch."""

    number: int
    started: datetime
    rows: int
    duration_ms: int
    ends: Positions
    newest: datetime | None
    """The latest event time in it."""
    watermark: datetime | None
    dropped: int
    """Rows that came too late for the watermark."""

    @property
    def ended(self) -> datetime:
        """When it was committed."""
        return self.started + timedelta(milliseconds=self.duration_ms)

    @property
    def read(self) -> int:
        """The records that the stream has read by then: offsets begin at 0 and have no gaps here."""
        return sum(self.ends.values())


def micro_batches(query: "StreamingQuery") -> list[MicroBatch]:
    """All batches so far, from the query's own progress reports."""
    return [_micro_batch(progress) for progress in query.recentProgress]


def _micro_batch(progress: Any) -> MicroBatch:
    report: Mapping[str, Any] = progress if isinstance(progress, dict) else progress.jsonValue
    times = report.get("eventTime") or {}
    (source,) = report["sources"]
    return MicroBatch(
        number=report["batchId"],
        started=_time(report["timestamp"]),
        rows=report["numInputRows"],
        duration_ms=report["durationMs"].get("triggerExecution", 0),
        ends=_ends(source["endOffset"]),
        newest=_time(times["max"]) if "max" in times else None,
        watermark=_time(times["watermark"]) if "watermark" in times else None,
        dropped=sum(operator.get("numRowsDroppedByWatermark", 0) for operator in report["stateOperators"]),
    )


def _ends(offset: str | Mapping[str, Any] | None) -> Positions:
    """The end of a batch; progress gives it as JSON, or as what the JSON says, by version."""
    parsed = json.loads(offset) if isinstance(offset, str) else offset
    return SourceOffset.decode(parsed).positions if parsed else {}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def rows_read(query: "StreamingQuery") -> int:
    """The records that the query has read, those of earlier runs from its checkpoint included."""
    return max((batch.read for batch in micro_batches(query)), default=0)


def wait_for_start(query: "StreamingQuery") -> None:
    """Until the first micro-batch is done, so that what comes now is read as it comes. Raises DemoError."""
    _wait(query, lambda: bool(query.recentProgress), "started")


def wait_for_rows(query: "StreamingQuery", rows: int) -> None:
    """Until the query has read this many rows. Raises DemoError."""
    _wait(query, lambda: rows_read(query) >= rows, f"read {rows:,} rows")


def _wait(query: "StreamingQuery", reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not reached():
        check_alive(query)
        if time.monotonic() > deadline:
            raise DemoError(
                f"the stream {query.name!r} has not {what} in {_PATIENCE_S} s (it has {rows_read(query):,})"
            )
        time.sleep(_POLL_S)


def check_alive(query: "StreamingQuery") -> None:
    """Raises DemoError with the first line of what ended the query."""
    failure = query.exception()
    if failure is not None:
        raise DemoError(f"the stream {query.name!r} failed: {first_line(failure)}")

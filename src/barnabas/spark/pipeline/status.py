"""How a pipeline stands, without Spark: from its checkpoint, its table, its last run and the brokers."""

import datetime as dt
import fcntl
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.spark.errors import PipelineError
from barnabas.spark.groups.lag import lag_rows, one_record_at_a_time, standings_of
from barnabas.spark.kafka import KafkaFetcher, admin_client
from barnabas.spark.offsets import Positions
from barnabas.spark.pipeline.checkpoint import end_of, ended
from barnabas.spark.pipeline.events import last_event
from barnabas.spark.pipeline.named_tables import known
from barnabas.spark.pipeline.settings import Pipeline
from barnabas.spark.pipeline.sink import open_table
from barnabas.spark.pipeline.tables.compaction import TARGET_BYTES
from barnabas.spark.pipeline.tables.table import OURS

_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What a monitor asks for. What is not known is None."""

    name: str
    state: str
    """``new`` before the first run, ``running``, ``ended`` as it should, ``failed``, or ``killed``."""
    reason: str | None
    """Why it failed."""
    batch: int | None
    """The last batch that has ended."""
    batch_time: str | None
    batch_age_s: float | None
    records_per_s: float | None
    """Of the last batch."""
    records_read: int | None
    """Of the last run, as the four below."""
    rows_written: int | None
    letters: int | None
    rows_dropped: int | None
    restarts: int | None
    lag_records: int | None
    lag_s: float | None
    """Of the partition that is most behind: from the next record to the newest."""
    lag_error: str | None
    """Why the lag is not known."""
    files: int | None
    small_files: int | None
    """Those that a compaction would merge."""
    bytes: int | None


def status(pipeline: Pipeline) -> PipelineStatus:
    """How a pipeline stands now. Raises PipelineError for a table or a checkpoint that cannot be read."""
    told = last_event(pipeline.sink.path)
    batch, ended_s, positions = _last_batch(pipeline.checkpoint)
    records, seconds, why = _lag(pipeline, positions)
    sizes = _sizes(pipeline)
    time = None if ended_s is None else dt.datetime.fromtimestamp(ended_s, dt.UTC)
    return PipelineStatus(
        name=pipeline.name,
        state=_state(pipeline, told, batch),
        reason=told.get("reason") if told.get("event") == "failed" else None,
        batch=batch,
        batch_time=None if time is None else time.isoformat(timespec="seconds"),
        batch_age_s=None if time is None else round((dt.datetime.now(dt.UTC) - time).total_seconds(), 1),
        records_per_s=told.get("records_per_s"),
        records_read=told.get("records_read"),
        rows_written=told.get("rows_written"),
        letters=told.get("letters"),
        rows_dropped=told.get("rows_dropped"),
        restarts=told.get("restarts"),
        lag_records=records,
        lag_s=seconds,
        lag_error=why,
        files=None if sizes is None else len(sizes),
        small_files=None if sizes is None else sum(size < TARGET_BYTES // 2 for size in sizes),
        bytes=None if sizes is None else sum(sizes),
    )


def problems(found: PipelineStatus, *, lag_max: int | None, age_max_s: float | None) -> list[str]:
    """What a monitor is to be woken for."""
    told = []
    if found.state in {"failed", "killed"}:
        told.append(f"it has {found.state}" if found.state == "failed" else "it was killed")
    if lag_max is not None and (found.lag_records is None or found.lag_records > lag_max):
        told.append(f"its lag is {'not known' if found.lag_records is None else f'{found.lag_records:,}'}")
    if age_max_s is not None and (found.batch_age_s is None or found.batch_age_s > age_max_s):
        told.append("no batch has ended in time")
    return told


def _state(pipeline: Pipeline, told: dict[str, Any], batch: int | None) -> str:
    if _is_locked(pipeline.sink.path / OURS / "lock"):
        return "running"
    event = told.get("event")
    if event in {"ended", "failed"}:
        return str(event)
    return "new" if event is None and batch is None else "killed" if event is not None else "ended"


def _is_locked(path: Path) -> bool:
    """Whether a process writes to the table."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _last_batch(checkpoint: Path) -> tuple[int | None, float | None, Positions]:
    """The last batch that has ended, when, and where the next one begins."""
    batches = ended(checkpoint)
    if not batches:
        return None, None, {}
    last = batches[-1]
    positions = end_of(checkpoint, last).positions
    try:
        return last, (checkpoint / "commits" / str(last)).stat().st_mtime, positions
    except OSError as error:
        raise PipelineError(f"{error.filename} cannot be read: {error.strerror}") from None


def _lag(pipeline: Pipeline, positions: Positions) -> tuple[int | None, float | None, str | None]:
    if not positions:
        return None, None, None
    client = pipeline.source_options.client
    try:
        with (
            closing(admin_client(client)) as admin,
            closing(KafkaFetcher(one_record_at_a_time(client))) as fetcher,
        ):
            admin.cluster.describe(timeout_ms=_TIMEOUT_MS)
            rows = lag_rows(standings_of(admin, {pipeline.name: positions}), fetcher, _TIMEOUT_MS).to_pylist()
    except (BarnabasError, OSError) as error:
        return None, None, str(error)
    seconds = [row["lagSeconds"] for row in rows if row["lagSeconds"] is not None]
    return sum(row["lag"] or 0 for row in rows), max(seconds, default=None), None


def _sizes(pipeline: Pipeline) -> list[int] | None:
    if pipeline.sink.kind == "topic":
        return None
    tables = [table for one in known(pipeline.sink) if (table := open_table(one)).state(None) is not None]
    return [size for table in tables for size in table.sizes()] if tables else None

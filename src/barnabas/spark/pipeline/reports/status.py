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
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.many_tables.named_tables import known
from barnabas.spark.pipeline.reports.events import last_event
from barnabas.spark.pipeline.sinks.checkpoint import end_of, ended
from barnabas.spark.pipeline.sinks.sink import open_table
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


@dataclass(frozen=True, slots=True)
class PartitionBehind:
    """How far a pipeline is behind the end of a partition. What is not known is None."""

    topic: str
    partition: int
    position: int
    """The offset that it reads next."""
    end: int | None
    records: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a table."""

    where: str
    files: int
    small: int
    """Those that a compaction would merge."""
    bytes: int


@dataclass(frozen=True, slots=True)
class PipelineStanding:
    """A status and what it is the sum of."""

    status: PipelineStatus
    partitions: list[PartitionBehind]
    tables: list[TableFiles]


def status(pipeline: Pipeline) -> PipelineStatus:
    """How a pipeline stands now. Raises PipelineError for a table or a checkpoint that cannot be read."""
    return standing(pipeline).status


def standing(pipeline: Pipeline) -> PipelineStanding:
    """How a pipeline stands now, by partition and table. Raises PipelineError as `status` does."""
    told = last_event(pipeline.sink.path)
    batch, ended_s, positions = _last_batch(pipeline.checkpoint)
    partitions, why = _behind(pipeline, positions)
    tables = _tables(pipeline)
    time = None if ended_s is None else dt.datetime.fromtimestamp(ended_s, dt.UTC)
    found = PipelineStatus(
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
        lag_records=sum(one.records or 0 for one in partitions) if partitions else None,
        lag_s=max((one.seconds for one in partitions if one.seconds is not None), default=None),
        lag_error=why,
        files=sum(one.files for one in tables) if tables else None,
        small_files=sum(one.small for one in tables) if tables else None,
        bytes=sum(one.bytes for one in tables) if tables else None,
    )
    return PipelineStanding(found, partitions, tables)


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


def _behind(pipeline: Pipeline, positions: Positions) -> tuple[list[PartitionBehind], str | None]:
    """How far each partition is behind; nothing, and the reason, while no broker answers."""
    if not positions:
        return [], None
    client = pipeline.source_options.client
    try:
        with (
            closing(admin_client(client)) as admin,
            closing(KafkaFetcher(one_record_at_a_time(client))) as fetcher,
        ):
            admin.cluster.describe(timeout_ms=_TIMEOUT_MS)
            rows = lag_rows(standings_of(admin, {pipeline.name: positions}), fetcher, _TIMEOUT_MS).to_pylist()
    except (BarnabasError, OSError) as error:
        return [], str(error)
    names = ("topic", "partition", "committedOffset", "logEndOffset", "lag", "lagSeconds")
    return [PartitionBehind(*(row[name] for name in names)) for row in rows], None


def _tables(pipeline: Pipeline) -> list[TableFiles]:
    """The tables that there are; none where the rows go to a topic."""
    if pipeline.sink.kind == "topic":
        return []
    found = []
    for one in known(pipeline.sink):
        table = open_table(one)
        if table.state(None) is not None:
            sizes = table.sizes()
            small = sum(size < TARGET_BYTES // 2 for size in sizes)
            found.append(TableFiles(one.where, len(sizes), small, sum(sizes)))
    return found

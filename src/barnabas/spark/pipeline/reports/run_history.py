"""What the runs of a pipeline have told, for people: from its file of events, or else from its checkpoint.

Nothing in the file of events is trusted: it may be torn by a kill, cut, or edited. A line that is no event of
this pipeline is passed over. The rows that ``mode = "history"`` keeps in a table are something else
(`tables.rewriting`).
"""

import datetime as dt
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.sinks.checkpoint import ended, moments

BATCHES_MAX: Final = 400
"""The newest ones are kept."""
RUNS_MAX: Final = 100
RESTARTS_MAX: Final = 100
_READ_BYTES: Final = 32 << 20
"""Of a file of events, which only grows, so much of its end is read."""
_NUMBER_MAX: Final = 1 << 62
_FIGURES: Final = ("records_read", "rows_written", "batches", "restarts", "letters", "rows_dropped")
"""What events have of `RunOutcome.figures`, and a run is shown with."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that has ended. What is not known is None."""

    number: int
    ended: dt.datetime
    records: int | None
    seconds: float | None
    lag: int | None = None
    """How many records there were behind it when it was planned."""


@dataclass(slots=True)
class PipelineRun:
    """A run, as far as its events are there."""

    started: dt.datetime | None
    last: dt.datetime
    """The time of its last event."""
    state: str = "killed"
    """``ended``, ``failed``, or ``killed`` where the file says neither; the newest of them may be running."""
    reason: str | None = None
    columns: Mapping[str, str] | None = None
    """Of the table, by name."""
    reader_schema: str | None = None
    """Which version of a registry's schema values were read by."""
    figures: dict[str, int] = field(default_factory=dict)
    violations: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Restart:
    """A query that had failed was started again."""

    time: dt.datetime
    reason: str
    before: int
    """How many batches had ended before."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A run began with other columns, or another schema of the registry, than the one before."""

    time: dt.datetime | None
    words: str


@dataclass(slots=True)
class RunHistory:
    """What was found; the newest is last."""

    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_MAX))
    batches_seen: int = 0
    runs: deque[PipelineRun] = field(default_factory=lambda: deque(maxlen=RUNS_MAX))
    runs_seen: int = 0
    restarts: deque[Restart] = field(default_factory=lambda: deque(maxlen=RESTARTS_MAX))
    restarts_seen: int = 0
    schema_changes: list[SchemaChange] = field(default_factory=list)
    rows_by_table: Counter[str] = field(default_factory=Counter)
    last_rows: dict[str, dt.datetime] = field(default_factory=dict)
    """When each table has got rows last."""
    since: dt.datetime | None = None
    """Where it begins."""
    is_cut: bool = False
    """Whether there are older events."""

    @property
    def columns(self) -> Mapping[str, str] | None:
        """The columns of the table, as the newest run has them."""
        return next((run.columns for run in reversed(self.runs) if run.columns is not None), None)


def from_events(path: Path, name: str) -> RunHistory:
    """The history of a pipeline in its file of events. Raises PipelineError where it cannot be read."""
    found = RunHistory()
    for event, time, more in _events(path, name, found):
        found.since = found.since or time
        _take(found, event, time, more)
    return found


def from_checkpoint(checkpoint: Path) -> RunHistory:
    """The last hundred batches or so, of which Spark has not forgotten the times and the offsets."""
    found = RunHistory()
    before = None
    for number in ended(checkpoint):
        try:
            begun, end, positions = moments(checkpoint, number)
        except PipelineError:  # forgotten, or taken back, meanwhile
            before = None
            continue
        records = None
        if before is not None and before.keys() <= positions.keys():
            records = sum(at - before.get(tp, at) for tp, at in positions.items())
        found.since = found.since or end
        found.batches.append(Batch(number, end, records, max((end - begun).total_seconds(), 0.0)))
        found.batches_seen += 1
        before = positions
    return found


def _events(path: Path, name: str, found: RunHistory) -> Iterator[tuple[str, dt.datetime, dict[str, Any]]]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _READ_BYTES, 0))
            if size > _READ_BYTES:
                found.is_cut = True
                file.readline()
            for line in file:
                event = _event(line, name)
                if event is not None:
                    yield event
    except FileNotFoundError:
        return
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None


def _event(line: bytes, name: str) -> tuple[str, dt.datetime, dict[str, Any]] | None:
    """What a line says, None where it is no event of this pipeline."""
    try:
        said = json.loads(line)
        if not isinstance(said, dict) or said.get("pipeline") != name:
            return None
        time = dt.datetime.fromisoformat(said["time"])
        if time.tzinfo is None:
            return None
        time, event = time.astimezone(dt.UTC), said["event"]
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):  # the last: behind the year 9999
        return None
    return (event, time, said) if isinstance(event, str) else None


def _take(found: RunHistory, event: str, time: dt.datetime, more: dict[str, Any]) -> None:
    if event == "started":
        _begin(
            found, PipelineRun(time, time, columns=_columns(more), reader_schema=_text(more, "reader_schema"))
        )
    elif not found.runs:
        _begin(found, PipelineRun(None, time))  # its first events are not in what was read
    run = found.runs[-1]
    run.last = time
    run.figures |= {name: number for name in _FIGURES if (number := _whole(more, name)) is not None}
    if "violations" in more:
        run.violations = _counts(more["violations"])
    if event in {"ended", "failed"}:
        run.state, run.reason = event, _text(more, "reason")
    elif event == "restart":
        found.restarts.append(Restart(time, _text(more, "reason") or "", found.batches_seen))
        found.restarts_seen += 1
    elif event == "batch" and (number := _whole(more, "batch")) is not None:
        seconds = _number(more, "batch_s")
        found.batches.append(
            Batch(number, time, _whole(more, "batch_records"), seconds, _whole(more, "lag_records"))
        )
        found.batches_seen += 1
    for table, rows in _counts(more.get("tables")).items():
        found.rows_by_table[table] += rows
        found.last_rows[table] = time


def _begin(found: RunHistory, run: PipelineRun) -> None:
    """A run begins: what has changed since the one before is remembered."""
    columns = found.columns
    if columns is not None and run.columns is not None:
        for words in _differences(columns, run.columns):
            found.schema_changes.append(SchemaChange(run.started, words))
    before = next((one.reader_schema for one in reversed(found.runs) if one.reader_schema), None)
    if before is not None and run.reader_schema not in {None, before}:
        words = f"values are read by {run.reader_schema}, before by {before}"
        found.schema_changes.append(SchemaChange(run.started, words))
    found.runs.append(run)
    found.runs_seen += 1


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name, kind in after.items():
        if name not in before:
            yield f"new column {name} {kind}"
        elif before[name] != kind:
            yield f"column {name}: {before[name]} became {kind}"
    for name, kind in before.items():
        if name not in after:
            yield f"column {name} {kind} is gone"


def _columns(more: Mapping[str, Any]) -> dict[str, str] | None:
    found = more.get("columns")
    if not isinstance(found, dict) or not all(isinstance(kind, str) for kind in found.values()):
        return None
    return found


def _counts(found: object) -> dict[str, int]:
    if not isinstance(found, dict):
        return {}
    return {name: number for name in found if (number := _whole(found, name)) is not None}


def _whole(found: Mapping[str, Any], name: str) -> int | None:
    number = found.get(name)
    return number if type(number) is int and 0 <= number < _NUMBER_MAX else None


def _number(found: Mapping[str, Any], name: str) -> float | None:
    number = found.get(name)
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        return None
    return float(number) if 0 <= number < _NUMBER_MAX else None  # NaN is neither


def _text(found: Mapping[str, Any], name: str) -> str | None:
    text = found.get(name)
    return text if isinstance(text, str) else None

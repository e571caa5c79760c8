"""Goes back in time: the batches since then are taken out of the table, and the next run does them again.

Theory of operation
-------------------
A batch is what a table can be taken back to, so the way goes to the end of the last batch that has no record
of the time or later. Both tables are asked first whether they can be taken back that far. Then three things
are: the table, the letters' table, and Spark's checkpoint, in this order, as a checkpoint that is behind its
table would have batches passed over. ``rewind.json`` says in between how far, and of which tables. It is
written before the first step and removed behind the last one, and a run finishes what it says first. Each
step changes nothing when it is done again.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError
from barnabas.spark.kafka import KafkaCatalog
from barnabas.spark.logs.backfill import Backfill, BackfilledCatalog
from barnabas.spark.offsets import EARLIEST, Positions
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.joined.joined_tables import forget_batch
from barnabas.spark.pipeline.many_tables.named_tables import known
from barnabas.spark.pipeline.sinks.checkpoint import end_of, ended, go_back, query_id, used
from barnabas.spark.pipeline.sinks.sink import open_table
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.table import RewindRefusedError, Table
from barnabas.spark.planner import Catalog

_NOTE: Final = "rewind.json"
_WHAT: Final = "note of a rewind"


@dataclass(frozen=True, slots=True)
class Rewind:
    """What a rewind does."""

    first: int | None
    """The first batch that is done again, None where none has a record that is young enough."""
    batches: int
    records: int
    """The distance of the offsets that are read again."""


def rewind(pipeline: Pipeline, to: dt.datetime, *, dry_run: bool = False) -> Rewind:
    """Takes back what was done since the first record of that time. Raises PipelineError, and what clients
    raise.
    """
    if pipeline.sink.kind == "topic":
        raise PipelineError("sink.kind is topic: what was sent cannot be taken back")
    if (pipeline.checkpoint / "state").exists():
        raise PipelineError(
            "transform remembers rows of earlier batches, and Spark cannot take its state back"
        )
    if dry_run:
        if (pipeline.checkpoint / _NOTE).exists():
            raise PipelineError("a rewind was begun and is not finished: the next run finishes it")
        found = _planned(pipeline, to)
        if found.first is not None:
            query = _query(pipeline.checkpoint)
            _require_all(_having([*_tables(pipeline)], query, found.first), query, found.first)
        return found
    with ExitStack() as held:
        held.enter_context(used(pipeline.checkpoint))
        finish(pipeline)
        # The locks come before the note: what is refused because the pipeline runs is not done later.
        tables = [held.enter_context(table) for table in _tables(pipeline)]
        found = _planned(pipeline, to)
        if found.first is not None:
            query = _query(pipeline.checkpoint)
            left = _having(tables, query, found.first)
            _require_all(left, query, found.first)
            names = [table.where for table in left]
            replace_note(
                pipeline.checkpoint / _NOTE, {"first": found.first, "tables": len(left), "where": names}
            )
            _take_back(pipeline.checkpoint, tables)
    return found


def _planned(pipeline: Pipeline, to: dt.datetime) -> Rewind:
    with closing(KafkaCatalog(pipeline.source_options)) as brokers:
        options = pipeline.source_options
        catalog = BackfilledCatalog(brokers, Backfill(options)) if options.backfill else brokers
        found = plan(pipeline.checkpoint, to, catalog)
        if found.first is not None:
            then = end_of(pipeline.checkpoint, found.first)
            for name in sorted(then.created_again(catalog.topics(pipeline.source_options).topic_ids)):
                raise PipelineError(
                    f"the topic {name} was deleted and created again since batch {found.first}: its rows "
                    "would be lost"
                )
    return found


def plan(checkpoint: Path, to: dt.datetime, catalog: Catalog) -> Rewind:
    """Which batch is the first to be done again, and whether that can be. Raises PipelineError."""
    batches = ended(checkpoint)
    if not batches:
        raise PipelineError(f"{checkpoint} has no batch that has ended: there is nothing to take back")
    last = end_of(checkpoint, batches[-1]).positions
    _query(checkpoint)
    # ListOffsets reads some negative times as words of its own, such as -1 for the end.
    times = catalog.offsets(dict.fromkeys(last, max(int(to.timestamp() * 1000), 0)))
    behind = {tp: at for tp in last if 0 <= (at := times.get(tp, -1)) < last[tp]}
    first = next((one for one in batches if _reaches(end_of(checkpoint, one).positions, behind)), None)
    if first is None:
        return Rewind(None, 0, 0)
    if first > 0 and first - 1 not in batches:
        raise PipelineError(
            f"batch {first} is the oldest that Spark still knows, and it has records of that time: give a "
            "later one"
        )
    start = _start_of(checkpoint, first)
    # Partitions that came later are read from their first record on.
    begin = {**dict.fromkeys(last, 0), **start} if start else start
    there = catalog.offsets(dict.fromkeys(begin, EARLIEST))
    for tp in sorted(begin):
        if there.get(tp, 0) > begin[tp]:
            raise PipelineError(
                f"batch {first} begins at offset {begin[tp]:,} of {tp}, and the brokers have it from "
                f"{there[tp]:,} on: its rows would be lost"
            )
    records = sum(last[tp] - at for tp, at in start.items() if tp in last)
    return Rewind(first, batches[-1] - first + 1, records)


def _query(checkpoint: Path) -> str:
    """The query whose batches are taken back. Raises PipelineError where the checkpoint does not say it."""
    query = query_id(checkpoint)
    if query is None:
        raise PipelineError(
            f"{checkpoint / 'metadata'} is missing: which batches of the table are its own is not known"
        )
    return query


def _reaches(end: Positions, behind: Positions) -> bool:
    """Whether a batch that ends there has one of the offsets behind which all is taken back."""
    return any(end.get(tp, 0) > at for tp, at in behind.items())


def _start_of(checkpoint: Path, batch: int) -> Positions:
    """Where a batch begins; partitions that were new in it are not there."""
    if batch > 0:
        return end_of(checkpoint, batch - 1).positions
    return end_of(checkpoint, batch).start or {}


def finish(pipeline: Pipeline) -> None:
    """Takes the steps of a rewind that was begun. Raises PipelineError where the pipeline runs, and for a
    table that cannot be taken back.
    """
    if read_note(pipeline.checkpoint / _NOTE, _WHAT) is None:
        return
    with ExitStack() as held:
        _take_back(pipeline.checkpoint, [held.enter_context(table) for table in _tables(pipeline)])


def _take_back(checkpoint: Path, tables: Sequence[Table]) -> None:
    """What the note says, of tables whose locks are held."""
    note = checkpoint / _NOTE
    found = read_note(note, _WHAT)
    if found is None:
        return  # another process has finished it
    first = found.get("first")
    if type(first) is not int or first < 0:
        raise damaged(note, _WHAT, ValueError("it has no batch"))
    for where in found.get("where", ()):
        if where not in {table.where for table in tables}:
            raise PipelineError(
                f"a rewind of {where} was begun and not finished, and the file has that table no more: put "
                "it back into the file for one run"
            )
    query = _query(checkpoint)
    left = _having(tables, query, first)
    try:
        _require_all(left, query, first)
    except RewindRefusedError:
        if len(left) == found.get("tables"):  # nothing has been taken back yet
            note.unlink()
        raise
    for table in left:
        table.rewind(query, first - 1)
    forget_batch(checkpoint)
    go_back(checkpoint, first)
    note.unlink()
    synchronise(note.parent)


def _having(tables: Sequence[Table], query: str, first: int) -> list[Table]:
    """Those that have a batch which is taken back. Raises PipelineError for a table of another pipeline."""
    found = []
    for table in tables:
        state = table.state(query)
        if state is not None and state.batch is None:
            raise PipelineError(f"{table.where} was written with another checkpoint")
        if state is not None and state.batch is not None and state.batch >= first:
            found.append(table)
    return found


def _require_all(tables: Sequence[Table], query: str, first: int) -> None:
    """Raises RewindRefusedError where one of them cannot be taken back, before another one has been."""
    for table in tables:
        table.require_rewind(query, first - 1)


def _tables(pipeline: Pipeline) -> Iterator[Table]:
    """All that the pipeline writes; who asks for the next one holds the lock of those before."""
    if pipeline.sink.route is not None:
        # The lock of a run that may have no table yet; which there are is read behind it.
        yield open_table(pipeline.sink)
    yield from map(open_table, known(pipeline.sink))
    if pipeline.letters is not None and pipeline.letters.table is not None:
        yield open_table(pipeline.letters.table)

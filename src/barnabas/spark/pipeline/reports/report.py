"""How a pipeline runs, as a page for people: one HTML file with everything in it.

What stands now is that of `status`; what came before is in the file of events, or else in the checkpoint.
Names of topics, tables and columns, rules and reasons come from others: all of them are escaped.
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Final

from barnabas.spark import pages
from barnabas.spark.errors import PipelineError
from barnabas.spark.pages import charts
from barnabas.spark.pages.charts import Tick
from barnabas.spark.pipeline.file.settings import Pipeline
from barnabas.spark.pipeline.reports.run_history import (
    BATCHES_MAX,
    Batch,
    PipelineRun,
    RunHistory,
    from_checkpoint,
    from_events,
)
from barnabas.spark.pipeline.reports.status import PipelineStanding, PipelineStatus, problems, standing
from barnabas.spark.pipeline.sinks.sink import open_table

_ROWS: Final = 50
"""Of a table of the page."""
_TICKS: Final = 6
"""Of the axis of a chart."""
_TOPICS: Final = 6
"""So many are named in the first line."""
_BATCHES_MIN: Final = 2
"""A chart of fewer says nothing that the figures do not."""
_LETTERS_MAX: Final = 1_000_000
"""Of a table of dead letters so many are looked at for their reasons."""
_NUMERIC: Final = re.compile(r"[\d,.]+( s| [KMGT]?B)?|not known")
_UNITS: Final = ("B", "KB", "MB", "GB", "TB")


def page(pipeline: Pipeline) -> str:
    """The page, HTML. Raises PipelineError for a table, a checkpoint or events that cannot be read."""
    now = standing(pipeline)
    history = from_events(pipeline.events, pipeline.name) if pipeline.events is not None else RunHistory()
    from_file = bool(history.batches_seen)
    if not from_file:
        past = from_checkpoint(pipeline.checkpoint)
        history.batches, history.batches_seen = past.batches, past.batches_seen
    sections = (
        _batches(history, from_file=from_file),
        _lag(now),
        _misfits(pipeline, now.status, history),
        _columns(history),
        _tables(pipeline, now, history),
        _restarts(history),
        _runs(history, running=now.status.state == "running"),
    )
    made_at, source = _time(dt.datetime.now(dt.UTC)), _source(pipeline, history, from_file=from_file)
    footer = f"Made by <code>barnabas pipeline report</code> at {made_at}. Times are in UTC. {source}"
    wrong = [f"Problem: {one}" for one in problems(now.status, lag_max=None, age_max_s=None)]
    made = pages.page(
        pipeline.name,
        _lead(pipeline, now.status),
        _figures(now.status),
        "".join(sections),
        footer,
        warnings=wrong,
    )
    # A reason may have the name of a file whose bytes are no text.
    return made.encode(errors="replace").decode()


def _lead(pipeline: Pipeline, now: PipelineStatus) -> str:
    options = pipeline.source_options
    topics = options.topics or sorted({tp.topic for tp in options.assigned}) or [str(options.pattern)]
    shown = ", ".join(topics[:_TOPICS]) + (f" and {len(topics) - _TOPICS:,} more" if topics[_TOPICS:] else "")
    to = (
        f"the topic {pipeline.sink.topic}"
        if pipeline.sink.topic
        else f"{pipeline.sink.kind.capitalize()} at {pipeline.sink.where}"
    )
    reason = f": {escape(now.reason)}" if now.reason else ""
    return f"<b>{escape(shown)}</b> into <b>{escape(to)}</b>. State: <b>{now.state}</b>{reason}"


def _figures(now: PipelineStatus) -> Iterator[tuple[str, str]]:
    """(Figure, words) of what is known, and of the lag also where it is not."""
    if now.batch is not None:
        yield _number(now.lag_records), "records behind" + (f" ({now.lag_error})" if now.lag_error else "")
    seconds = ((now.lag_s, "behind, by the records' times"), (now.batch_age_s, "since the last batch ended"))
    yield from ((_seconds(value), words) for value, words in seconds if value is not None)
    numbers = (
        (now.records_per_s, "records a second, in the last batch"),
        (now.records_read, "records read in the last run"),
        (now.rows_written, "rows written in the last run"),
        (now.letters, "dead letters in the last run"),
        (now.rows_dropped, "rows dropped in the last run"),
        (now.restarts, "restarts in the last run"),
    )
    yield from ((_number(value), words) for value, words in numbers if value is not None)
    if now.files is not None:
        yield _number(now.files), f"files, {_number(now.small_files)} of them small, {_bytes(now.bytes)}"


def _source(pipeline: Pipeline, history: RunHistory, *, from_file: bool) -> str:
    if from_file:
        assert history.since is not None
        cut = " Older events are in the file." if history.is_cut else ""
        events = escape(str(pipeline.events))
        return f"What came before is from <code>{events}</code>, since {_time(history.since)}.{cut}"
    return (
        "What came before is from the checkpoint, which remembers a hundred batches or so: with "
        "<code>events = &quot;NAME.events&quot;</code> in the pipeline's file there are all, and lag, rules, "
        "columns and restarts too."
    )


def _section(title: str, words: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(words)}</p>{body}</section>"


def _batches(history: RunHistory, *, from_file: bool) -> str:
    batches = list(history.batches)
    if len(batches) < _BATCHES_MIN:
        return ""
    first = history.batches_seen - len(batches)
    restarts = [
        (min(one.before - first, len(batches) - 1), "restart")
        for one in history.restarts
        if one.before >= first
    ]
    measures: list[tuple[str, Callable[[Batch], float | None], str]] = [
        ("Records" if from_file else "Records, by the offsets", lambda one: one.records, ""),
        ("Seconds", lambda one: one.seconds, " s"),
        ("Lag: records behind a batch when it was planned", lambda one: one.lag, ""),
    ]
    drawn = [
        f"<h3>{escape(title)}</h3>" + _chart(batches, measure, restarts, unit)
        for title, measure, unit in measures
        if any(measure(one) is not None for one in batches)
    ]
    shown = f"The newest {BATCHES_MAX} of {history.batches_seen:,}" if first else f"{len(batches):,}"
    return _section("Batches", f"{shown} batches, a column each.", "".join(drawn))


def _chart(
    batches: Sequence[Batch],
    measure: Callable[[Batch], float | None],
    notes: Sequence[tuple[int, str]],
    unit: str,
) -> str:
    step = max(1, -(-len(batches) // _TICKS))
    short = batches[-1].ended - batches[0].ended < dt.timedelta(days=1)
    form = "%H:%M:%S" if short else "%d %b %H:%M"
    ticks = [Tick(at, f"{batches[at].ended:{form}}") for at in range(0, len(batches), step)]
    values = [measure(one) or 0 for one in batches]
    return charts.columns(values, [_hint(one) for one in batches], notes, x_ticks=ticks, unit=unit)


def _hint(batch: Batch) -> str:
    lag = "" if batch.lag is None else f", {batch.lag:,} records behind"
    return (
        f"batch {batch.number:,}, {_time(batch.ended)}: {_number(batch.records)} records in "
        f"{_seconds(batch.seconds)}{lag}"
    )


def _lag(now: PipelineStanding) -> str:
    found = sorted(now.partitions, key=lambda one: -(one.records or 0))
    rows = [
        (
            one.topic,
            str(one.partition),
            _number(one.position),
            _number(one.end),
            _number(one.records),
            _seconds(one.seconds),
        )
        for one in found
    ]
    heads = ("topic", "partition", "next offset", "end", "records behind", "seconds behind")
    return _table("Lag by partition", "Where the next batch begins, and what the brokers have.", heads, rows)


def _misfits(pipeline: Pipeline, now: PipelineStatus, history: RunHistory) -> str:
    """Dead letters and rules, where the file has any."""
    if pipeline.letters is None and not pipeline.expectations:
        return ""
    body = ""
    if pipeline.expectations:
        run = history.runs[-1] if history.runs else None
        total: Counter[str] = Counter()
        for one in history.runs:
            total.update(one.violations)
        rows = [
            (
                one.rule,
                one.violation,
                "not known" if run is None else _number(run.violations.get(one.rule, 0)),
                "not known" if run is None else _number(total[one.rule]),
            )
            for one in pipeline.expectations
        ]
        body += _rows(("rule", "violation", "rows in the last run", f"in {len(history.runs):,} runs"), rows)
    letters = pipeline.letters
    if letters is None:
        return _section("Rows that violate a rule", "What the rules of the file have said of rows.", body)
    to = f"the topic {letters.topic}" if letters.table is None else letters.table.where
    words = f"Records that do not fit go to {to}: {_number(now.letters)} in the last run."
    if letters.table is not None:
        body += _reasons(pipeline)
    return _section("Records that do not fit", words, body)


def _reasons(pipeline: Pipeline) -> str:
    """Why the letters in a table do not fit."""
    assert pipeline.letters is not None
    assert pipeline.letters.table is not None
    counted: Counter[tuple[str, str]] = Counter()
    looked = 0
    try:
        if pipeline.letters.table.path.exists():
            for batch in open_table(pipeline.letters.table).rows(("topic", "reason")):
                counted.update(
                    zip(*(batch.column(name).to_pylist() for name in ("topic", "reason")), strict=True)
                )
                looked += batch.num_rows
                if looked >= _LETTERS_MAX:
                    break
    except (PipelineError, OSError) as error:
        return f'<p class="warning">The letters cannot be read: {escape(str(error))}</p>'
    if not counted:
        return ""
    more = f"<p>Of the first {looked:,} letters.</p>" if looked >= _LETTERS_MAX else ""
    rows = [(str(topic), str(reason), _number(count)) for (topic, reason), count in counted.most_common()]
    return more + _rows(("topic", "reason", "letters"), rows)


def _columns(history: RunHistory) -> str:
    columns = history.columns
    if columns is None:
        return ""
    changes = [
        ("not known" if one.time is None else _time(one.time), one.words)
        for one in reversed(history.schema_changes)
    ]
    words = (
        f"{_count(len(columns), 'column')}; {_count(len(changes), 'change')} in the runs that are known."
        if changes
        else f"{_count(len(columns), 'column')}, the same in all runs that are known."
    )
    body = (_rows(("time", "change"), changes) if changes else "") + _rows(
        ("column", "type"), columns.items()
    )
    return _section("Columns", words, body)


def _tables(pipeline: Pipeline, now: PipelineStanding, history: RunHistory) -> str:
    """The tables and their files; of many also which rows each has got."""
    if not now.tables:
        return ""
    many = pipeline.sink.route is not None
    heads = ("table", "files", "small", "size", *(("rows", "last rows") if many else ()))
    rows = [
        (
            one.where,
            _number(one.files),
            _number(one.small),
            _bytes(one.bytes),
            *(
                (
                    _number(history.rows_by_table.get(one.where)),
                    _time(history.last_rows[one.where]) if one.where in history.last_rows else "not known",
                )
                if many
                else ()
            ),
        )
        for one in sorted(now.tables, key=lambda one: -one.small)
    ]
    words = "A small file is less than half of what barnabas pipeline compact makes." + (
        " Rows are those that the events have." if many else ""
    )
    return _table("Tables" if many else "Files", words, heads, rows)


def _restarts(history: RunHistory) -> str:
    if not history.restarts:
        return ""
    rows = [(_time(one.time), one.reason) for one in reversed(history.restarts)]
    words = f"A query was started again {_count(history.restarts_seen, 'time')}."
    return _table("Restarts", words, ("time", "reason"), rows)


def _runs(history: RunHistory, *, running: bool) -> str:
    if not history.runs:
        return ""
    heads = (
        "started", "last event", "state", "batches", "records", "rows", "letters", "dropped", "restarts",
        "reason",
    )  # fmt: skip
    newest = history.runs[-1]
    rows = [
        (*_run(one, "running" if running and one is newest else one.state), one.reason or "")
        for one in reversed(history.runs)
    ]
    return _table("Runs", f"{_count(history.runs_seen, 'run')}.", heads, rows)


def _run(run: PipelineRun, state: str) -> tuple[str, ...]:
    names = ("batches", "records_read", "rows_written", "letters", "rows_dropped", "restarts")
    return (
        "before" if run.started is None else _time(run.started),
        _time(run.last),
        state,
        *(_number(run.figures.get(name)) for name in names),
    )


def _table(title: str, words: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return _section(title, words, _rows(heads, rows)) if rows else ""


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML, of at most so many rows."""
    rows = list(rows)
    left = len(rows) - _ROWS
    more = f"<p>{left:,} more are not shown.</p>" if left > 0 else ""
    numeric = [
        ' class="n"' * all(_NUMERIC.fullmatch(text) for text in column) for column in zip(*rows, strict=True)
    ]
    head = "".join(f"<th{kind}>{escape(one)}</th>" for kind, one in zip(numeric, heads, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(text)}</td>" for kind, text in zip(numeric, row, strict=True))
        + "</tr>"
        for row in rows[:_ROWS]
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>{more}'


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + "s" * (number != 1)


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.1f} s"


def _bytes(value: int | None) -> str:
    """In units of 1,024."""
    if value is None:
        return "not known"
    size, unit = float(value), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.1f} {_UNITS[unit]}" if unit else f"{value:,} B"


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"

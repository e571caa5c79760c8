"""``barnabas pipeline``: topics into tables by PySpark, from a TOML file."""

import dataclasses
import datetime as dt
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.bootstrap import asks, bootstrap_option
from barnabas.cli.facts import json_option, plain, print_facts
from barnabas.cli.options import api_limits, api_timeout_option, file_option, properties
from barnabas.core.errors import BarnabasError
from barnabas.core.extras import extra

if TYPE_CHECKING:
    from barnabas.spark.pipeline.file.settings import Pipeline
    from barnabas.spark.pipeline.reports.schema_report import SchemaReport
    from barnabas.spark.pipeline.reports.status import PipelineStatus
    from barnabas.spark.pipeline.running.trial import Trial

_SIZE_MAX = 1 << 40
_INTERRUPTED = 130
FILE = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


class _OneLine(click.Group):
    """A group whose commands say in one line what the system refuses."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.filename is None:
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error


@click.group(cls=_OneLine)
def pipeline() -> None:
    """Topics into tables: one TOML file names the source, the transformation and the table.

    Each batch is appended once, however often the process is killed. docs/pipeline.md has all keys.
    Needs the extra "spark" (PySpark) and Java 17, or the extra "jvm".

    \b
    Examples:
      barnabas pipeline init flights.toml --topic flights --bootstrap-server 127.0.0.1:9092
      barnabas pipeline check flights.toml
      barnabas pipeline run flights.toml
      barnabas pipeline try flights.toml
      barnabas pipeline schema flights.toml
      barnabas pipeline status flights.toml
      barnabas pipeline report flights.toml --output flights.html
      barnabas pipeline compact flights.toml
      barnabas pipeline replay flights.toml
      barnabas pipeline rewind flights.toml --to 2026-11-01T00:00:00Z
    """


@pipeline.command()
@FILE
@click.option("--topic", "-t", metavar="NAME", required=True, help="The topic to look at.")
@bootstrap_option(required=True)
@click.option("--sink", type=click.Choice(["parquet", "delta", "iceberg"]), help="The kind of the table.")
@click.option(
    "--mode",
    type=click.Choice(["append", "merge", "history"]),
    help="Whether rows are added or change those of their key.  [default: append, of changes merge]",
)
@click.option("--key", "keys", multiple=True, metavar="COLUMN", help="A column of the key; repeatable.")
@click.option(
    "--records",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="How many are looked at.",
)
@click.option("--registry", metavar="URL", help="The schema registry of values that have its frame.")
@file_option("--command-config", "config_file", "Options of the consumer, from a file.")
@api_timeout_option(10_000)
def init(
    file: Path,
    topic: str,
    bootstrap_server: str,
    sink: str | None,
    mode: str | None,
    keys: tuple[str, ...],
    records: int,
    registry: str | None,
    config_file: Path | None,
) -> None:
    """Write FILE from what a topic has: its format, columns and key are guessed from the newest records.

    The file runs as it stands; its comments say what else there is. No Spark is started.

    \b
    Examples:
      barnabas pipeline init flights.toml --topic flights --bootstrap-server 127.0.0.1:9092
      barnabas pipeline init users.toml --topic db.users --sink iceberg --bootstrap-server 127.0.0.1:9092
    """
    _modules()
    from barnabas.spark.pipeline.drafts import draft as drafts
    from barnabas.spark.pipeline.drafts import text

    if file.exists():
        raise click.ClickException(f"{file} is there already: remove it, or give another name")
    asks(bootstrap_server)
    client = {"bootstrap.servers": bootstrap_server, **properties(config_file)}
    limits = {key: str(value) for key, value in api_limits().items()}
    found = drafts.look({**client, **limits}, topic, records, registry or "")
    whole = text.text(found, text.TableChoice(sink or "", mode or "", keys), client)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(whole)
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    what = "changes of a database in JSON" if found.debezium else found.kind
    click.echo(
        f"{file}: {topic} has {what}, by {found.records:,} records; next: barnabas pipeline try {file}"
    )


@pipeline.command()
@FILE
def check(file: Path) -> None:
    """Say what is wrong with FILE, or which columns its table gets; no broker is asked.

    \b
    Example:
      barnabas pipeline check flights.toml
    """
    settings, supervisor = _modules()
    from barnabas.spark.pipeline.many_tables import topic_tables

    found = settings.load(file)
    topics = topic_tables.each(found, ask=False)
    with supervisor.session(found) as spark:
        columns = [(topic, supervisor.check(spark, one)) for topic, one in topics]
    for topic, table in columns:
        if topic:
            click.echo(f"{topic}:")
        for field in table.fields:
            click.echo(f"{field.name} {field.dataType.simpleString()}")


@pipeline.command()
@FILE
@click.option(
    "--records", default=100, show_default=True, type=click.IntRange(1, 100_000), help="How many are read."
)
@json_option
def schema(file: Path, records: int, as_json: bool) -> None:
    """Show what the newest records of FILE hold, and what the table would become. Nothing is written.

    Of each column: its type in the table, in the rows and then. + is new, ~ becomes wider, ! is refused; the
    exit code is 1 where one is refused.

    \b
    Example:
      barnabas pipeline schema flights.toml
    """
    settings, supervisor = _modules()
    from barnabas.spark.pipeline.many_tables import topic_tables
    from barnabas.spark.pipeline.reports import schema_report

    found = settings.load(file)
    topics = topic_tables.each(found, ask=True)
    with supervisor.session(found) as spark:
        told = {topic: schema_report.report(spark, one, records) for topic, one in topics}
    if as_json:
        facts = {topic: _schema_facts(one) for topic, one in told.items()}
        print_facts(facts.get("") or {"topics": facts})
    else:
        for topic, one in told.items():
            _show_schema(topic or found.name, one)
    refused = [one.refused for one in told.values() if one.refused is not None]
    for words in refused:
        click.echo(f"refused: {words}", err=True)
    if refused:
        raise click.exceptions.Exit(1)


def _schema_facts(told: "SchemaReport") -> dict[str, Any]:
    return {
        "readsBy": told.reads_by,
        "values": told.values,
        "columns": [{**plain(one), "sign": one.sign.strip()} for one in told.columns],
        "refused": told.refused,
    }


def _show_schema(name: str, told: "SchemaReport") -> None:
    click.echo(f"{name}: read by {told.reads_by}")
    for words, count in told.values.items():
        click.echo(f"  {count:,} of the newest values: {words}")
    for one in told.columns:
        click.echo(f"{one.sign} {one.name}: {_widening(one.in_table, one.in_rows, one.becomes)}")


def _widening(in_table: str | None, in_rows: str | None, becomes: str | None) -> str:
    if becomes is None:
        return f"{in_table} in the table, {in_rows} in the rows"
    return becomes if in_table in {None, becomes} else f"{in_table} becomes {becomes}"


@pipeline.command()
@FILE
@click.option(
    "--once", is_flag=True, help="End with what the topics have now, also where the trigger is a time."
)
@click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page about the pipeline there when the run has ended or failed.",
)
def run(file: Path, once: bool, page: Path | None) -> None:
    """Run the pipeline of FILE: to the end of its topics, or until SIGTERM or Ctrl-C where its trigger is a
    time.

    The exit code is 0 at the end, also behind SIGTERM, 130 behind Ctrl-C, and 1 where it fails, with a line.

    \b
    Examples:
      barnabas pipeline run flights.toml
      barnabas pipeline run flights.toml --once --report flights.html
    """
    settings, supervisor = _modules()
    from rich.console import Console

    found = settings.load(file)
    if once and "processingTime" in found.trigger:
        found = dataclasses.replace(found, trigger={"availableNow": True})
    stop, interrupts = threading.Event(), 0

    def interrupted(*_: object) -> None:
        """The first Ctrl-C ends the run in order, as SIGTERM does; the second one at once."""
        nonlocal interrupts
        interrupts += 1
        stop.set()
        if interrupts > 1:
            os._exit(_INTERRUPTED)  # as a kill: an exception in a call of the JVM's is a traceback

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        with supervisor.session(found) as spark:
            # Spark has set a handler of its own, which talks to the JVM in the middle of another call.
            signal.signal(signal.SIGINT, interrupted)
            outcome = supervisor.run(spark, found, Console(stderr=True), stop)
    except BarnabasError:
        if page is not None:
            try:
                _write_page(found, page)
            except (BarnabasError, click.ClickException) as error:  # why the run has failed says more
                click.echo(f"{found.name}: no page: {error}", err=True)
        raise
    if page is not None:
        _write_page(found, page)
    click.echo(
        f"{found.name}: {outcome.records_read:,} records read, {outcome.rows_written:,} rows written "
        f"in {outcome.batches:,} batches, {outcome.restarts} restarts"
        + (f", {outcome.letters:,} dead letters" if found.letters is not None else "")
        + (f", {outcome.rows_dropped:,} rows dropped" if outcome.rows_dropped else "")
    )
    if interrupts:
        raise click.exceptions.Exit(_INTERRUPTED)


@pipeline.command("try")
@FILE
@click.option(
    "--records", default=100, show_default=True, type=click.IntRange(1, 100_000), help="How many are read."
)
def try_(file: Path, records: int) -> None:
    """Show what the newest records become by FILE: columns, rows and what does not fit. Nothing is written.

    \b
    Example:
      barnabas pipeline try flights.toml
    """
    settings, supervisor = _modules()
    from barnabas.spark.pipeline.many_tables import topic_tables
    from barnabas.spark.pipeline.running import trial

    found = settings.load(file)
    topics = topic_tables.each(found, ask=True)
    with supervisor.session(found) as spark:
        for topic, one in topics:
            try:
                _show_trial(topic or found.name, trial.attempt(spark, one, records))
            except trial.NoRecordsError:
                if not topic:
                    raise
                click.echo(f"{topic}: no records yet")


def _show_trial(name: str, tried: "Trial") -> None:
    for field in tried.columns.fields:
        click.echo(f"{field.name} {field.dataType.simpleString()}")
    for row in tried.rows:
        click.echo(row)
    for reject in tried.rejects:
        click.echo(f"does not fit: {reject}")
    click.echo(
        f"{name}: {tried.records:,} records read, {len(tried.rows):,} rows, "
        f"{len(tried.rejects):,} that do not fit"
    )


@pipeline.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(dir_okay=False, path_type=Path)
)
@json_option
@click.option("--max-lag", type=click.IntRange(0), help="Exit code 1 with a lag of more records.")
@click.option("--max-age", type=click.FloatRange(0), help="Exit code 1 with an older last batch; in seconds.")
def status(files: tuple[Path, ...], as_json: bool, max_lag: int | None, max_age: float | None) -> None:
    """Say how pipelines stand: state, lag, last batch, files. No Spark is started.

    The exit code is 1 where one has failed or was killed, or is beyond a limit given here.

    \b
    Example:
      barnabas pipeline status flights.toml --max-lag 100000 --json
    """
    settings, _ = _modules()
    from barnabas.spark.pipeline.reports import status as standing

    found = [standing.status(settings.load(file)) for file in files]
    told = {one.name: standing.problems(one, lag_max=max_lag, age_max_s=max_age) for one in found}
    if as_json:
        print_facts({"pipelines": [{**plain(one), "problems": told[one.name]} for one in found]})
    else:
        for one in found:
            for line in _lines(one, told[one.name]):
                click.echo(line)
    if any(told.values()):
        raise click.exceptions.Exit(1)


def _lines(found: "PipelineStatus", problems: list[str]) -> Iterator[str]:
    """How a pipeline stands, for people."""

    def number(value: float | None, unit: str = "") -> str:
        return "not known" if value is None else f"{value:,}{unit}"

    yield f"{found.name}: {found.state}" + (f" ({found.reason})" if found.reason else "")
    if found.batch is not None:
        yield f"  batch {found.batch:,} ended at {found.batch_time}, {number(found.records_per_s)} records/s"
        behind = f" ({found.lag_error})" if found.lag_error else f", {number(found.lag_s, ' s')}"
        yield f"  lag {number(found.lag_records, ' records')}{behind}"
    if found.records_read is not None:
        yield (
            f"  last run: {found.records_read:,} records read, {number(found.rows_written)} rows written, "
            f"{number(found.letters)} dead letters, {number(found.rows_dropped)} rows dropped, "
            f"{number(found.restarts)} restarts"
        )
    if found.files is not None:
        small = f"{number(found.small_files)} of them small"
        yield f"  {found.files:,} files, {small}, {number(found.bytes)} bytes"
    for problem in problems:
        yield f"  problem: {problem}"


@pipeline.command()
@FILE
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the page is written.  [default: NAME.html]",
)
def report(file: Path, output: Path | None) -> None:
    """Write a page on how FILE runs: batches, lag, dead letters, rules, columns, files, restarts, runs. No
    Spark is started.

    It is one HTML file that needs nothing else. With `events` in FILE it has all runs, else the last hundred
    batches or so.

    \b
    Example:
      barnabas pipeline report flights.toml --output flights.html
    """
    settings, _ = _modules()
    found = settings.load(file)
    page = output or Path(f"{found.name}.html")
    _write_page(found, page)
    click.echo(f"{found.name}: {page}")


def _write_page(found: "Pipeline", page: Path) -> None:
    """Writes the page about a pipeline."""
    from barnabas.spark.pipeline.reports import report as reporting

    text = reporting.page(found)
    try:
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{page}: {error.strerror}") from None


@pipeline.command()
@FILE
def replay(file: Path) -> None:
    """Send the dead letters of FILE to the topics that they came from, those that were not sent yet.

    \b
    Example:
      barnabas pipeline replay flights.toml
    """
    settings, _ = _modules()
    from barnabas.spark.pipeline.dead_letters import replay as replaying

    found = settings.load(file)
    click.echo(f"{found.name}: {replaying.replay(found):,} records sent again")


def _time(_context: click.Context, _option: click.Parameter, text: str) -> dt.datetime:
    """A time, in UTC unless it says otherwise."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} must be a time such as 2026-11-01T00:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


@pipeline.command()
@FILE
@click.option(
    "--to",
    required=True,
    metavar="TIME",
    callback=_time,
    help="Such as 2026-11-01T00:00:00Z; in UTC unless given.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and take nothing back.")
def rewind(file: Path, to: dt.datetime, dry_run: bool) -> None:
    """Take back what FILE has done since a time: the next run does it again, into the same table.

    It begins with the batch that has the first record of that time or later, so a few older ones are done
    again too. No Spark is started; the pipeline must not run.

    \b
    Example:
      barnabas pipeline rewind flights.toml --to 2026-11-01T00:00:00Z
    """
    settings, _ = _modules()
    from barnabas.spark.pipeline.running import rewind as rewinding

    found = settings.load(file)
    done = rewinding.rewind(found, to, dry_run=dry_run)
    if done.first is None:
        click.echo(f"{found.name}: no record that was read is of that time or later")
    else:
        click.echo(
            f"{found.name}: {'would take' if dry_run else 'took'} back {done.batches:,} batches from "
            f"{done.first:,} on; {done.records:,} offsets are read again"
        )


def _size(_context: click.Context, _option: click.Parameter, text: str) -> int:
    """Bytes of a text such as 128m."""
    given = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    size = int(given[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[given[2]] if given else 0
    if not 0 < size <= _SIZE_MAX:
        raise click.BadParameter(f"{text!r} must be a size such as 128m or 1g, and at most 1024g")
    return size


@pipeline.command()
@FILE
@click.option(
    "--target-size", default="128m", show_default=True, callback=_size, help="How large files become."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and merge nothing.")
def compact(file: Path, target_size: int, dry_run: bool) -> None:
    """Make large files of the small ones in the table of FILE. No Spark is started; the pipeline must not
    run.

    \b
    Example:
      barnabas pipeline compact flights.toml --target-size 256m
    """
    settings, _ = _modules()
    from rich.console import Console
    from rich.markup import escape

    from barnabas.spark.pipeline.sinks import sink

    found = settings.load(file)
    with Console(stderr=True).status(f"{escape(found.name)}: reading the table") as status:

        def step(done: int, merging: int) -> None:
            status.update(f"{escape(found.name)}: {done:,} of {merging:,} files merged")

        result = sink.compact(found.sink, target_size, step, dry_run=dry_run)
    after = "" if result.bytes_after is None else f" to {result.bytes_after:,}"
    click.echo(
        f"{found.name}: {'would make ' if dry_run else ''}{result.files_before:,} files into "
        f"{result.files_after:,}, "
        f"{result.bytes_before:,} bytes{after}, in {result.folders:,} folders"
    )


def _modules() -> tuple[ModuleType, ModuleType]:
    with extra("spark", "a pipeline"):
        from barnabas.spark.pipeline.file import settings
        from barnabas.spark.pipeline.running import supervisor
    return settings, supervisor

"""``barnabas pipeline``: topics into tables by PySpark, from a TOML file."""

import re
import signal
import threading
from pathlib import Path
from types import ModuleType

import click

from barnabas.core.extras import extra

_SIZE_MAX = 1 << 40
FILE = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.group()
def pipeline() -> None:
    """Topics into tables: one TOML file names the source, the transformation and the table.

    Each batch is appended once, however often the process is killed. docs/pipeline.md has all keys.
    Needs the extra "spark" (PySpark) and Java 17, or the extra "jvm".

    \b
    Examples:
      barnabas pipeline check flights.toml
      barnabas pipeline run flights.toml
      barnabas pipeline compact flights.toml
      barnabas pipeline replay flights.toml
    """


@pipeline.command()
@FILE
def check(file: Path) -> None:
    """Say what is wrong with FILE, or which columns its table gets; no broker is asked.

    \b
    Example:
      barnabas pipeline check flights.toml
    """
    settings, supervisor = _modules()
    found = settings.load(file)
    with supervisor.session(found) as spark:
        columns = supervisor.check(spark, found)
    for field in columns.fields:
        click.echo(f"{field.name} {field.dataType.simpleString()}")


@pipeline.command()
@FILE
def run(file: Path) -> None:
    """Run the pipeline of FILE: to the end of its topics, or until SIGTERM or Ctrl-C where its trigger is a
    time.

    \b
    Example:
      barnabas pipeline run flights.toml
    """
    settings, supervisor = _modules()
    from rich.console import Console

    found = settings.load(file)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with supervisor.session(found) as spark:
        outcome = supervisor.run(spark, found, Console(stderr=True), stop)
    click.echo(
        f"{found.name}: {outcome.records_read:,} records read, {outcome.rows_written:,} rows written "
        f"in {outcome.batches:,} batches, {outcome.restarts} restarts"
        + (f", {outcome.letters:,} dead letters" if found.letters is not None else "")
        + (f", {outcome.rows_dropped:,} rows dropped" if outcome.rows_dropped else "")
    )


@pipeline.command()
@FILE
def replay(file: Path) -> None:
    """Send the dead letters of FILE to the topics that they came from, those that were not sent yet.

    \b
    Example:
      barnabas pipeline replay flights.toml
    """
    settings, _ = _modules()
    from barnabas.spark.pipeline import replay as replaying

    found = settings.load(file)
    click.echo(f"{found.name}: {replaying.replay(found):,} records sent again")


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

    from barnabas.spark.pipeline import sink

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
        from barnabas.spark.pipeline import settings, supervisor
    return settings, supervisor

"""``barnabas pipeline``: topics into tables by PySpark, from a TOML file."""

import signal
import threading
from pathlib import Path
from types import ModuleType

import click

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
    """Run the pipeline of FILE: to the end of its topics, or until SIGTERM or Ctrl-C where its trigger is a time.

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
    )


def _modules() -> tuple[ModuleType, ModuleType]:
    try:
        from barnabas.spark.pipeline import settings, supervisor
    except ImportError as error:
        raise click.ClickException(
            f"a pipeline needs packages that are not here ({error.name}): pip install 'barnabas[spark]'"
        ) from error
    return settings, supervisor

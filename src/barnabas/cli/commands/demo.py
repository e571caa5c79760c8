"""``barnabas demo``: a year of flights through a broker and PySpark, checked, and a report to look at."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.options import api_limits, api_timeout_option
from barnabas.core.extras import extra

if TYPE_CHECKING:
    from barnabas.spark.demo.run import DemoOutcome


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("barnabas-demo"),
    show_default=True,
    help="Folder for the report, the Parquet table and Spark's log.",
)
@click.option("--bootstrap-server", help="Use this cluster instead of starting a broker.")
@click.option(
    "--keep",
    is_flag=True,
    help="Leave the broker running, say how to use it, and open the console (extra console).",
)
@click.option("--flights", type=click.IntRange(min=1000), help="Only the first flights of the year.")
@api_timeout_option()
def demo(out: Path, bootstrap_server: str | None, keep: bool, flights: int | None) -> None:
    """Replay a year of flights through a broker and PySpark.

    Starts a broker, sends it the 336,776 flights that left New York in 2013, reads them with structured
    streaming as they come, joins weather and airlines, writes a Parquet table and an alerts topic, asks which
    routes lose most minutes, checks every count against pandas, and leaves an HTML report. On the way one
    stream is ended in the middle of a batch and started again: no row is lost or doubled.

    Needs the extra "demo" (PySpark) and Java 17, or the extra "jvm".

    \b
    Examples:
      barnabas demo
      barnabas demo --keep
      barnabas demo --bootstrap-server 127.0.0.1:9092 --flights 50000
    """
    with extra("demo", "the demo", "pyarrow"):
        from barnabas.spark.demo.run import Settings, run
    from rich.console import Console

    from barnabas.client.config import ADMIN_CONFIG

    limits = {key: value for key, value in api_limits().items() if key in ADMIN_CONFIG}
    outcome = run(Settings(out, bootstrap_server, keep, flights, limits), Console())
    click.echo(f"\nReport: {outcome.report.resolve()}\nTable:  {outcome.table.resolve()}")
    if keep:
        click.echo(_how_to_go_on(outcome))
        # A script goes on; a person looks.
        if sys.stdout.isatty() and outcome.run.address is not None and find_spec("fastapi") is not None:
            from barnabas.cli.commands.console import console

            store = ["--store", str(out.resolve() / "broker")] if outcome.run.broker else []
            click.echo("\nThe console opens now; Ctrl-C ends it, the broker stays.")
            console.main(["--bootstrap-server", outcome.run.address, *store], standalone_mode=False)


def _how_to_go_on(outcome: "DemoOutcome") -> str:
    from barnabas.spark.demo.next_steps import next_steps

    steps = "\n".join(f"  {command}" for _, command in next_steps(outcome.run))
    stop = f"\n\nEnd the broker: kill {outcome.broker.pid}" if outcome.broker else ""
    return f"\nThe broker is still there. Try:\n{steps}{stop}"

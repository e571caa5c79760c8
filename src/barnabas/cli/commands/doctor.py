"""``barnabas doctor``: what on this machine, or at a cluster's addresses, will not work.
No script of Kafka's does this.
"""

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.bootstrap import DEFAULT, VARIABLE, bootstrap_option
from barnabas.cli.facts import json_option, print_facts
from barnabas.cli.options import admin_options, command_config_option, timeout_option
from barnabas.cli.printing import printable

if TYPE_CHECKING:
    from barnabas.operations.machine_checks import Diagnosis

_COLORS: Final = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command()
@bootstrap_option(has_default=False)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("barnabas-data"),
    show_default=True,
    help="The folder that a broker here is to have.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address that it is to listen on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=9092,
    show_default=True,
    help="The port that it is to have.",
)
@json_option
@command_config_option
@timeout_option("How long the cluster may take to answer, in milliseconds.")
@click.pass_context
def doctor(
    ctx: click.Context,
    bootstrap_server: str | None,
    data: Path,
    host: str,
    port: int,
    as_json: bool,
    command_config: Path | None,
    timeout_ms: int,
) -> None:
    """Look for what will not work here, and say what to do: one line for each thing.

    Of the machine: Python, Java (which Spark alone needs), the limit of open files, memory, the folder for
    the data and its file system, the port, the clock. With --bootstrap-server also of a cluster: who answers
    there, every broker at the address that it advertises, like which Kafka it answers, partitions without a
    leader.

    Exit code 0 where nothing is wrong (warnings are not), 1 otherwise.

    \b
    Examples:
      barnabas doctor
      barnabas doctor --data /var/lib/barnabas --port 9092
      barnabas doctor --bootstrap-server kafka1:9092 --command-config client.properties
      barnabas doctor --json
    """
    from barnabas.operations import address_checks, machine_checks

    found = [*machine_checks.of_machine(data), _java(), address_checks.port(host, port)]
    if bootstrap_server is None:
        said = f"neither -b nor {VARIABLE} names brokers, so none is asked; other tools ask {DEFAULT} then"
        found.append(machine_checks.Diagnosis("bootstrap", machine_checks.Rating.OK, said))
    else:
        options = admin_options(command_config, bootstrap_server, "barnabas-doctor")
        found += asyncio.run(address_checks.of_cluster(options, timeout_ms))
    healthy = all(each.rating is not machine_checks.Rating.ERROR for each in found)
    if as_json:
        print_facts({"healthy": healthy, "diagnoses": found})
    else:
        for each in found:
            _print(each.rating.value, each.check, each.found, each.advice)
    if not healthy:
        ctx.exit(1)


def _java() -> "Diagnosis":
    """Which Java Spark would find; brokers, clients and tools need none."""
    from barnabas.operations.machine_checks import Diagnosis, Rating
    from barnabas.spark.java import JavaNotFoundError, java_home, version_of

    if find_spec("pyspark") is None:
        return Diagnosis("java", Rating.OK, "only Spark needs one, and PySpark is not installed")
    try:
        home = java_home()
    except JavaNotFoundError as error:
        found, _, advice = str(error).partition(": ")
        return Diagnosis("java", Rating.WARNING, found, advice)
    version = version_of(home)
    return Diagnosis("java", Rating.OK, f"{home}{'' if version is None else f', Java {version}'}, for Spark")


def _print(rating: str, check: str, found: str, advice: str | None) -> None:
    word = f"{rating:<8}"
    if sys.stdout.isatty():
        word = click.style(word, fg=_COLORS[rating])
    click.echo(f"{word}{check:<13}{printable(found)}" + ("" if advice is None else f": {printable(advice)}"))

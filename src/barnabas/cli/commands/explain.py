"""``barnabas explain``: how Kafka comes to its decisions, on a live cluster. No script of Kafka's does this."""

import asyncio
from pathlib import Path

import click

from barnabas.cli.options import admin_options, bootstrap_option, command_config_option, connected_admin


@click.group()
def explain() -> None:
    """Explain what a live cluster, of any vendor, decides and why.

    \b
    Examples:
      barnabas explain coordinator billing --bootstrap-server 127.0.0.1:9092
      barnabas explain coordinator payments-1 --type transaction --bootstrap-server 127.0.0.1:9092
    """


@explain.command()
@click.argument("key", metavar="GROUP")
@bootstrap_option(required=True)
@click.option(
    "--type",
    "kind",
    type=click.Choice(["group", "transaction"]),
    default="group",
    show_default=True,
    help="Whether GROUP is a group or a transactional id.",
)
@click.option("--create", is_flag=True, help="Ask even when that creates the internal topic.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@command_config_option
@click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="How long a request to the cluster may take, in milliseconds.",
)
@click.pass_context
def coordinator(
    ctx: click.Context,
    key: str,
    bootstrap_server: str,
    kind: str,
    create: bool,
    as_json: bool,
    command_config: Path | None,
    timeout_ms: int,
) -> None:
    """Print the stations from a group's name to its coordinator's endpoint.

    They are: the hash of the name, the number of partitions of the internal topic, the partition, its leader and
    where the leader can be reached as the cluster's metadata says, and what FindCoordinator answers. Where the
    two differ, the last line says so.

    A broker that gets a FindCoordinator creates the internal topic if it is not there. This command looks first,
    in a way that creates nothing, and asks no broker while the topic does not exist, except with --create.

    Exit code 1 when belief and answer differ or the broker names no coordinator, 0 otherwise.

    \b
    Examples:
      barnabas explain coordinator billing --bootstrap-server 127.0.0.1:9092
      barnabas explain coordinator billing --json --bootstrap-server 127.0.0.1:9092
      barnabas explain coordinator payments-1 --type transaction --create --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.admin import CoordinatorType
    from barnabas.cli.coordinator_report import print_stations
    from barnabas.cli.coordinator_stations import Stations, Verdict, visit

    options = admin_options(command_config, bootstrap_server, "barnabas-explain")

    async def look() -> Stations:
        async with connected_admin(options, timeout_ms) as admin:
            wanted = CoordinatorType[kind.upper()]
            return await visit(admin, key, wanted, create=create, timeout_ms=timeout_ms)

    stations = asyncio.run(look())
    print_stations(stations, as_json=as_json)
    if stations.verdict in {Verdict.DIFFER, Verdict.REFUSED}:
        ctx.exit(1)

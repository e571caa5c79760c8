"""``barnabas status``: the brokers of a cluster at a glance. No script of Kafka's does this."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, plain, print_facts
from barnabas.cli.options import admin_options, command_config_option, connected_admin, timeout_option
from barnabas.cli.printing import printable

if TYPE_CHECKING:
    from barnabas.operations.cluster_status import BrokerStatus, ClusterStatus

_HEADINGS: Final = ("broker", "address", "rack", "leads", "replicas", "behind", "lag", "bytes", "pid", "core")


@click.command()
@bootstrap_option(required=True)
@json_option
@command_config_option
@timeout_option()
def status(bootstrap_server: str, as_json: bool, command_config: Path | None, timeout_ms: int) -> None:
    """Print a line for each broker: what it leads and holds, how many of its replicas are behind and by how
    many records, its bytes on the disk. Of a broker on this machine also its process, and the share of a core
    that it takes now.

    The controller has a star. A broker that is down is not in the metadata: the line at the end counts the
    partitions that it leaves without a leader, or with fewer copies.

    \b
    Examples:
      barnabas status --bootstrap-server 127.0.0.1:9092
      barnabas status --json --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.operations.cluster_status import look

    options = admin_options(command_config, bootstrap_server, "barnabas-status")

    async def looked() -> "ClusterStatus":
        async with connected_admin(options, timeout_ms) as admin:
            return await look(admin, timeout_ms)

    found = asyncio.run(looked())
    if as_json:
        print_facts(plain(found))
    else:
        _print(found)


def _print(found: "ClusterStatus") -> None:
    rows = [_HEADINGS, *(_row(each) for each in found.brokers)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(printable(line.rstrip()))
    for each in found.brokers:
        if each.error is not None:
            click.echo(printable(f"broker {each.broker.node_id} does not answer: {each.error}"))
    click.echo(
        f"{found.topics} topics, {found.partitions} partitions: {found.leaderless} without a leader, "
        f"{found.under_replicated} with replicas out of sync"
    )


def _row(one: "BrokerStatus") -> tuple[str, ...]:
    broker = one.broker
    share = one.processor_share
    return (
        f"{broker.node_id}{'*' if one.is_controller else ''}",
        f"{broker.host}:{broker.port}",
        broker.rack or "-",
        str(one.leads),
        str(one.replicas),
        str(one.out_of_sync),
        *("-" if value is None else str(value) for value in (one.lag, one.size_bytes, one.pid)),
        "-" if share is None else f"{share:.0%}",
    )

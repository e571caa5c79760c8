"""``barnabas cluster``: kafka-cluster.sh."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from barnabas.cli.options import ToolError, admin_options, connected_admin, file_option
from barnabas.core.errors import BarnabasError

_bootstrap = click.option(
    "--bootstrap-server", "-b", metavar="HOST:PORT", required=True, help="The brokers to connect to first."
)
_config = file_option("--config", "config", "Options of the admin client.")


@click.group()
def cluster() -> None:
    """Show the id of a cluster, or take a broker out of it that is gone.

    \b
    Examples:
      barnabas cluster cluster-id --bootstrap-server 127.0.0.1:9092
    """


@cluster.command("cluster-id")
@_bootstrap
@_config
def cluster_id(bootstrap_server: str, config: Path | None) -> None:
    """Print the id of the cluster."""
    _run(_cluster_id(bootstrap_server, config))


@cluster.command("unregister")
@_bootstrap
@_config
@click.option("--id", "-i", "broker", type=int, required=True, metavar="ID", help="The broker's id.")
def unregister(bootstrap_server: str, config: Path | None, broker: int) -> None:
    """Take a broker out of the cluster; only clusters with KRaft know that."""
    _run(_unregister(bootstrap_server, config, broker))


def _run(work: Coroutine[Any, Any, str]) -> None:
    try:
        click.echo(asyncio.run(work))
    except BarnabasError as error:
        from barnabas.cli.java_errors import EXECUTION, java_text

        raise ToolError(EXECUTION + java_text(error)) from error


async def _cluster_id(bootstrap: str, config: Path | None) -> str:
    async with connected_admin(admin_options(config, bootstrap, "barnabas-cluster")) as admin:
        found = (await admin.cluster.describe()).cluster_id
    return f"Cluster ID: {found}" if found else "No cluster ID found. The Kafka version is probably too old."


async def _unregister(bootstrap: str, config: Path | None, broker: int) -> str:
    from barnabas.network.errors import UnsupportedVersionError

    async with connected_admin(admin_options(config, bootstrap, "barnabas-cluster")) as admin:
        try:
            await admin.cluster.unregister_broker(broker)
        except UnsupportedVersionError:
            return "The target cluster does not support the broker unregistration API."
    return f"Broker {broker} is no longer registered."

"""``barnabas cluster``: kafka-cluster.sh."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, plain, print_facts
from barnabas.cli.options import (
    OldName,
    ToolCommand,
    ToolError,
    admin_options,
    api_timeout_option,
    connected_admin,
    file_option,
)
from barnabas.core.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.admin.types import Endpoint

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_HOST: Final = 100
_RACK: Final = 10
"""Columns of a table without such values."""
_config = file_option("--command-config", "config", "Options of the admin client.", OldName("--config"))


def _bootstrap(command: F) -> F:
    return bootstrap_option(required=True, changes=["unregister"])(api_timeout_option()(command))


@click.group()
def cluster() -> None:
    """Show the id, the endpoints and the API versions of a cluster, or take a broker out of it that is gone.

    \b
    Examples:
      barnabas cluster cluster-id --bootstrap-server 127.0.0.1:9092
    """


@cluster.command("cluster-id", cls=ToolCommand)
@_bootstrap
@_config
@json_option
def cluster_id(bootstrap_server: str, config: Path | None, as_json: bool) -> None:
    """Print the id of the cluster."""
    found = _run(_cluster_id(bootstrap_server, config))
    if as_json:
        print_facts({"cluster_id": found or None})
    elif found:
        click.echo(f"Cluster ID: {found}")
    else:
        click.echo("No cluster ID found. The Kafka version is probably too old.")


@cluster.command("list-endpoints", cls=ToolCommand)
@_bootstrap
@_config
@click.option(
    "--include-fenced-brokers", "fenced", is_flag=True, help="Show brokers that may not serve, too."
)
@json_option
def list_endpoints(bootstrap_server: str, config: Path | None, fenced: bool, as_json: bool) -> None:
    """Print where each broker is reached."""
    found = _run(_endpoints(bootstrap_server, config, fenced=fenced))
    if as_json:
        rows = [
            {**plain(one.node), "is_fenced": one.is_fenced, "is_controller": one.is_controller}
            for one in found
        ]
        print_facts({"endpoints": rows})
    else:
        click.echo(_endpoint_lines(found))


@cluster.command("api-versions", cls=ToolCommand)
@_bootstrap
@_config
@json_option
def api_versions(bootstrap_server: str, config: Path | None, as_json: bool) -> None:
    """Print which versions of which APIs each broker serves, as broker-api-versions does (KIP-1220)."""
    from barnabas.cli.commands.broker_api_versions import print_versions, versions_of_brokers

    print_versions(_run(versions_of_brokers(bootstrap_server, config)), as_json=as_json)


@cluster.command("unregister", cls=ToolCommand)
@_bootstrap
@_config
@click.option("--id", "-i", "broker", type=int, required=True, metavar="ID", help="The broker's id.")
def unregister(bootstrap_server: str, config: Path | None, broker: int) -> None:
    """Take a broker out of the cluster; only clusters with KRaft know that."""
    click.echo(_run(_unregister(bootstrap_server, config, broker)))


def _run(work: Coroutine[Any, Any, R]) -> R:
    try:
        return asyncio.run(work)
    except BarnabasError as error:
        from barnabas.cli.java_errors import EXECUTION, java_text

        raise ToolError(EXECUTION + java_text(error)) from error


async def _cluster_id(bootstrap: str, config: Path | None) -> str:
    async with connected_admin(admin_options(config, bootstrap, "barnabas-cluster")) as admin:
        return (await admin.cluster.describe()).cluster_id


async def _endpoints(bootstrap: str, config: Path | None, *, fenced: bool) -> Sequence["Endpoint"]:
    async with connected_admin(admin_options(config, bootstrap, "barnabas-cluster")) as admin:
        return await admin.cluster.endpoints(fenced=fenced)


def _endpoint_lines(found: Sequence["Endpoint"]) -> str:
    widths = (
        10,
        max([len(one.node.host) for one in found], default=_HOST),
        10,
        max([len(one.node.rack) for one in found if one.node.rack is not None], default=_RACK),
        10,
        15,
    )
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    rows += [
        (
            str(one.node.node_id),
            one.node.host,
            str(one.node.port),
            "null" if one.node.rack is None else one.node.rack,
            "fenced" if one.is_fenced else "unfenced",
            "controller" if one.is_controller else "broker",
        )
        for one in found
    ]
    return "\n".join(
        " ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


async def _unregister(bootstrap: str, config: Path | None, broker: int) -> str:
    from barnabas.network.errors import UnsupportedVersionError

    async with connected_admin(admin_options(config, bootstrap, "barnabas-cluster")) as admin:
        try:
            await admin.cluster.unregister_broker(broker)
        except UnsupportedVersionError:
            return "The target cluster does not support the broker unregistration API."
    return f"Broker {broker} is no longer registered."

"""``barnabas broker-api-versions``: kafka-broker-api-versions.sh."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, plain, print_facts
from barnabas.cli.options import ToolError, api_timeout_option, command_config_option
from barnabas.core.errors import BarnabasError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.message import Request
from barnabas.protocol.registry import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.admin.types import ApiVersions
    from barnabas.client.metadata import Broker

_LATEST_OF_3_9: Final = 87
"""The script of 3.9 names the APIs up to this key that a broker does not have; it knows none above."""
_NAMES_OF_3_9: Final = {74: "ListClientMetricsResources"}
"""Where an API has another name since."""


@click.command()
@bootstrap_option()
@api_timeout_option()
@command_config_option
@json_option
def broker_api_versions(bootstrap_server: str | None, command_config: Path | None, as_json: bool) -> None:
    """Print for each broker the versions of each API that it serves, and the highest that this client can
    use.

    \b
    Examples:
      barnabas broker-api-versions --bootstrap-server 127.0.0.1:9092
    """
    if not bootstrap_server:
        raise click.UsageError('Missing required argument "[bootstrap-server]"')
    try:
        found = asyncio.run(versions_of_brokers(bootstrap_server, command_config))
    except BarnabasError as error:
        raise ToolError(str(error)) from error
    print_versions(found, as_json=as_json)


async def versions_of_brokers(
    bootstrap: str, file: Path | None
) -> "dict[Broker, ApiVersions | BarnabasError]":
    """What each broker serves. Raises BarnabasError."""
    from barnabas.cli.options import admin_options, connected_admin

    async with connected_admin(admin_options(file, bootstrap, "admin-1")) as admin:
        brokers = {broker.node_id: broker for broker in (await admin.cluster.describe()).brokers}
        found = await admin.cluster.try_api_versions(brokers)
    return {brokers[broker_id]: versions for broker_id, versions in found.items()}


def print_versions(found: "Mapping[Broker, ApiVersions | BarnabasError]", *, as_json: bool) -> None:
    """The lines of the script, or one object."""
    from barnabas.cli.java_errors import java_text

    if as_json:
        print_facts({"brokers": [_facts(broker, versions) for broker, versions in found.items()]})
        return
    for broker, versions in found.items():
        if isinstance(versions, BarnabasError):
            click.echo(f"{broker} -> ERROR: {java_text(versions)}")
        else:
            lines = ",\n\t".join(_lines(versions))
            click.echo(f"{broker} -> (\n\t{lines}\n)")


def _facts(broker: "Broker", versions: "ApiVersions | BarnabasError") -> dict[str, Any]:
    failed = isinstance(versions, BarnabasError)
    served = {} if isinstance(versions, BarnabasError) else versions
    apis = [
        {"key": key, "name": _name(key), "min_version": low, "max_version": high}
        for key, (low, high) in sorted(served.items())
    ]
    return {**plain(broker), "error": versions if failed else None, "apis": apis}


def _name(key: int) -> str | None:
    known = {int(each): each for each in ApiKey}
    return None if key not in known else known[key].name.lower()


def _lines(versions: "ApiVersions") -> list[str]:
    """A line for each API that the broker or this client knows, in the order of their keys
    (``NodeApiVersions.toString``).
    """
    known = {int(key): _request_of(key) for key in ApiKey}
    lines = []
    for key in sorted(
        {*versions, *(key for key, request in known.items() if request and key <= _LATEST_OF_3_9)}
    ):
        request = known.get(key)
        if request is None:
            lines.append(f"UNKNOWN({key}): {_range(*versions[key])}")
            continue
        name = f"{_NAMES_OF_3_9.get(key, request.__name__.removesuffix('Request'))}({key})"
        if key not in versions:
            lines.append(f"{name}: UNSUPPORTED")
            continue
        low, high = versions[key]
        usable = f"usable: {min(high, request.max_version)}"
        if request.max_version < low:
            usable = "unusable: node too new"
        elif high < request.min_version:
            usable = "unusable: node too old"
        lines.append(f"{name}: {_range(low, high)} [{usable}]")
    return lines


def _request_of(key: ApiKey) -> type[Request] | None:
    """What a client asks; None for what only controllers say to each other."""
    try:
        return REQUESTS[key]
    except KeyError:
        return None


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"

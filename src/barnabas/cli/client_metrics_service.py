"""What ``barnabas client-metrics`` does once its flags are understood (``ClientMetricsCommand``)."""

import asyncio
import random
from typing import Any

import click

from barnabas.admin import AlterConfigOp, AlterOp, AsyncAdmin, ConfigEntry, ConfigResource, ResourceType
from barnabas.cli.facts import print_facts
from barnabas.cli.options import HALF_A_MINUTE, ToolError, admin_options, connected_admin
from barnabas.cli.printing import printable
from barnabas.core.client_metrics_config import INTERVAL_MS, MATCH, METRICS
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import random_uuid, uuid_text


def run(given: dict[str, Any]) -> None:
    """Does the one action that was asked for. Raises ToolError with the script's line."""
    try:
        asyncio.run(_run(given))
    except BarnabasError as error:
        raise ToolError(f"Error while executing client metrics command : {error}") from error


async def _run(given: dict[str, Any]) -> None:
    options = admin_options(given["command-config"], given["bootstrap-server"], "barnabas-client-metrics")
    async with connected_admin({**HALF_A_MINUTE, **options}) as admin:
        if given["alter"]:
            await _alter(admin, given)
        elif given["delete"]:
            await _delete(admin, given["name"])
        elif given["describe"]:
            await _describe(admin, given["name"], as_json=given["as-json"])
        else:
            names = await configured(admin, ResourceType.CLIENT_METRICS)
            if given["as-json"]:
                print_facts({"client_metrics": [{"name": name} for name in names]})
            else:
                click.echo("\n".join(map(printable, names)))


async def _alter(admin: AsyncAdmin, given: dict[str, Any]) -> None:
    name = uuid_text(random_uuid(random.SystemRandom())) if given["generate-name"] else given["name"]
    texts = {INTERVAL_MS: given["interval"], METRICS: given["metrics"], MATCH: given["match"]}
    # An empty text takes a setting away.
    changes = [
        AlterConfigOp(key, text, AlterOp.SET if text else AlterOp.DELETE)
        for key, text in texts.items()
        if text is not None
    ]
    await admin.configs.alter({_resource(name): changes})
    click.echo(printable(f"Altered client metrics config for {name}."))


async def _delete(admin: AsyncAdmin, name: str) -> None:
    resource = _resource(name)
    described = (await admin.configs.describe(resource))[resource]
    changes = [AlterConfigOp(key, "", AlterOp.DELETE) for key in described]
    await admin.configs.alter({resource: changes})
    click.echo(printable(f"Deleted client metrics config for {name}."))


async def _describe(admin: AsyncAdmin, name: str | None, *, as_json: bool) -> None:
    names = await configured(admin, ResourceType.CLIENT_METRICS)
    if as_json:
        wanted = [each for each in names if name in (None, each)]
        print_facts({"client_metrics": [await _facts(admin, each) for each in wanted]})
        return
    if name is not None and name not in names:
        click.echo(
            printable(f"The client metric resource {name} doesn't exist and doesn't have dynamic config.")
        )
        return
    for each in names if name is None else [name]:
        click.echo(printable(f"Client metrics configs for {each} are:"))
        for entry in await _entries(admin, each):
            click.echo(printable(f"  {entry.name}={entry.value}"))


async def _entries(admin: AsyncAdmin, name: str) -> list[ConfigEntry]:
    resource = _resource(name)
    entries = (await admin.configs.describe(resource))[resource]
    return sorted(entries.values(), key=lambda entry: entry.name)


async def _facts(admin: AsyncAdmin, name: str) -> dict[str, Any]:
    return {"name": name, "configs": {one.name: one.value for one in await _entries(admin, name)}}


async def configured(admin: AsyncAdmin, of: ResourceType) -> list[str]:
    """The names of all resources of a type that have settings of their own."""
    listed = await admin.configs.list_resources([of])
    return [resource.name for resource in listed]


def _resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.CLIENT_METRICS, name)

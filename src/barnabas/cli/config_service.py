"""What ``barnabas configs`` does once its flags are understood (``ConfigCommand``)."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from barnabas.admin import AlterConfigOp, AlterOp, AsyncAdmin, ConfigEntry, ConfigResource, ResourceType
from barnabas.cli import quota_service
from barnabas.cli.client_metrics_service import configured
from barnabas.cli.config_flags import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    GROUPS,
    TOPICS,
    Entity,
    Given,
    check_keys,
    deleted_keys,
    entity_of,
    parse_added,
    quota_entities,
    shown_arguments,
)
from barnabas.cli.facts import print_facts
from barnabas.cli.java_errors import EXECUTION, java_text
from barnabas.cli.options import HALF_A_MINUTE, ToolError, admin_options, connected_admin, properties
from barnabas.cli.printing import printable
from barnabas.core.config import Source
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import validate_topic_name
from barnabas.operations.errors import OperationError
from barnabas.operations.java_order import text_order
from barnabas.operations.known_brokers import check_broker
from barnabas.operations.own_configs import is_own, unset_keys

_RESOURCES: Final = {
    TOPICS: ResourceType.TOPIC,
    BROKERS: ResourceType.BROKER,
    BROKER_LOGGERS: ResourceType.BROKER_LOGGER,
    CLIENT_METRICS: ResourceType.CLIENT_METRICS,
    GROUPS: ResourceType.GROUP,
}
_LISTED: Final = (CLIENT_METRICS, GROUPS)
"""Whatever has settings is there; a key may be taken away that is not set."""
# As DescribeConfigsResponse.ConfigSource names them.
_SOURCES: Final = {
    Source.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    Source.DYNAMIC_BROKER: "DYNAMIC_BROKER_CONFIG",
    Source.DYNAMIC_DEFAULT_BROKER: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    Source.STATIC_BROKER: "STATIC_BROKER_CONFIG",
    Source.DEFAULT: "DEFAULT_CONFIG",
    Source.DYNAMIC_BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    Source.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    Source.GROUP: "DYNAMIC_GROUP_CONFIG",
}


class _FailedError(Exception):
    """A failure of the script that is not an answer of the cluster, as Java prints it."""


def run(given: Given, arguments: Sequence[str]) -> None:
    """Runs the one action that was asked for.

    Raises ToolError with the script's lines: for what the cluster refuses, the command line and the Java
    error.
    """
    try:
        asyncio.run(_run(given))
    except OperationError as error:
        raise ToolError(str(error)) from error
    except _FailedError as error:
        failure = str(error)
    except BarnabasError as error:
        failure = EXECUTION + java_text(error)
    else:
        return
    raise ToolError(
        f"Error while executing config command with args '{shown_arguments(arguments)}'\n{failure}"
    )


async def _run(given: Given) -> None:
    options = admin_options(given["command-config"], given["bootstrap-server"], "barnabas-configs")
    entity, quotas_of = entity_of(given), quota_entities(given)
    async with connected_admin({**HALF_A_MINUTE, **options}) as admin:
        if quotas_of and given["alter"]:
            await quota_service.alter(admin, quotas_of, _added(given), deleted_keys(given))
        elif quotas_of:
            await quota_service.describe(admin, quotas_of, as_json=given["as-json"])
        elif given["alter"]:
            await _alter(admin, entity, _added(given), deleted_keys(given))
        else:
            await _describe(admin, entity, everything=given["all"], as_json=given["as-json"])


def _added(given: Given) -> dict[str, str]:
    added: dict[str, str] = {}
    if given["add-config-file"]:
        file = Path(given["add-config-file"])
        if not file.is_file():
            raise _FailedError(f"java.nio.file.NoSuchFileException: {file}")
        added.update(properties(file))
    for text in given["add-config"]:
        added.update(parse_added(text))
    check_keys(added)
    return added


async def _describe(admin: AsyncAdmin, entity: Entity, *, everything: bool, as_json: bool) -> None:
    if as_json:
        print_facts({"entities": await _facts(admin, entity, everything=everything)})
        return
    if entity.name and not await _is_there(admin, entity):
        click.echo(
            printable(f"The {entity.noun} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        )
        return
    for name in await _names(admin, entity):
        one = Entity(entity.type, name)
        if name:
            click.echo(f"{'All' if everything else 'Dynamic'} configs for {one.noun} {name} are:")
        else:
            click.echo(f"Default configs for {one.type} in the cluster are:")
        for entry in await _entries(admin, one, everything=everything):
            click.echo(printable(_entry_line(entry)))


async def _facts(admin: AsyncAdmin, entity: Entity, *, everything: bool) -> list[dict[str, Any]]:
    """Each entity with its entries; nothing for one that is not there."""
    if entity.name and not await _is_there(admin, entity):
        return []
    return [
        {
            "entity_type": entity.type,
            "entity_name": name or None,
            "configs": [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": entry.source,
                    "is_sensitive": entry.is_sensitive,
                    "is_read_only": entry.is_read_only,
                    "synonyms": entry.synonyms,
                }
                for entry in await _entries(admin, Entity(entity.type, name), everything=everything)
            ],
        }
        for name in await _names(admin, entity)
    ]


async def _is_there(admin: AsyncAdmin, entity: Entity) -> bool:
    """Whether the entity is in the cluster; of a topic that is left to the brokers' answer."""
    if entity.type in (BROKERS, BROKER_LOGGERS):
        return entity.name in {str(broker.node_id) for broker in (await admin.cluster.describe()).brokers}
    if entity.type not in _LISTED:
        return True
    if entity.name in await configured(admin, _RESOURCES[entity.type]):
        return True
    # A group without settings may be there all the same.
    groups = await admin.groups.list(of_consumers=False) if entity.type == GROUPS else []
    return any(group.group_id == entity.name for group in groups)


async def _names(admin: AsyncAdmin, entity: Entity) -> list[str]:
    if entity.name is not None:
        return [entity.name]
    if entity.type == TOPICS:
        return text_order(one.name for one in await admin.topics.list(internal=True))
    if entity.type in _LISTED:
        return await configured(admin, _RESOURCES[entity.type])
    return [*(str(broker.node_id) for broker in (await admin.cluster.describe()).brokers), ""]


async def _entries(admin: AsyncAdmin, entity: Entity, *, everything: bool) -> list[ConfigEntry]:
    """The entries of an entity by name: all of them, or those that were set for just this entity."""
    resource = _resource(entity)
    described = (await admin.configs.describe(resource, synonyms=True))[resource]
    return sorted(
        (entry for entry in described.values() if everything or is_own(resource, entry)),
        key=lambda entry: entry.name,
    )


def _resource(entity: Entity) -> ConfigResource:
    name = entity.name or ""
    if entity.type == TOPICS and name:
        try:
            validate_topic_name(name)
        except BarnabasError as error:
            raise _FailedError(java_text(error)) from error
    return ConfigResource(_RESOURCES[entity.type], name)


def _entry_line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{_SOURCES[one.source] if one.source else 'UNKNOWN'}:{one.name}={_text(one.value)}"
        for one in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


async def _alter(admin: AsyncAdmin, entity: Entity, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    if entity.type in (BROKERS, BROKER_LOGGERS) and entity.name:
        await check_broker(admin, int(entity.name))
    before = {entry.name: entry for entry in await _entries(admin, entity, everything=True)}
    resource = _resource(entity)
    if entity.type == BROKER_LOGGERS:
        if unknown := unset_keys(resource, before, [*deleted, *added]):
            raise ToolError(f"Invalid broker logger(s): {','.join(unknown)}")
    elif entity.type not in _LISTED and (unset := unset_keys(resource, before, deleted)):
        raise ToolError(f"Invalid config(s): {','.join(unset)}")
    operations = [AlterConfigOp(key, value) for key, value in added.items()]
    if entity.type == BROKERS:
        # The script replaces all values of a broker at once (AlterConfigs), where a key that is deleted is
        # not set. Single operations come to the same, and keep what another tool sets at this moment.
        operations = [one for one in operations if one.name not in deleted]
    operations += [AlterConfigOp(key, "", AlterOp.DELETE) for key in deleted]
    await admin.configs.alter({resource: operations})
    if entity.name:
        click.echo(f"Completed updating config for {entity.noun} {entity.name}.")
    else:
        click.echo(f"Completed updating default config for {entity.type} in the cluster.")

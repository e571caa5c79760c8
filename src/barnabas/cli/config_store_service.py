"""What ``barnabas configs`` does without a broker (``ConfigCommand.alterConfigWithZk``): SCRAM credentials of
users, written to the metadata store, so that the first user of a cluster can be made before its brokers run.

Brokers that run learn of it by the notice that is written beside. Unlike Kafka's script, no line shows a
password.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from barnabas.cli.config_flags import USERS, Entity, Given, deleted_keys, entity_of, parse_added
from barnabas.cli.facts import print_facts
from barnabas.cli.options import ToolError, properties
from barnabas.cli.printing import printable
from barnabas.cli.scram_property import scram_property
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_paths
from barnabas.cluster.store.contract import MetadataStore
from barnabas.cluster.store.znodes import CONFIG_CHANGES, DEFAULT_ENTITY, desanitize, sanitize
from barnabas.core.scram import MECHANISMS, SALT_BITS, ScramCredential, ScramMechanism, salt_of
from barnabas.network.clock import LoopClock
from barnabas.network.selector import completed
from barnabas.operations.direct_store import opened, store_file

_DEPRECATED: Final = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
    "Use --bootstrap-server instead to specify a broker to connect to."
)


def run(given: Given) -> None:
    """Does what was asked for, on the one of the two stores that was named. Raises ToolError."""
    zookeeper, folder = given["zookeeper"], given["store"]
    if zookeeper is not None:
        click.echo(_DEPRECATED, err=True)
    entity = entity_of(given)
    if entity.type != USERS:
        raise ToolError(f"Entity type {entity.type} is for --bootstrap-server: a store alone has users")
    asyncio.run(_run(given, entity, zookeeper, None if folder is None else store_file(Path(folder))))


async def _run(given: Given, entity: Entity, zookeeper: str | None, file: Path | None) -> None:
    settings = properties(given["zk-tls-config-file"])
    if given["describe"]:
        async with opened(zookeeper, file, settings=settings) as store:
            await _describe(ConfigStore(store, _clock()), entity, as_json=given["as-json"])
        return
    # What is wrong with the values is said before there is a session.
    added = properties(Path(given["add-config-file"])) if given["add-config-file"] else {}
    for text in given["add-config"]:
        added |= parse_added(text)
    credentials = _credentials(entity, added, deleted_keys(given))
    async with opened(zookeeper, file, settings=settings) as store:
        await _alter(store, entity, credentials, deleted_keys(given))


def _clock() -> LoopClock:
    return LoopClock(asyncio.get_running_loop())


def _credentials(entity: Entity, added: Mapping[str, str], deleted: Sequence[str]) -> dict[str, str]:
    """What to store of the values that are added (``preProcessScramCredentials``)."""
    if unknown := [key for key in (*added, *deleted) if key not in MECHANISMS]:
        hidden = ", ".join(f"{key}=[hidden]" for key in added)
        gone = f"ArrayBuffer({', '.join(deleted)})" if deleted else "List()"
        raise ToolError(
            "requirement failed: --bootstrap-server option must be specified to update users configs: "
            f"{{add: {{{hidden}}}, delete: {gone}}}. User configuration updates using ZooKeeper are only "
            f"supported for SCRAM credential updates, which {printable(unknown[0])} is none of."
        )
    made = {key: _credential(ScramMechanism(key), value) for key, value in added.items()}
    if not entity.name:
        raise ToolError(
            f"requirement failed: Unknown Dynamic Configuration: HashSet({', '.join((*added, *deleted))})."
        )
    return made


def _credential(mechanism: ScramMechanism, text: str) -> str:
    """``[iterations=N,]password=P`` as it is stored. Raises ToolError, which shows nothing of it."""
    iterations, password = scram_property(mechanism, text, name=mechanism.name_of_kafka)
    if not password:
        raise ToolError("Empty key")
    salt = salt_of(secrets.randbits(SALT_BITS))
    return ScramCredential.of_password(mechanism, password, salt, iterations).text()


async def _alter(
    store: MetadataStore, entity: Entity, credentials: Mapping[str, str], deleted: Sequence[str]
) -> None:
    assert entity.name is not None
    await completed(ensure_paths(store, (CONFIG_CHANGES,)))
    configs, user = ConfigStore(store, _clock()), sanitize(entity.name)
    values = await completed(configs.read(USERS, user))
    if unset := [key for key in deleted if key not in values]:
        raise ToolError(f"Invalid config(s): {','.join(unset)}")
    values = {key: value for key, value in {**values, **credentials}.items() if key not in deleted}
    await completed(configs.write(USERS, user, values))
    click.echo(f"Completed updating config for entity: {printable(_text(user))}.")


async def _describe(configs: ConfigStore, entity: Entity, *, as_json: bool) -> None:
    """As the store has it, so with what a broker keeps of a password."""
    users = [sanitize(entity.name) if entity.name else DEFAULT_ENTITY] if entity.name is not None else None
    found: dict[str, Mapping[str, str]] = {}
    for user in await completed(configs.entities(USERS)) if users is None else users:
        values = await completed(configs.read(USERS, user))
        if values or users is not None:
            found[user] = values
    if as_json:
        rows = [
            {"user": None if user == DEFAULT_ENTITY else desanitize(user), "configs": values}
            for user, values in found.items()
        ]
        print_facts({"users": rows})
        return
    for user, values in found.items():
        shown = ",".join(f"{key}={value}" for key, value in values.items())
        click.echo(printable(f"Configs for {_text(user)} are {shown}"))


def _text(user: str) -> str:
    return "default user-principal" if user == DEFAULT_ENTITY else f"user-principal '{desanitize(user)}'"

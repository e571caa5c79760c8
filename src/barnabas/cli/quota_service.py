"""What ``barnabas configs`` does for users, client ids and addresses: their quotas, and the credentials of
users (``ConfigCommand.alterQuotaConfigs``, ``alterUserScramCredentialConfigs``).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import click

from barnabas.admin import AsyncAdmin
from barnabas.admin.quotas import (
    ClientQuota,
    ClientQuotaAlteration,
    Match,
    QuotaFilter,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.cli.config_flags import CLIENTS, IPS, USERS, Entity
from barnabas.cli.facts import print_facts
from barnabas.cli.java_errors import java_text
from barnabas.cli.options import ToolError
from barnabas.cli.printing import printable
from barnabas.cli.scram_property import scram_property
from barnabas.core.client_quotas import OF_ADDRESSES, OF_CLIENTS
from barnabas.core.config import double_text
from barnabas.core.errors import BarnabasError
from barnabas.core.scram import MECHANISMS, NUMBERS, ScramMechanism
from barnabas.network.errors import UnsupportedVersionError

_ENTITIES: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}


async def describe(admin: AsyncAdmin, entities: Sequence[Entity], *, as_json: bool = False) -> None:
    """``describeClientQuotaAndUserScramCredentialConfigs``; brokers that keep no quotas have none to show."""
    filters = []
    for entity in entities:
        match = Match.ANY if entity.name is None else Match.NAME if entity.name else Match.DEFAULT
        filters.append(QuotaFilter(_ENTITIES[entity.type], match, entity.name or None))
    quotas: Sequence[ClientQuota] = ()
    with suppress(UnsupportedVersionError):
        quotas = await admin.quotas.describe(filters)
    credentials: Mapping[str, Mapping[int, int] | BarnabasError] = {}
    if entities[0].type == USERS and len(entities) == 1 and entities[0].name != "":
        named = [entities[0].name] if entities[0].name else []
        with suppress(UnsupportedVersionError):
            credentials = await admin.quotas.scram_credentials(named)
    if as_json:
        print_facts({"quotas": quotas, "credentials": list(map(_credential_facts, credentials.items()))})
        return
    for quota in quotas:
        click.echo(printable(_quota_line(quota)))
    for user, found in credentials.items():
        click.echo(printable(_credentials_line(user, found)))


def _credential_facts(of: tuple[str, Mapping[int, int] | BarnabasError]) -> dict[str, Any]:
    user, found = of
    failed = isinstance(found, BarnabasError)
    iterations = (
        {} if isinstance(found, BarnabasError) else {_mechanism(kind): n for kind, n in found.items()}
    )
    return {"user": user, "iterations": iterations, "error": found if failed else None}


def _mechanism(kind: int) -> str:
    return NUMBERS[kind].value if kind in NUMBERS else "UNKNOWN"


def _quota_line(quota: ClientQuota) -> str:
    nouns = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
    entity = ", ".join(
        f"the default {noun}" if quota.entity[kind] is None else f"{noun} '{quota.entity[kind]}'"
        for kind, noun in nouns.items()
        if kind in quota.entity
    )
    values = ", ".join(f"{key}={double_text(value)}" for key, value in quota.values.items())
    return f"Quota configs for {entity} are {values}"


def _credentials_line(user: str, found: Mapping[int, int] | BarnabasError) -> str:
    if isinstance(found, BarnabasError):
        return f"Error retrieving SCRAM credential configs for user-principal '{user}': {java_text(found)}"
    described = ", ".join(f"{_mechanism(kind)}=iterations={count}" for kind, count in found.items())
    return f"SCRAM credential configs for user-principal '{user}' are {described}"


async def alter(
    admin: AsyncAdmin, entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Sets and removes what is quotas, or else what is credentials: never both at once."""
    check(entities, added, deleted)
    if entities[0].type == USERS and not any(key in OF_CLIENTS for key in (*added, *deleted)):
        await _alter_credentials(admin, entities[0].name or "", added, deleted)
    else:
        await _alter_quotas(admin, entities, added, deleted)
    name, kind = entities[0].name, entities[0].type
    if name:
        click.echo(f"Completed updating config for {kind[:-1]} {printable(name)}.")
    else:
        click.echo(f"Completed updating default config for {kind} in the cluster.")


def check(entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]) -> None:
    """Raises ToolError for keys that these entities cannot have, in the script's words."""
    kinds = [entity.type for entity in entities]
    if kinds[0] == IPS:
        if unknown := [key for key in (*added, *deleted) if key not in OF_ADDRESSES]:
            raise ToolError(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected "
                f"config names: {','.join(unknown)}"
            )
        return
    of_user = kinds == [USERS]
    allowed = OF_CLIENTS.keys() | MECHANISMS if of_user else OF_CLIENTS.keys()
    what, noun = ("quota and SCRAM credential", USERS) if of_user else ("quota", CLIENTS)
    for keys, verb, names in ((list(added), "added", "Set"), (deleted, "deleted", "ArrayBuffer")):
        if unknown := [key for key in keys if key not in allowed]:
            raise ToolError(
                f"Only {what} configs can be {verb} for '{noun}' using --bootstrap-server. Unexpected config "
                f"names: {names}({', '.join(unknown)})"
            )
    if any(key in MECHANISMS for key in (*added, *deleted)):
        if not entities[0].name:
            raise ToolError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
                "using --bootstrap-server."
            )
        if any(key in OF_CLIENTS for key in (*added, *deleted)):
            raise ToolError(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
                "--bootstrap-server."
            )


async def _alter_quotas(
    admin: AsyncAdmin, entities: Sequence[Entity], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    if any(entity.name is None for entity in entities):
        raise ToolError("An entity name must be specified for every entity type")
    filters = [
        QuotaFilter(_ENTITIES[one.type], Match.NAME if one.name else Match.DEFAULT, one.name or None)
        for one in entities
    ]
    described = await admin.quotas.describe(filters)
    before = described[0].values if described else {}
    if unset := [key for key in deleted if key not in before]:
        raise ToolError(f"Invalid config(s): {','.join(unset)}")
    values: dict[str, float | None] = {key: _number(key, text) for key, text in added.items()}
    entity = {_ENTITIES[one.type]: one.name or None for one in entities}
    await admin.quotas.alter(ClientQuotaAlteration(entity, values | dict.fromkeys(deleted)))


def _number(key: str, text: str) -> float:
    try:
        return float(text.replace("_", "no number"))
    except ValueError:
        raise ToolError(f"Cannot parse quota configuration value for {key}: {text}") from None


async def _alter_credentials(
    admin: AsyncAdmin, user: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    alterations: list[UserScramCredentialDeletion | UserScramCredentialUpsertion] = [
        UserScramCredentialDeletion(user, mechanism) for mechanism in deleted
    ]
    for mechanism, text in added.items():
        iterations, password = scram_property(ScramMechanism(mechanism), text, name=mechanism)
        alterations.append(UserScramCredentialUpsertion(user, mechanism, password, iterations))
    await admin.quotas.alter_scram_credentials(alterations)

"""What ``barnabas acls`` does once its flags are understood (``AclCommand``): with a broker, or straight on
the metadata store before there is any.
"""

import asyncio
import contextlib
import random
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import click

from barnabas.cli.acl_rules import Rules, pattern_type_of, principals, resources_of, rules_of
from barnabas.cli.facts import print_facts
from barnabas.cli.java_errors import java_text
from barnabas.cli.options import (
    ToolError,
    admin_options,
    connected_admin,
    key_values,
    properties,
    reported_as,
)
from barnabas.cli.printing import printable
from barnabas.core.acl import AccessControlEntry, AclBinding, AclFilter, PatternType, ResourcePattern
from barnabas.core.errors import BarnabasError, KafkaError
from barnabas.core.slices import in_one_piece
from barnabas.network.clock import LoopClock
from barnabas.network.selector import completed
from barnabas.operations.direct_store import opened
from barnabas.security.acl_authorizer import CLASS_NAME
from barnabas.security.acl_store import AclStore

_FAILED: Final = "Error while executing ACL command: "
_DEPRECATED: Final = (
    "Warning: support for ACL configuration directly through the authorizer is deprecated and will be"
    " removed in a future release. Please use --bootstrap-server instead to set ACLs through the admin"
    " client."
)


class _Acls(Protocol):
    """Where rules are shown and changed."""

    async def describe(self, wanted: AclFilter) -> list[AclBinding]: ...

    async def create(self, bindings: Sequence[AclBinding]) -> None: ...

    async def delete(self, filters: Sequence[AclFilter]) -> list[AclBinding]: ...


def run(given: Mapping[str, Any]) -> None:
    """Does what was asked for, and prints the script's lines. Raises ToolError."""
    if not given["bootstrap-server"]:
        click.echo(_DEPRECATED, err=True)
    try:
        asyncio.run(_run(given))
    except KafkaError as error:
        raise ToolError(f"{_FAILED}{java_text(error)}") from error
    except BarnabasError as error:
        raise ToolError(f"{_FAILED}{error}") from error


async def _run(given: Mapping[str, Any]) -> None:
    if given["list"]:
        wanted, listed = resources_of(given), principals(given["principal"])
        async with _opened(given) as acls:
            await _list(acls, wanted, listed, as_json=given["as-json"])
        return
    if given["add"]:
        if pattern_type_of(given) not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise ToolError(
                f"A '--resource-pattern-type' value of '{pattern_type_of(given).name}' is not valid when"
                " adding acls."
            )
        rules = rules_of(given)
        if not all(rules.values()):
            raise ToolError(
                "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
            )
        async with _opened(given) as acls:
            await _add(acls, rules)
        return
    rules = rules_of(given)
    async with _opened(given) as acls:
        await _remove(acls, rules, force=given["force"])


async def _list(acls: _Acls, wanted: Iterable[AclFilter], listed: Sequence[str], *, as_json: bool) -> None:
    found: dict[ResourcePattern, dict[AccessControlEntry, None]] = {}
    for each in wanted or (AclFilter(),):
        for pattern, entry in await acls.describe(each):
            found.setdefault(pattern, {})[entry] = None
    if as_json:
        rules = [(pattern, entry) for pattern, entries in found.items() for entry in entries]
        shown = [AclBinding(*rule) for rule in rules if not listed or rule[1].principal in listed]
        print_facts({"acls": list(map(_facts, shown))})
        return
    if not listed:
        _print_rules(found)
    for principal in listed:
        click.echo(f"ACLs for principal `{printable(principal)}`")
        of_it = {
            pattern: [entry for entry in entries if entry.principal == principal]
            for pattern, entries in found.items()
        }
        _print_rules({pattern: entries for pattern, entries in of_it.items() if entries})


def _facts(binding: AclBinding) -> dict[str, Any]:
    pattern, entry = binding
    return {
        "resource_type": pattern.resource,
        "resource_name": pattern.name,
        "pattern_type": pattern.pattern_type,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission": entry.permission,
    }


async def _add(acls: _Acls, rules: Rules) -> None:
    for resource, entries in rules.items():
        assert resource.name is not None
        pattern = ResourcePattern(resource.resource, resource.name, resource.pattern_type)
        click.echo(f"Adding ACLs for resource `{printable(str(pattern))}`: \n {_lines(entries)} \n")
        await acls.create([AclBinding(pattern, entry) for entry in entries])


async def _remove(acls: _Acls, rules: Rules, *, force: bool) -> None:
    for resource, entries in rules.items():
        shown = printable(_filter_text(resource))
        if not entries:
            question = f"Are you sure you want to delete all ACLs for resource filter `{shown}`? (y/n)"
            filters = [resource]
        else:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(entries)} \n from resource filter"
                f" `{shown}`? (y/n)"
            )
            filters = [resource._replace(**entry._asdict()) for entry in entries]
        if force or _confirmed(question):
            await acls.delete(filters)


def _confirmed(question: str) -> bool:
    click.echo(question)
    return sys.stdin.readline().strip().lower() == "y"


def _print_rules(found: Mapping[ResourcePattern, Iterable[AccessControlEntry]]) -> None:
    for pattern, entries in found.items():
        click.echo(f"Current ACLs for resource `{printable(str(pattern))}`: \n {_lines(entries)} \n")


def _lines(entries: Iterable[AccessControlEntry]) -> str:
    return "\n".join(f"\t{printable(str(entry))}" for entry in entries)


def _filter_text(resource: AclFilter) -> str:
    name = "<any>" if resource.name is None else resource.name
    return (
        f"ResourcePattern(resourceType={resource.resource.name}, name={name}, "
        f"patternType={resource.pattern_type.name})"
    )


@contextlib.asynccontextmanager
async def _opened(given: Mapping[str, Any]) -> AsyncIterator[_Acls]:
    if given["bootstrap-server"]:
        options = admin_options(given["command-config"], given["bootstrap-server"], "barnabas-acls")
        async with connected_admin(options) as admin:
            yield admin.acls
        return
    if given["authorizer"] not in (None, CLASS_NAME):
        raise ToolError(f"{_FAILED}{printable(given['authorizer'])} is not there, only {CLASS_NAME}")
    settings = properties(given["zk-tls-config-file"]) | key_values(given["authorizer-properties"])
    async with _store(settings) as acls:
        yield acls


class _DirectAcls:
    """The rules in a metadata store, without a broker."""

    def __init__(self, store: AclStore) -> None:
        self._store = store

    async def describe(self, wanted: AclFilter) -> list[AclBinding]:
        return in_one_piece(self._store.index.matching(wanted))

    async def create(self, bindings: Sequence[AclBinding]) -> None:
        for error in await completed(self._store.create(bindings)):
            if error is not None:
                click.echo(f"Error while adding ACLs: {error}")

    async def delete(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        removed = []
        for those in await completed(self._store.delete(filters)):
            for binding, error in those:
                removed.append(binding)
                if error is not None:
                    click.echo(f"Error while removing ACLs: {error}")
        return removed


@contextlib.asynccontextmanager
async def _store(settings: Mapping[str, str]) -> AsyncIterator[_DirectAcls]:
    zookeeper = settings.get("zookeeper.connect") or None
    file = None if zookeeper else _file(settings)
    with reported_as(_FAILED):
        async with opened(zookeeper, file, settings=settings) as session:
            acls = AclStore(session, LoopClock(asyncio.get_running_loop()), random.Random())
            await completed(acls.start(lambda: None))
            yield _DirectAcls(acls)


def _file(settings: Mapping[str, str]) -> Path:
    file = Path(settings.get("barnabas.metadata.path", ""))
    if not file.is_file():
        raise ToolError(
            f"{_FAILED}--authorizer-properties names neither zookeeper.connect=HOST:PORT nor a file that is"
            " there as barnabas.metadata.path"
        )
    return file

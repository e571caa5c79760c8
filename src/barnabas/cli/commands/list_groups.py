"""``barnabas list-groups``: kafka-groups.sh (KIP-1043)."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, print_facts
from barnabas.cli.options import (
    api_timeout_option,
    command_config_option,
    kafka_names,
    refuse_together,
    reported_as,
)

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.admin import GroupListing

_WIDTH: Final = 20
_HEADER: Final = ("GROUP", "TYPE", "PROTOCOL")
_KINDS: Final = ("consumer", "share", "streams")


@click.command()
@bootstrap_option()
@api_timeout_option()
@command_config_option
@click.option("--list", is_flag=True, help="List the groups.")
@click.option(
    "--group-type",
    type=click.Choice(["classic", "consumer", "share", "streams"], case_sensitive=False),
    help="Only groups of this type.",
)
@click.option("--protocol", metavar="NAME", help="Only groups whose members name their protocol so.")
@click.option(
    "--consumer", is_flag=True, help="Only groups of consumers: of the type, classic and simple ones."
)
@click.option("--share", is_flag=True, help="Only share groups.")
@click.option("--streams", is_flag=True, help="Only groups of Kafka Streams' own type.")
@json_option
@click.pass_context
def list_groups(ctx: click.Context, /, **_given: object) -> None:
    """List groups of all types, with the flags and lines of kafka-groups.sh.

    \b
    Examples:
      barnabas list-groups --list --bootstrap-server 127.0.0.1:9092
      barnabas list-groups --list --consumer --bootstrap-server 127.0.0.1:9092
    """
    given = kafka_names(ctx.params)
    _check(given)
    with reported_as("Error while executing groups command : "):
        asyncio.run(_print_groups(given))


def _check(given: dict[str, Any]) -> None:
    """The rules of ``GroupsCommandOptions.checkArgs``, in its order."""
    if not given["bootstrap-server"]:
        raise click.UsageError("Missing required option(s) [bootstrap-server]")
    if not given["list"]:
        raise click.UsageError("Command must include exactly one action: --list.")
    for kind in _KINDS:
        refuse_together(
            given, kind, [*(other for other in _KINDS if other != kind), "group-type", "protocol"]
        )


async def _print_groups(given: dict[str, Any]) -> None:
    from barnabas.cli.options import admin_options, connected_admin

    file: Path | None = given["command-config"]
    async with connected_admin(
        admin_options(file, given["bootstrap-server"], "barnabas-list-groups")
    ) as admin:
        listed = await admin.groups.list(of_consumers=False)
    if given["as-json"]:
        print_facts({"groups": sorted(filter(lambda one: _is_wanted(one, given), listed), key=_name)})
        return
    rows = [(one.group_id, one.type or "Unknown", one.protocol) for one in listed if _is_wanted(one, given)]
    width = max([_WIDTH, *(len(cell) for row in rows for cell in row)])
    click.echo(" ".join(cell.ljust(width) for cell in _HEADER))
    for row in sorted(rows):
        click.echo("".join(f"{cell.ljust(width)} " for cell in row))


def _name(group: "GroupListing") -> str:
    return group.group_id


def _is_wanted(group: "GroupListing", given: dict[str, Any]) -> bool:
    kind = (group.type or "").lower()
    if given["consumer"]:
        return kind == "consumer" or (kind == "classic" and group.protocol in {"consumer", ""})
    if given["share"] or given["streams"]:
        return given.get(kind) is True
    if given["group-type"] and given["group-type"] != kind:
        return False
    return given["protocol"] is None or given["protocol"] == group.protocol

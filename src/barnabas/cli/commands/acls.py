"""``barnabas acls``: kafka-acls.sh."""

from typing import Any

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, refuse_json
from barnabas.cli.options import (
    ToolCommand,
    ToolError,
    api_timeout_option,
    command_config_option,
    kafka_names,
    zk_tls_option,
)

_PATTERN_TYPES = ("any", "match", "literal", "prefixed")
_ROLES = ("producer", "consumer")


@click.command(cls=ToolCommand)
@bootstrap_option(instead=("authorizer", "authorizer_properties"), changes=("add", "remove"))
@api_timeout_option()
@command_config_option
@click.option(
    "--authorizer", metavar="CLASS", help="Without a broker: kafka.security.authorizer.AclAuthorizer."
)
@click.option(
    "--authorizer-properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="Without a broker: zookeeper.connect=HOST:PORT[/PATH], or barnabas.metadata.path=FILE.",
)
@zk_tls_option
@click.option("--add", is_flag=True, help="Add rules.")
@click.option("--remove", is_flag=True, help="Remove rules.")
@click.option("--list", is_flag=True, help="Show the rules of these resources, or all.")
@click.option("--topic", multiple=True, metavar="NAME", help="A topic; * for all.")
@click.option("--group", multiple=True, metavar="NAME", help="A group; * for all.")
@click.option("--cluster", is_flag=True, help="The cluster.")
@click.option("--transactional-id", multiple=True, metavar="ID", help="A transactional id; * for all.")
@click.option("--delegation-token", multiple=True, metavar="ID", help="A delegation token; * for all.")
@click.option(
    "--user-principal", multiple=True, metavar="PRINCIPAL", help="A user, for whom tokens are made."
)
@click.option(
    "--resource-pattern-type",
    type=click.Choice(_PATTERN_TYPES, case_sensitive=False),
    default="literal",
    show_default=True,
    help="How names are meant. any and match are for --list and --remove: rules of this very name, and rules "
    "that hold for it.",
)
@click.option("--operation", multiple=True, metavar="NAME", help="What is allowed or denied.  [default: All]")
@click.option("--allow-principal", multiple=True, metavar="PRINCIPAL", help="Who may; User:* for everyone.")
@click.option("--deny-principal", multiple=True, metavar="PRINCIPAL", help="Who may not, whatever allows it.")
@click.option("--allow-host", multiple=True, metavar="IP", help="From where they may.  [default: anywhere]")
@click.option(
    "--deny-host", multiple=True, metavar="IP", help="From where they may not.  [default: anywhere]"
)
@click.option("--principal", multiple=True, metavar="PRINCIPAL", help="With --list: rules of these only.")
@click.option("--producer", is_flag=True, help="All that a producer of the topics needs.")
@click.option("--consumer", is_flag=True, help="All that a consumer of the topics in the groups needs.")
@click.option("--idempotent", is_flag=True, help="With --producer: also before Kafka 2.8's rules.")
@click.option("--force", is_flag=True, help="Ask nothing.")
@json_option
@click.pass_context
def acls(ctx: click.Context, /, **_given: object) -> None:
    """Show and change access rules, with the flags and lines of kafka-acls.sh.

    \b
    Examples:
      barnabas acls --add --allow-principal User:alice --producer --topic orders \\
          --bootstrap-server 127.0.0.1:9092
      barnabas acls --add --allow-principal User:bob --consumer --topic orders --group audit \\
          --bootstrap-server 127.0.0.1:9092
      barnabas acls --list --topic orders --resource-pattern-type match --bootstrap-server 127.0.0.1:9092
      barnabas acls --remove --topic orders --force --bootstrap-server 127.0.0.1:9092
      barnabas acls --add --allow-principal User:admin --cluster \\
          --authorizer-properties zookeeper.connect=127.0.0.1:2181
    """
    given = kafka_names(ctx.params)
    _check(given)
    from barnabas.cli import acl_service

    acl_service.run(given)


def _check(given: dict[str, Any]) -> None:
    """The rules of ``AclCommandOptions.checkArgs``, in its order: only the first failure is printed."""
    if given["bootstrap-server"] and given["authorizer"]:
        raise ToolError("Only one of --bootstrap-server or --authorizer must be specified")
    if not given["bootstrap-server"] and not given["authorizer-properties"]:
        raise ToolError('Missing required argument "[authorizer-properties]"')
    if given["command-config"] and not given["bootstrap-server"]:
        raise ToolError("The --command-config option can only be used with --bootstrap-server option")
    if given["authorizer-properties"] and given["bootstrap-server"]:
        raise ToolError("The --authorizer-properties option can only be used with --authorizer option")
    if given["zk-tls-config-file"] and given["bootstrap-server"]:
        raise ToolError("The --zk-tls-config-file option can only be used with --authorizer option")
    if sum(given[action] for action in ("add", "remove", "list")) != 1:
        raise ToolError("Command must include exactly one action: --list, --add, --remove. ")
    refuse_json(given, "list")
    hosts_and_principals = ("allow-host", "allow-principal", "deny-host", "deny-principal")
    _refuse(given, "list", (*_ROLES, *hosts_and_principals))
    for role in _ROLES:
        _refuse(given, role, ("operation", "deny-principal", "deny-host"))
    if given["principal"] and not given["list"]:
        raise ToolError("The --principal option is only available if --list is set")
    if given["producer"] and not given["topic"]:
        raise ToolError("With --producer you must specify a --topic")
    if given["idempotent"] and not given["producer"]:
        raise ToolError("The --idempotent option is only available if --producer is set")
    more = given["cluster"] or given["transactional-id"]
    if given["consumer"] and not (given["topic"] and given["group"] and (given["producer"] or not more)):
        raise ToolError(
            "With --consumer you must specify a --topic and a --group and no --cluster or "
            "--transactional-id option should be specified."
        )


def _refuse(given: dict[str, Any], option: str, others: tuple[str, ...]) -> None:
    if given[option]:
        for other in others:
            if given[other]:
                raise ToolError(f'Option "[{option}]" can\'t be used with option "[{other}]"')

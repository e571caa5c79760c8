"""``barnabas client-metrics``: kafka-client-metrics.sh."""

from typing import Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, refuse_json
from barnabas.cli.options import (
    ToolCommand,
    ToolError,
    api_timeout_option,
    command_config_option,
    kafka_names,
)

_ACTIONS: Final = ("alter", "delete", "describe", "list")
_NOT_WITH: Final = {
    "delete": ("generate-name", "interval", "match", "metrics"),
    "describe": ("generate-name", "interval", "match", "metrics"),
    "list": ("name", "generate-name", "interval", "match", "metrics"),
}


@click.command(cls=ToolCommand)
@bootstrap_option(changes=("alter", "delete"))
@api_timeout_option(30_000)
@command_config_option
@click.option("--alter", is_flag=True, help="Make a subscription, or change it.")
@click.option("--delete", is_flag=True, help="Delete a subscription.")
@click.option("--describe", is_flag=True, help="Show the settings of one subscription, or of all.")
@click.option("--list", is_flag=True, help="Show the names of all subscriptions.")
@click.option("--name", metavar="NAME", help="The name of the subscription.")
@click.option("--generate-name", is_flag=True, help="With --alter: a new name, which is printed.")
@click.option("--interval", metavar="MS", help="How often clients push; empty for the default, 300000 ms.")
@click.option(
    "--match",
    metavar="K=V,K=V",
    help="The clients that it is for: client_id, client_instance_id, client_software_name,"
    " client_software_version, client_source_address, client_source_port, with a regular expression each.",
)
@click.option("--metrics", metavar="M1,M2", help="Prefixes of the names of metrics; * for all.")
@json_option
@click.pass_context
def client_metrics(ctx: click.Context, /, **_given: object) -> None:
    """Say which metrics clients push to the brokers (KIP-714), with the flags and lines of
    kafka-client-metrics.sh.

    \b
    Examples:
      barnabas client-metrics --alter --name lag --metrics org.apache.kafka.consumer.fetch.manager. \\
          --interval 10000 --match 'client_id=orders-.*' --bootstrap-server 127.0.0.1:9092
      barnabas client-metrics --describe --bootstrap-server 127.0.0.1:9092
      barnabas client-metrics --delete --name lag --bootstrap-server 127.0.0.1:9092
    """
    given = kafka_names(ctx.params)
    _check(given)
    from barnabas.cli import client_metrics_service

    client_metrics_service.run(given)


def _check(given: dict[str, Any]) -> None:
    """The rules of ``ClientMetricsCommandOptions.checkArgs``, in their order."""
    actions = [action for action in _ACTIONS if given[action]]
    if len(actions) != 1:
        raise ToolError("Command must include exactly one action: --alter, --delete, --describe or --list.")
    action = actions[0]
    refuse_json(given, "describe", "list")
    if not given["bootstrap-server"]:
        raise ToolError("--bootstrap-server must be specified.")
    for option in _NOT_WITH.get(action, ()):
        if given[option] not in (None, False):
            raise ToolError(f'Option "[{action}]" can\'t be used with option "[{option}]"')
    if action == "alter":
        if (given["name"] is not None) == given["generate-name"]:
            raise ToolError("One of --name or --generate-name must be specified with --alter.")
        if given["interval"] and not given["interval"].lstrip("+-").isdigit():
            raise ToolError("Invalid interval value. Enter an integer, or leave empty to reset.")
    if action == "delete" and given["name"] is None:
        raise ToolError("A client metrics resource name must be specified with --delete.")

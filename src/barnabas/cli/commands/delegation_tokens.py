"""``barnabas delegation-tokens``: kafka-delegation-tokens.sh."""

from typing import Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, refuse_json
from barnabas.cli.options import (
    ToolError,
    api_timeout_option,
    command_config_option,
    kafka_names,
    refuse_together,
)

_ACTIONS: Final = ("create", "renew", "expire", "describe")
_REQUIRED: Final = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
_REFUSED: Final = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}


@click.command()
@bootstrap_option(required=True, changes=("create", "renew", "expire"))
@api_timeout_option()
@command_config_option
@click.option("--create", is_flag=True, help="Make a token for this user, or for another owner.")
@click.option("--renew", is_flag=True, help="Let a token live on.")
@click.option("--expire", is_flag=True, help="End a token, now or later.")
@click.option("--describe", is_flag=True, help="Show the tokens that this user may see.")
@click.option(
    "--owner-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Whose token is made, or whose tokens are shown.",
)
@click.option(
    "--renewer-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Who may renew the token beside its owner; repeatable.",
)
@click.option(
    "--max-life-time-period",
    type=int,
    metavar="MS",
    help="How long it lives; -1: as brokers say.",
)
@click.option(
    "--renew-time-period",
    type=int,
    metavar="MS",
    help="How long it is good then; -1: as brokers say.",
)
@click.option("--expiry-time-period", type=int, metavar="MS", help="After what time it ends; -1: now.")
@click.option("--hmac", metavar="BASE64", help="The secret of the token.")
@json_option
@click.pass_context
def delegation_tokens(ctx: click.Context, /, **_given: object) -> None:
    """Make, renew, end and show delegation tokens, with the flags and lines of kafka-delegation-tokens.sh.

    A client logs in with a token by SCRAM: its id is the user, its HMAC the password, and the line of JAAS
    has tokenauth=true.

    \b
    Examples:
      barnabas delegation-tokens --create --max-life-time-period -1 --renewer-principal User:bob \\
          --bootstrap-server 127.0.0.1:9092 --command-config client.properties
      barnabas delegation-tokens --describe --bootstrap-server 127.0.0.1:9092 \\
          --command-config client.properties
      barnabas delegation-tokens --expire --expiry-time-period -1 --hmac BASE64 \\
          --bootstrap-server 127.0.0.1:9092 --command-config client.properties
    """
    given = kafka_names(ctx.params)
    _check(given)
    from barnabas.cli import delegation_token_service

    delegation_token_service.run(given)


def _check(given: dict[str, Any]) -> None:
    """The rules of ``DelegationTokenCommandOptions``, in its order."""
    actions = [each for each in _ACTIONS if given[each]]
    if len(actions) != 1:
        raise ToolError("Command must include exactly one action: --create, --renew, --expire or --describe")
    (action,) = actions
    for required in ("command-config", *_REQUIRED[action]):
        if given[required] is None:
            raise ToolError(f'Missing required argument "[{required}]"')
    refuse_json(given, "describe")
    refuse_together(given, action, _REFUSED[action])

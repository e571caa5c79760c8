"""``barnabas reassign-partitions``: kafka-reassign-partitions.sh."""

from typing import Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, refuse_json
from barnabas.cli.options import (
    LONG_MAX,
    ToolError,
    api_timeout_option,
    command_config_option,
    kafka_names,
)

_FILE: Final = "reassignment-json-file"
_TOPICS: Final = "topics-to-move-json-file"
_REQUIRED: Final = {
    "generate": (_TOPICS, "broker-list"),
    "execute": (_FILE,),
    "verify": (_FILE,),
    "cancel": (_FILE,),
    "list": (),
}
_PERMITTED: Final = {
    "generate": ("disable-rack-aware",),
    "execute": (
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout"),
    "list": (),
}
_EVERYWHERE: Final = ("bootstrap-server", "command-config", "as-json")
_DEFAULTS: Final = {"throttle": -1, "replica-alter-log-dirs-throttle": -1, "timeout": 10_000}
_RATE: Final = click.IntRange(-LONG_MAX, LONG_MAX)


@click.command()
@bootstrap_option(changes=("execute", "cancel"))
@api_timeout_option(flag="--api-timeout")
@command_config_option
@click.option(
    "--generate", is_flag=True, help="Propose replicas for topics on these brokers; changes nothing."
)
@click.option("--execute", is_flag=True, help="Begin to move partitions as the file says.")
@click.option("--verify", is_flag=True, help="Say what has moved; takes the throttles away when all has.")
@click.option("--cancel", is_flag=True, help="Give up the moves of the file's partitions.")
@click.option("--list", is_flag=True, help="Say which partitions are on the move.")
@click.option(f"--{_FILE}", metavar="FILE", help="Partitions with the replicas that they are to have.")
@click.option(f"--{_TOPICS}", metavar="FILE", help="With --generate: the topics.")
@click.option("--broker-list", metavar="ID,ID", help="With --generate: the brokers that may get replicas.")
@click.option("--disable-rack-aware", is_flag=True, help="With --generate: do not look at racks.")
@click.option(
    "--throttle", type=_RATE, metavar="BYTES", help="With --execute: what each broker may copy in a second."
)
@click.option(
    "--additional", is_flag=True, help="With --execute: others may be on the move; or change their throttle."
)
@click.option(
    "--disallow-replication-factor-change",
    is_flag=True,
    help="With --execute: refuse a plan that gives a partition more or fewer replicas.",
)
@click.option(
    "--preserve-throttles", is_flag=True, help="With --verify and --cancel: leave all throttles as they are."
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    type=_RATE,
    metavar="BYTES",
    help="With --execute: what each broker may copy between its log directories in a second.",
)
@click.option(
    "--timeout",
    type=_RATE,
    metavar="MS",
    help="With --execute and --cancel: how long moves between log directories may take to begin.  [default: "
    "10000]",
)
@json_option
@click.pass_context
def reassign_partitions(ctx: click.Context, /, **_given: object) -> None:
    """Move replicas to other brokers, with the flags, files and lines of kafka-reassign-partitions.sh.

    The file of --execute, --verify and --cancel is what --generate prints, or
    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 3]}]};
    with "log_dirs": ["any", "/disk2"] beside "replicas", the second one moves to that log directory of its
    broker; that of --generate is {"version": 1, "topics": [{"topic": "orders"}]}.

    --execute prints the replicas of now first: keep them to go back. The partition is moved when its new
    replicas are in sync. Run --verify until it says so: it takes the throttles away.

    \b
    Examples:
      barnabas reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 2,3 \\
          --bootstrap-server 127.0.0.1:9092
      barnabas reassign-partitions --execute --reassignment-json-file plan.json --throttle 50000000 \\
          --bootstrap-server 127.0.0.1:9092
      barnabas reassign-partitions --verify --reassignment-json-file plan.json --bootstrap-server
      127.0.0.1:9092 barnabas reassign-partitions --list --bootstrap-server 127.0.0.1:9092 barnabas
      reassign-partitions --cancel --reassignment-json-file plan.json --bootstrap-server 127.0.0.1:9092
    """
    given = kafka_names(ctx.params)
    _check(given)
    from barnabas.cli import reassignment_service

    for option, default in _DEFAULTS.items():
        given[option] = default if given[option] is None else given[option]
    reassignment_service.run(given)


def _check(given: dict[str, Any]) -> None:
    """The rules of ``validateAndParseArgs``, in its order."""
    actions = [action for action in _REQUIRED if given[action]]
    if len(actions) != 1:
        raise _wrong_use(
            f"Command must include exactly one action: {', '.join(f'--{one}' for one in _REQUIRED)}"
        )
    (action,) = actions
    refuse_json(given, "generate", "list")
    if not given["bootstrap-server"]:
        raise _wrong_use("Please specify --bootstrap-server")
    for option in _REQUIRED[action]:
        if given[option] is None:
            raise _wrong_use(f'Missing required argument "[{option}]"')
    allowed = {action, *_EVERYWHERE, *_REQUIRED[action], *_PERMITTED[action]}
    for option, value in given.items():
        if value not in (None, False) and option not in allowed:
            raise _wrong_use(f'Option "[{option}]" can\'t be used with action "[{action}]"')


def _wrong_use(message: str) -> ToolError:
    return ToolError(f"{message}\nSee barnabas reassign-partitions --help for the options, with examples.")

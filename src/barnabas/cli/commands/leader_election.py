"""``barnabas leader-election``: kafka-leader-election.sh."""

from typing import Any

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.options import (
    OldName,
    ToolCommand,
    ToolError,
    api_timeout_option,
    file_option,
    kafka_names,
)

_WHICH = ("topic", "all-topic-partitions", "path-to-json-file")


@click.command(cls=ToolCommand)
@bootstrap_option(changes=["leader-election"])
@api_timeout_option(30_000)
@file_option(
    "--command-config",
    "command_config",
    "Options of the admin client.",
    OldName(
        "--admin.config", together='Option "[admin.config]" can\'t be used with option "[command-config]"'
    ),
)
@click.option(
    "--election-type",
    type=click.Choice(["preferred", "unclean"], case_sensitive=False),
    help="preferred: the first replica, where it is in sync. unclean: any live one where there is no leader;"
    " records may be lost.",
)
@click.option("--topic", "-t", metavar="NAME", help="The topic of the one partition that gets a leader.")
@click.option("--partition", type=int, metavar="P", help="With --topic: its partition.")
@click.option("--all-topic-partitions", is_flag=True, help="All partitions that need it.")
@click.option("--path-to-json-file", metavar="FILE", help="The partitions of a file.")
@click.pass_context
def leader_election(ctx: click.Context, /, **_given: object) -> None:
    """Elect leaders of partitions, with the flags, files and lines of kafka-leader-election.sh.

    A file is {"partitions": [{"topic": "orders", "partition": 0}]}.

    \b
    Examples:
      barnabas leader-election --election-type preferred --all-topic-partitions \\
          --bootstrap-server 127.0.0.1:9092
      barnabas leader-election --election-type unclean --topic orders --partition 0 \\
          --bootstrap-server 127.0.0.1:9092
    """
    given = kafka_names(ctx.params)
    _check(given)
    from barnabas.cli import election_service

    election_service.run(given)


def _check(given: dict[str, Any]) -> None:
    """The rules of ``LeaderElectionCommandOptions.validate``."""
    if missing := [option for option in ("bootstrap-server", "election-type") if not given[option]]:
        raise ToolError(f"Missing required option(s): {', '.join(missing)}")
    if sum(given[option] not in (None, False) for option in _WHICH) != 1:
        raise ToolError(f"One and only one of the following options is required: {', '.join(_WHICH)}")
    if given["topic"] is not None and given["partition"] is None:
        raise ToolError("Missing required option(s): partition")
    if given["topic"] is None and given["partition"] is not None:
        raise ToolError("Option partition is only allowed if topic is used")

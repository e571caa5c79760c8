"""``barnabas verifiable-consumer``: kafka-verifiable-consumer.sh."""

import asyncio
import sys
from pathlib import Path
from typing import Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.options import (
    INT_MAX,
    LONG_MAX,
    ArgparseCommand,
    OldName,
    api_timeout_ms,
    api_timeout_option,
    client_options,
    file_option,
)

_RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


@click.command(cls=ArgparseCommand)
@bootstrap_option(instead=["broker_list"])
@api_timeout_option()
@click.option("--broker-list", metavar="HOST:PORT", help="The old name of --bootstrap-server.")
@click.option("--topic", "-t", required=True, metavar="NAME", help="The topic to read.")
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "consumer"], case_sensitive=False),
    default="classic",
    show_default=True,
    help="How the group is kept; this client knows classic.",
)
@click.option(
    "--group-remote-assignor", expose_value=False, metavar="NAME", help="Has no effect with classic groups."
)
@click.option("--group-id", required=True, metavar="NAME", help="Read as a member of this group.")
@click.option("--group-instance-id", metavar="NAME", help="A name that makes the member a static one.")
@click.option(
    "--max-messages",
    type=click.IntRange(max=INT_MAX),
    default=-1,
    show_default=True,
    metavar="COUNT",
    help="How many records are read; -1: until a signal.",
)
@click.option(
    "--session-timeout",
    type=int,
    default=30_000,
    show_default=True,
    metavar="MS",
    help="Silence after which the member is given up.",
)
@click.option(
    "--close-timeout",
    "close_timeout_ms",
    type=click.IntRange(0, LONG_MAX),
    default=30_000,
    show_default=True,
    metavar="MS",
    help="How long the end may take: the last commit, and leaving the group.",
)
@click.option("--verbose", is_flag=True, help="Print a line for each record, too.")
@click.option(
    "--enable-autocommit",
    "autocommit",
    is_flag=True,
    help="Commit now and then, in place of after each fetch with a line for it.",
)
@click.option(
    "--reset-policy",
    default="earliest",
    show_default=True,
    help="Where to begin without a position: earliest, latest or none.",
)
@click.option(
    "--assignment-strategy",
    default=_RANGE,
    show_default=True,
    metavar="NAME",
    help="How the group divides partitions: the class of Kafka's or its short name.",
)
@file_option(
    "--command-config",
    "config_file",
    "Options of the consumer, from a file; flags win over them.",
    OldName("--consumer.config", together="Options {old} and {new} are mutually exclusive."),
)
def verifiable_consumer(
    bootstrap_server: str | None,
    broker_list: str | None,
    topic: str,
    group_protocol: str,
    group_id: str,
    group_instance_id: str | None,
    max_messages: int,
    session_timeout: int,
    close_timeout_ms: int,
    verbose: bool,
    autocommit: bool,
    reset_policy: str,
    assignment_strategy: str,
    config_file: Path | None,
) -> None:
    """Read as a member of a group, and print a line of JSON for each rebalance, each fetch and each commit.

    SIGTERM and Ctrl-C end it; it leaves the group before.

    \b
    Examples:
      barnabas verifiable-consumer --topic orders --group-id billing --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.cli.verifiable_consumer import VerifiableConsumer
    from barnabas.cli.verifiable_events import run_until_signal
    from barnabas.client.config import CONSUMER_CONFIG

    if (bootstrap_server is None) == (broker_list is None):
        raise click.UsageError("exactly one of --bootstrap-server, --broker-list is required")
    if group_protocol.lower() == "consumer":
        raise click.UsageError("--group-protocol consumer: this client knows the classic protocol only")
    bootstrap = bootstrap_server or broker_list or ""
    options = {
        **client_options(config_file, (), CONSUMER_CONFIG, bootstrap, "verifiable-consumer"),
        "group.id": group_id,
        "partition.assignment.strategy": assignment_strategy,
        "enable.auto.commit": str(autocommit).lower(),
        "auto.offset.reset": reset_policy,
        "session.timeout.ms": str(session_timeout),
    }
    if group_instance_id is not None:
        options["group.instance.id"] = group_instance_id
    consumer = VerifiableConsumer(
        topic,
        max_messages,
        verbose=verbose,
        commits=not autocommit,
        close_timeout_ms=close_timeout_ms,
        connects=api_timeout_ms() is not None,
    )
    sys.exit(asyncio.run(run_until_signal(consumer.run(options))))

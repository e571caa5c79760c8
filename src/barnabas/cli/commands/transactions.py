"""``barnabas transactions``: kafka-transactions.sh."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option
from barnabas.cli.options import (
    INT_MAX,
    LONG_MAX,
    ToolError,
    admin_options,
    api_timeout_option,
    command_config_option,
)
from barnabas.core.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import AsyncAdmin

_SHORT_MAX: Final = 2**15 - 1
_SHORT: Final = click.IntRange(-_SHORT_MAX - 1, _SHORT_MAX)
_INT: Final = click.IntRange(-INT_MAX - 1, INT_MAX)
_LONG: Final = click.IntRange(-LONG_MAX - 1, LONG_MAX)
_MINUTE_MS: Final = 60_000

_topic_option: Final = click.option("--topic", "-t", required=True, metavar="NAME", help="The topic.")
_partition_option: Final = click.option(
    "--partition", required=True, type=_INT, metavar="P", help="The partition."
)

_Run = Callable[[Callable[["AsyncAdmin"], Awaitable[None]]], None]
"""How a command of the group is run on the cluster."""


@click.group()
@bootstrap_option(required=True, changes=["abort"])
@api_timeout_option()
@command_config_option
@click.pass_context
def transactions(ctx: click.Context, bootstrap_server: str, command_config: Path | None) -> None:
    """Look at transactions and at the producers that partitions remember, and end a transaction that hangs,
    with the lines of kafka-transactions.sh 3.9.

    A transaction hangs when a partition has it open and no coordinator knows of that. Consumers with
    isolation.level=read_committed do not get past its first record. find-hanging finds it, abort ends it.

    \b
    Examples:
      barnabas transactions --bootstrap-server 127.0.0.1:9092 list
      barnabas transactions --bootstrap-server 127.0.0.1:9092 describe --transactional-id payments-1
      barnabas transactions --bootstrap-server 127.0.0.1:9092 describe-producers --topic orders --partition 0
      barnabas transactions --bootstrap-server 127.0.0.1:9092 find-hanging --broker-id 0
      barnabas transactions --bootstrap-server 127.0.0.1:9092 abort --topic orders --partition 0 \\
          --start-offset 4711
    """
    options = admin_options(command_config, bootstrap_server, "transactions")

    def run(command: Callable[["AsyncAdmin"], Awaitable[None]]) -> None:
        from barnabas.cli import transaction_service

        asyncio.run(transaction_service.run(options, command))

    ctx.obj = run


@transactions.command("list")
@click.option(
    "--duration-filter",
    type=_LONG,
    metavar="MS",
    help="Only transactions that run longer than this; all when it is negative.",
)
@click.option(
    "--transactional-id-pattern",
    "pattern",
    metavar="REGEX",
    help="Only ids that match this expression as a whole (Kafka 4.1 and later).",
)
@json_option
@click.pass_obj
def list_(run: _Run, duration_filter: int | None, pattern: str | None, as_json: bool) -> None:
    """Print a table of the transactional ids of all coordinators."""
    from barnabas.cli import transaction_service as service

    run(lambda admin: service.list_transactions(admin, duration_filter, pattern, as_json=as_json))


@transactions.command()
@click.option("--transactional-id", required=True, metavar="ID", help="The transactional id.")
@json_option
@click.pass_obj
def describe(run: _Run, transactional_id: str, as_json: bool) -> None:
    """Print where a transactional id stands, as its coordinator says."""
    from barnabas.cli import transaction_service as service

    run(lambda admin: service.describe(admin, transactional_id, as_json=as_json))


@transactions.command("describe-producers")
@click.option(
    "--broker-id", "broker", type=_INT, metavar="ID", help="Ask this replica.  [default: the leader]"
)
@_topic_option
@_partition_option
@json_option
@click.pass_obj
def describe_producers(run: _Run, broker: int | None, topic: str, partition: int, as_json: bool) -> None:
    """Print a table of the producers that a partition remembers."""
    from barnabas.cli import transaction_service as service

    tp = TopicPartition(topic, partition)
    run(lambda admin: service.describe_producers(admin, tp, broker, as_json=as_json))


@transactions.command()
@_topic_option
@_partition_option
@click.option(
    "--start-offset",
    type=_LONG,
    metavar="OFFSET",
    help="Where the transaction begins. Brokers since 3.0 know whose it is.",
)
@click.option("--producer-id", type=_LONG, metavar="ID", help="For older brokers: whose transaction it is.")
@click.option("--producer-epoch", type=_SHORT, metavar="EPOCH", help="For older brokers: with which epoch.")
@click.option(
    "--coordinator-epoch",
    type=_INT,
    metavar="EPOCH",
    help="For older brokers: the epoch of the coordinator's last marker.",
)
@click.pass_obj
def abort(
    run: _Run,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> None:
    """Abort a hanging transaction in one partition; needs ALTER or CLUSTER_ACTION on the cluster.

    The coordinator is not asked: a transaction that it still has stays open in its other
    partitions.
    """
    from barnabas.cli import transaction_service as service

    tp = TopicPartition(topic, partition)
    if start_offset is not None:
        return run(lambda admin: service.abort_from(admin, tp, start_offset))
    if producer_id is None:
        raise ToolError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or"
            " above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if producer_epoch is None:
        raise ToolError("Missing required argument --producer-epoch")
    if coordinator_epoch is None:
        raise ToolError("Missing required argument --coordinator-epoch")
    return run(lambda admin: service.abort(admin, tp, producer_id, producer_epoch, coordinator_epoch))


@transactions.command("find-hanging")
@click.option("--broker-id", "broker", type=_INT, metavar="ID", help="Search the replicas of this broker.")
@click.option(
    "--max-transaction-timeout",
    "longest_minutes",
    type=_INT,
    default=15,
    show_default=True,
    metavar="MINUTES",
    help="Look only at transactions that are open for longer.",
)
@click.option("--topic", "-t", metavar="NAME", help="Search this topic.")
@click.option("--partition", type=_INT, metavar="P", help="Search only this partition of it.")
@json_option
@click.pass_obj
def find_hanging(
    run: _Run,
    broker: int | None,
    longest_minutes: int,
    topic: str | None,
    partition: int | None,
    as_json: bool,
) -> None:
    """Print a table of open transactions that no coordinator will end."""
    from barnabas.cli import transaction_service as service

    if topic is None and broker is None:
        raise ToolError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the"
            " search"
        )
    if partition is not None and topic is None:
        raise ToolError("The --partition argument requires --topic to be provided")
    longest_ms = longest_minutes * _MINUTE_MS
    run(lambda admin: service.find_hanging(admin, topic, partition, broker, longest_ms, as_json=as_json))

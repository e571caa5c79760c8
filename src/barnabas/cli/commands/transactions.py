"""``barnabas transactions``: kafka-transactions.sh."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.options import (
    ToolError,
    admin_options,
    bootstrap_option,
    command_config_option,
    connected_admin,
)
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import ProducerState

_HEADERS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)


@click.group()
@bootstrap_option(required=True)
@command_config_option
@click.pass_context
def transactions(ctx: click.Context, bootstrap_server: str, command_config: Path | None) -> None:
    """Show the producers that partitions remember, with the lines of kafka-transactions.sh.

    \b
    Examples:
      barnabas transactions --bootstrap-server 127.0.0.1:9092 describe-producers --topic orders --partition 0
    """
    ctx.obj = (bootstrap_server, command_config)


@transactions.command("describe-producers")
@click.option(
    "--broker-id", "broker", type=int, metavar="ID", help="Ask this replica.  [default: the leader]"
)
@click.option("--topic", required=True, metavar="NAME", help="The topic.")
@click.option("--partition", required=True, type=int, metavar="P", help="The partition.")
@click.pass_obj
def describe_producers(
    where: tuple[str, Path | None], broker: int | None, topic: str, partition: int
) -> None:
    """Print a table of the producers that a partition remembers."""
    tp = TopicPartition(topic, partition)
    try:
        found = asyncio.run(_ask(where, tp, broker))
    except BarnabasError as error:
        place = "leader" if broker is None else f"broker {broker}"
        raise ToolError(
            f"Failed to describe producers for partition {tp} on {place}: {error}."
            " Enable debug logging for additional detail."
        ) from error
    _print_table(_row(state) for state in found)


async def _ask(
    where: tuple[str, Path | None], tp: TopicPartition, broker: int | None
) -> "list[ProducerState]":
    bootstrap, command_config = where
    async with connected_admin(admin_options(command_config, bootstrap, "transactions")) as admin:
        return (await admin.transactions.describe_producers([tp], broker=broker))[tp]


def _row(state: "ProducerState") -> Sequence[str]:
    start = state.current_transaction_start_offset
    figures = (
        state.producer_id,
        state.epoch,
        state.coordinator_epoch,
        state.last_sequence,
        state.last_timestamp,
        "None" if start is None else start,
    )
    return tuple(map(str, figures))


def _print_table(rows: Iterable[Sequence[str]]) -> None:
    """``ToolsUtils.prettyPrintTable``: columns of equal width, a tab behind each."""
    table = [_HEADERS, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        click.echo("".join(f"{value:<{width}}\t" for value, width in zip(row, widths, strict=True)))

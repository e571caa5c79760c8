"""``barnabas transactional-message-copier``: Kafka's class of this name, which its system tests run."""

import asyncio
import sys
from typing import Final

import click

from barnabas.cli.options import INT_MAX, ArgparseCommand

_INT: Final = click.IntRange(-INT_MAX - 1, INT_MAX)


@click.command(cls=ArgparseCommand)
@click.option("--input-topic", required=True, metavar="NAME", help="The topic to read.")
@click.option(
    "--input-partition", required=True, type=_INT, metavar="P", help="Its partition; not with --group-mode."
)
@click.option("--output-topic", required=True, metavar="NAME", help="The topic to write.")
@click.option("--broker-list", required=True, metavar="HOST:PORT", help="The brokers to connect to first.")
@click.option(
    "--max-messages",
    type=_INT,
    default=-1,
    show_default=True,
    metavar="COUNT",
    help="How many records are copied; -1: up to the end, as it is at the start.",
)
@click.option(
    "--consumer-group",
    default="-1",
    show_default=True,
    metavar="NAME",
    help="The group that keeps the offsets.",
)
@click.option(
    "--transaction-size",
    type=click.IntRange(1, INT_MAX),
    default=200,
    show_default=True,
    metavar="COUNT",
    help="Records in a transaction, at most.",
)
@click.option(
    "--transaction-timeout",
    type=click.IntRange(1, INT_MAX),
    default=60_000,
    show_default=True,
    metavar="MS",
    help="After so long the coordinator aborts a transaction.",
)
@click.option("--transactional-id", required=True, metavar="ID", help="The transactional id.")
@click.option(
    "--enable-random-aborts", "random_aborts", is_flag=True, help="Abort about every third transaction."
)
@click.option("--group-mode", is_flag=True, help="Read what the group assigns, not one partition.")
@click.option(
    "--use-group-metadata", "group_metadata", is_flag=True, help="Let the group fence a member that is out."
)
def transactional_message_copier(
    input_topic: str,
    input_partition: int,
    output_topic: str,
    broker_list: str,
    max_messages: int,
    consumer_group: str,
    transaction_size: int,
    transaction_timeout: int,
    transactional_id: str,
    random_aborts: bool,
    group_mode: bool,
    group_metadata: bool,
) -> None:
    """Copy records from a topic to another in transactions, with the offsets of what was read, and print a
    line of JSON for each poll.

    SIGTERM and Ctrl-C end it; a transaction that is open is aborted then.

    \b
    Examples:
      barnabas transactional-message-copier --input-topic orders --input-partition 0 --output-topic copies \\
          --consumer-group copiers --transactional-id copier-0 --broker-list 127.0.0.1:9092
    """
    from barnabas.cli.message_copier import CopyJob, copy
    from barnabas.cli.verifiable_events import run_until_signal

    job = CopyJob(
        input_topic,
        input_partition,
        output_topic,
        consumer_group,
        transactional_id,
        max_messages,
        random_aborts=random_aborts,
        group_mode=group_mode,
        group_metadata=group_metadata,
    )
    consumer = {
        "bootstrap.servers": broker_list,
        "group.id": consumer_group,
        "isolation.level": "read_committed",
        "max.poll.records": transaction_size,
        "enable.auto.commit": "false",
        "session.timeout.ms": 10_000,
        "max.poll.interval.ms": 180_000,
        "heartbeat.interval.ms": 3000,
        "auto.offset.reset": "earliest",
    }
    producer = {
        "bootstrap.servers": broker_list,
        "transactional.id": transactional_id,
        # Small batches, so that a transaction has several requests in flight.
        "batch.size": 512,
        "max.in.flight.requests.per.connection": 5,
        "transaction.timeout.ms": transaction_timeout,
    }
    sys.exit(asyncio.run(run_until_signal(copy(job, consumer, producer))))

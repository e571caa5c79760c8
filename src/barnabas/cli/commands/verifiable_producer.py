"""``barnabas verifiable-producer``: kafka-verifiable-producer.sh."""

import asyncio
import sys
from pathlib import Path

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
    properties,
)


@click.command(cls=ArgparseCommand)
@click.option("--topic", "-t", required=True, metavar="NAME", help="The topic to send to.")
@bootstrap_option(instead=["broker_list"], changes=["verifiable-producer"])
@api_timeout_option()
@click.option("--broker-list", metavar="HOST:PORT", help="The old name of --bootstrap-server.")
@click.option(
    "--max-messages",
    type=click.IntRange(max=INT_MAX),
    default=-1,
    show_default=True,
    metavar="COUNT",
    help="How many records are sent; -1: until a signal.",
)
@click.option(
    "--throughput",
    type=click.IntRange(max=INT_MAX),
    default=-1,
    show_default=True,
    metavar="RATE",
    help="Records a second, at most and roughly; -1 for no limit.",
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "-1"]),
    default="-1",
    show_default=True,
    help="Acknowledgements to wait for: 0, 1, or -1 for the whole ISR.",
)
@file_option(
    "--command-config",
    "config_file",
    "Options of the producer, from a file; they win over flags.",
    OldName("--producer.config", together="Options {old} and {new} are mutually exclusive."),
)
@click.option(
    "--message-create-time",
    "create_time",
    type=click.IntRange(-1, LONG_MAX),
    default=-1,
    show_default=True,
    metavar="MS",
    help="The timestamp of the first record, in milliseconds since 1970; -1: now.",
)
@click.option("--value-prefix", type=int, metavar="NUMBER", help="Values are NUMBER.0, NUMBER.1 and so on.")
@click.option(
    "--repeating-keys", type=int, metavar="COUNT", help="Keys from 0 to below COUNT, over and over."
)
def verifiable_producer(
    topic: str,
    bootstrap_server: str | None,
    broker_list: str | None,
    max_messages: int,
    throughput: int,
    acks: str,
    config_file: Path | None,
    create_time: int,
    value_prefix: int | None,
    repeating_keys: int | None,
) -> None:
    """Send the numbers from 0 on, and print a line of JSON for each that was acknowledged or refused.

    Unlike Kafka's script, which sends each record once, it tries again where that is safe. SIGTERM and Ctrl-C
    end it after everything that was sent has its line.

    \b
    Examples:
      barnabas verifiable-producer --topic orders --max-messages 1000 --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.cli.verifiable_events import run_until_signal
    from barnabas.cli.verifiable_producer import Numbers, VerifiableProducer
    from barnabas.client.config import PRODUCER_CONFIG

    if (bootstrap_server is None) == (broker_list is None):
        raise click.UsageError("exactly one of --bootstrap-server, --broker-list is required")
    from_file = properties(config_file)
    bootstrap = from_file.get("bootstrap.servers") or bootstrap_server or broker_list or ""
    options = {
        "acks": acks,
        **client_options(config_file, (), PRODUCER_CONFIG, bootstrap, "verifiable-producer"),
    }
    numbers = Numbers(value_prefix, repeating_keys, None if create_time == -1 else create_time)
    producer = VerifiableProducer(
        topic, numbers, max_messages, throughput, connects=api_timeout_ms() is not None
    )
    sys.exit(asyncio.run(run_until_signal(producer.run(options))))

"""``barnabas producer-perf-test``: kafka-producer-perf-test.sh."""

import asyncio
from pathlib import Path
from typing import Any, Final

import click

from barnabas.cli.options import (
    LONG_MAX,
    ArgparseCommand,
    client_options,
    file_option,
    properties,
)

_PROPS: Final = "--producer-props"


class _PerfCommand(ArgparseCommand):
    """``--producer-props`` takes every word up to the next flag; when repeated, the last one counts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest: list[str] = []
        pairs: list[str] | None = None
        for word in args:
            flag, equals, value = word.partition("=")
            if flag == _PROPS:
                pairs = [value] if equals else []
                taking = pairs
            elif word.startswith("-") or pairs is None or taking is not pairs:
                taking = rest
                rest.append(word)
            else:
                pairs.append(word)
        if pairs == []:
            raise click.UsageError(f"argument {_PROPS}: expected at least one argument", ctx)
        return super().parse_args(ctx, [*rest, *(f"{_PROPS}={pair}" for pair in pairs or ())])


@click.command(cls=_PerfCommand)
@click.option("--topic", required=True, metavar="NAME", help="The topic to send to.")
@click.option(
    "--num-records",
    "records",
    required=True,
    type=click.IntRange(1, LONG_MAX),
    metavar="COUNT",
    help="How many records are sent.",
)
@click.option(
    "--record-size", type=click.IntRange(min=0), metavar="BYTES", help="Random values of this size."
)
@file_option("--payload-file", "payload_file", "Values that are drawn from a text file in UTF-8.")
@click.option("--payload-monotonic", is_flag=True, help="The values 0, 1, 2 and so on.")
@click.option(
    "--payload-delimiter",
    default="\\n",
    show_default=True,
    metavar="REGEX",
    help="What separates the values in the file.",
)
@click.option(
    "--throughput",
    required=True,
    type=float,
    metavar="RATE",
    help="Records a second, at most and roughly; -1 for no limit.",
)
@click.option(
    _PROPS, "pairs", multiple=True, metavar="KEY=VALUE...", help="Options of the producer, one or more."
)
@file_option("--producer.config", "config_file", "Options of the producer, from a file.")
@click.option(
    "--print-metrics", is_flag=True, help="Taken for the script's sake: this client keeps no metrics."
)
@click.option(
    "--transactional-id",
    default="performance-producer-default-transactional-id",
    show_default=True,
    metavar="ID",
    help="With --transaction-duration-ms: the transactional id.",
)
@click.option(
    "--transaction-duration-ms",
    type=click.IntRange(-LONG_MAX - 1, LONG_MAX),
    default=0,
    show_default=True,
    metavar="MS",
    help="Commit a transaction when it is that old; without transactions when it is not above 0.",
)
def producer_perf_test(
    topic: str,
    records: int,
    record_size: int | None,
    payload_file: Path | None,
    payload_monotonic: bool,
    payload_delimiter: str,
    throughput: float,
    pairs: tuple[str, ...],
    config_file: Path | None,
    print_metrics: bool,
    transactional_id: str,
    transaction_duration_ms: int,
) -> None:
    """Send records as fast as they go, or at a rate, and print throughput and latencies.

    One of --record-size, --payload-file and --payload-monotonic says what is sent.

    \b
    Examples:
      barnabas producer-perf-test --topic orders --num-records 100000 --record-size 100 --throughput -1 \\
        --producer-props bootstrap.servers=127.0.0.1:9092 linger.ms=5
      barnabas producer-perf-test --topic orders --num-records 100000 --record-size 100 --throughput -1 \\
        --transaction-duration-ms 100 --producer-props bootstrap.servers=127.0.0.1:9092
    """
    from barnabas.cli.producer_performance import file_payloads, monotonic_payloads, random_payloads, send_all

    if (record_size is not None) + (payload_file is not None) + payload_monotonic != 1:
        raise click.UsageError(
            "exactly one of --record-size, --payload-file, --payload-monotonic is required"
        )
    if not pairs and config_file is None:
        raise click.UsageError("Either --producer-props or --producer.config must be specified.")
    options = _options(pairs, config_file)
    if transaction_duration_ms > 0:
        options["transactional.id"] = transactional_id
    if print_metrics:
        click.echo("Warning: this client keeps no metrics to print", err=True)
    if payload_file is not None:
        payloads = file_payloads(payload_file, payload_delimiter)
    elif record_size is not None:
        payloads = random_payloads(record_size)
    else:
        payloads = monotonic_payloads()
    asyncio.run(send_all(topic, records, payloads, throughput, options, transaction_duration_ms))


def _options(pairs: tuple[str, ...], config_file: Path | None) -> dict[str, Any]:
    """The options of the producer: the file's, then the pairs; raises ClickException."""
    from barnabas.client.config import PRODUCER_CONFIG

    for pair in pairs:
        key, _, value = pair.partition("=")
        if not key or not value or "=" in value:
            raise click.ClickException(f"Invalid property: {pair}")
    given = {**properties(config_file), **dict(pair.split("=") for pair in pairs)}
    if "bootstrap.servers" not in given:
        raise click.ClickException(
            'Missing required configuration "bootstrap.servers" which has no default value.'
        )
    return client_options(
        config_file, pairs, PRODUCER_CONFIG, given["bootstrap.servers"], "perf-producer-client"
    )

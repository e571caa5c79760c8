"""``barnabas producer-perf-test``: kafka-producer-perf-test.sh."""

import asyncio
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

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
    pairs_option,
    properties,
)

_PAIRS: Final = ("--command-property", "--producer-props")


class _PerfCommand(ArgparseCommand):
    """The flags of `_PAIRS` take every word up to the next flag; of one that is repeated, the last counts."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest: list[str] = []
        pairs: dict[str, list[str]] = {}
        taking = rest
        for word in args:
            flag, equals, value = word.partition("=")
            if flag in _PAIRS:
                taking = pairs[flag] = [value] if equals else []
            elif word.startswith("-"):
                taking = rest
                rest.append(word)
            else:
                taking.append(word)
        for flag, words in pairs.items():
            if not words:
                raise click.UsageError(f"argument {flag}: expected at least one argument", ctx)
            rest += [f"{flag}={pair}" for pair in words]
        return super().parse_args(ctx, rest)


@click.command(cls=_PerfCommand)
@click.option("--topic", "-t", required=True, metavar="NAME", help="The topic to send to.")
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
    "--record-key-range",
    "key_range",
    type=click.IntRange(max=INT_MAX),
    metavar="COUNT",
    help="How many keys there are: the numbers from 0 on, as text.",
)
@click.option(
    "--key-distribution",
    type=click.Choice(["none", "range", "random"]),
    default="none",
    show_default=True,
    help="Which key a record has: none, each in turn, or one at random.",
)
@click.option(
    "--random-seed",
    "seed",
    type=click.IntRange(-LONG_MAX - 1, LONG_MAX),
    default=0,
    show_default=True,
    metavar="NUMBER",
    help="Another number gives other random values and keys.",
)
@click.option(
    "--throughput",
    required=True,
    type=float,
    metavar="RATE",
    help="Records a second, at most and roughly; -1 for no limit.",
)
@bootstrap_option(changes=["producer-perf-test"])
@api_timeout_option()
@pairs_option(
    "--command-property", "pairs", "Options of the producer, one or more.", OldName("--producer-props")
)
@file_option(
    "--command-config", "config_file", "Options of the producer, from a file.", OldName("--producer.config")
)
@click.option(
    "--reporting-interval",
    "interval_ms",
    type=click.IntRange(max=LONG_MAX),
    default=5000,
    show_default=True,
    metavar="MS",
    help="How often a line says how fast it goes.",
)
@click.option(
    "--warmup-records",
    "warmup",
    type=click.IntRange(max=LONG_MAX),
    default=0,
    show_default=True,
    metavar="COUNT",
    help="One more line at the end leaves these first records out.",
)
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
    key_range: int | None,
    key_distribution: str,
    seed: int,
    throughput: float,
    bootstrap_server: str | None,
    pairs: tuple[str, ...],
    config_file: Path | None,
    interval_ms: int,
    warmup: int,
    print_metrics: bool,
    transactional_id: str,
    transaction_duration_ms: int,
) -> None:
    """Send records as fast as they go, or at a rate, and print throughput and latencies.

    One of --record-size, --payload-file and --payload-monotonic says what is sent.

    \b
    Examples:
      barnabas producer-perf-test --topic orders --num-records 100000 --record-size 100 --throughput -1 \\
        --bootstrap-server 127.0.0.1:9092 --command-property linger.ms=5
      barnabas producer-perf-test --topic orders --num-records 100000 --record-size 100 --throughput -1 \\
        --transaction-duration-ms 100 --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.cli.producer_performance import (
        file_payloads,
        keys_of,
        monotonic_payloads,
        random_payloads,
        send_all,
    )

    if (record_size is not None) + (payload_file is not None) + payload_monotonic != 1:
        raise click.UsageError(
            "exactly one of --record-size, --payload-file, --payload-monotonic is required"
        )
    if bootstrap_server is None and not pairs and config_file is None:
        raise click.UsageError(
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or"
            " --command-config must be specified."
        )
    if interval_ms <= 0:
        raise click.UsageError("--reporting-interval should be greater than zero.")
    if warmup >= records:
        raise click.UsageError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test,"
            " --num-records."
        )
    if key_range is not None and key_range <= 0:
        raise click.UsageError("--record-key-range should be greater than zero.")
    if key_range is None and key_distribution != "none":
        raise click.UsageError(
            "--record-key-range is required when --key-distribution is 'range' or 'random'."
        )
    if key_range is not None and key_distribution == "none":
        raise click.UsageError(
            "--key-distribution must be 'range' or 'random' when --record-key-range is specified."
        )
    options = _options(bootstrap_server, pairs, config_file)
    if transaction_duration_ms > 0:
        options["transactional.id"] = transactional_id
    if print_metrics:
        click.echo("Warning: this client keeps no metrics to print", err=True)
    if payload_file is not None:
        payloads = file_payloads(payload_file, payload_delimiter, seed)
    elif record_size is not None:
        payloads = random_payloads(record_size, seed)
    else:
        payloads = monotonic_payloads()
    sending = send_all(
        topic,
        records,
        payloads,
        keys_of(key_distribution, key_range or 0, seed),
        throughput,
        options,
        interval_ms=interval_ms,
        warmup=warmup,
        transaction_ms=transaction_duration_ms,
        connects=api_timeout_ms() is not None,
    )
    asyncio.run(sending)


def _options(
    bootstrap_server: str | None, pairs: tuple[str, ...], config_file: Path | None
) -> dict[str, Any]:
    """The options of the producer: the file's, then the pairs, then the servers; raises ClickException."""
    from barnabas.client.config import PRODUCER_CONFIG

    for pair in pairs:
        key, _, value = pair.partition("=")
        if not key or not value or "=" in value:
            raise click.ClickException(f"Invalid property: {pair}")
    given = {**properties(config_file), **dict(pair.split("=") for pair in pairs)}
    # What the command line says goes before the environment and the default.
    source = click.get_current_context().get_parameter_source("bootstrap_server")
    named = given.get("bootstrap.servers")
    bootstrap = (
        bootstrap_server or named if source is ParameterSource.COMMANDLINE else named or bootstrap_server
    )
    if bootstrap is None:
        raise click.ClickException(
            'Missing required configuration "bootstrap.servers" which has no default value.'
        )
    return client_options(config_file, pairs, PRODUCER_CONFIG, bootstrap, "perf-producer-client")

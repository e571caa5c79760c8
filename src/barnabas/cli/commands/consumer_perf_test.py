"""``barnabas consumer-perf-test``: kafka-consumer-perf-test.sh."""

import asyncio
import random
from pathlib import Path
from typing import Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.options import (
    LONG_MAX,
    OldName,
    ToolCommand,
    ToolError,
    client_options,
    file_option,
    pairs_option,
    renamed_option,
)
from barnabas.core.errors import BarnabasError

_GROUPS: Final = 100_000
_DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"
_DEPRECATED: Final = "Warning: {old} is deprecated. Use {new} instead."


@click.command(cls=ToolCommand)
@bootstrap_option(instead=["broker_list"])
@click.option("--broker-list", metavar="HOST:PORT", help="The old name of --bootstrap-server.")
@click.option("--topic", "-t", metavar="NAME", help="The topic to read.")
@click.option("--include", metavar="REGEX", help="Instead of --topic: all topics whose whole name matches.")
@renamed_option(
    "--num-records",
    "messages",
    OldName(
        "--messages",
        _DEPRECATED,
        "Exactly one of the following arguments is required: [messages], [num-records]",
    ),
    type=click.IntRange(max=LONG_MAX),
    metavar="COUNT",
    help="How many records are read.",
)
@click.option(
    "--group", "-g", metavar="NAME", help="Read as a member of this group.  [default: perf-consumer-NUMBER]"
)
@click.option(
    "--fetch-size",
    type=int,
    default=1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="Bytes of one partition in one fetch.",
)
@click.option(
    "--from-latest", is_flag=True, help="Where the group has no position, begin behind the last record."
)
@click.option("--socket-buffer-size", type=int, metavar="BYTES", help="Has no effect with this client.")
@click.option("--threads", type=int, help="Has no effect, as with Kafka's script.")
@click.option("--num-fetch-threads", type=int, help="Has no effect, as with Kafka's script.")
@pairs_option("--command-property", "pairs", "An option of the consumer; repeatable.")
@file_option(
    "--command-config",
    "config_file",
    "Options of the consumer, from a file.",
    OldName(
        "--consumer.config",
        _DEPRECATED,
        'Option "[consumer.config]" can\'t be used with option "[command-config]"',
    ),
)
@click.option(
    "--print-metrics", is_flag=True, help="Taken for the script's sake: this client keeps no metrics."
)
@click.option("--show-detailed-stats", "detailed", is_flag=True, help="Print a line for each interval.")
@click.option(
    "--reporting-interval",
    "interval_ms",
    type=click.IntRange(0, LONG_MAX),
    default=5000,
    show_default=True,
    metavar="MS",
    help="The length of an interval.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=click.IntRange(max=LONG_MAX),
    is_flag=False,
    flag_value="10000",
    default=10_000,
    show_default=True,
    metavar="MS",
    help="End when no record has come for so long.",
)
@click.option(
    "--date-format",
    default=_DATE_FORMAT,
    show_default=True,
    metavar="PATTERN",
    help="How times are printed: a pattern of Java's SimpleDateFormat.",
)
@click.option("--hide-header", is_flag=True, help="Leave out the line with the names of the columns.")
def consumer_perf_test(
    bootstrap_server: str | None,
    broker_list: str | None,
    topic: str | None,
    include: str | None,
    messages: int | None,
    group: str | None,
    fetch_size: int,
    from_latest: bool,
    socket_buffer_size: int | None,
    threads: int | None,
    num_fetch_threads: int | None,
    pairs: tuple[str, ...],
    config_file: Path | None,
    print_metrics: bool,
    detailed: bool,
    interval_ms: int,
    timeout_ms: int,
    date_format: str,
    hide_header: bool,
) -> None:
    """Read records as fast as they come, as a member of a group, and print the throughput.

    \b
    Examples:
      barnabas consumer-perf-test --topic orders --num-records 100000 --bootstrap-server 127.0.0.1:9092
    """
    bootstrap = bootstrap_server or broker_list
    if not bootstrap:
        raise click.UsageError("Missing required option(s) [bootstrap-server]")
    if threads is not None or num_fetch_threads is not None:
        click.echo(
            "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by "
            "the test"
        )
    if (topic is None) == (include is None):
        raise click.UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if messages is None:
        raise click.UsageError(
            "Exactly one of the following arguments is required: [messages], [num-records]"
        )
    if socket_buffer_size is not None:
        click.echo("Warning: this client does not obey --socket-buffer-size", err=True)
    if print_metrics:
        click.echo("Warning: this client keeps no metrics to print", err=True)
    overrides = {
        "group.id": group or f"perf-consumer-{random.randrange(_GROUPS)}",
        "max.partition.fetch.bytes": str(fetch_size),
        "auto.offset.reset": "latest" if from_latest else "earliest",
        "check.crcs": "false",
    }
    options = _options(bootstrap, config_file, pairs, overrides)
    _measure(topic, include, messages, options, date_format, interval_ms, timeout_ms, detailed, hide_header)


def _options(
    bootstrap: str, config_file: Path | None, pairs: tuple[str, ...], overrides: dict[str, str]
) -> dict[str, Any]:
    from barnabas.client.config import CONSUMER_CONFIG

    given = client_options(config_file, pairs, CONSUMER_CONFIG, bootstrap, "perf-consumer-client")
    return given | overrides


def _measure(
    topic: str | None,
    include: str | None,
    messages: int,
    options: dict[str, Any],
    date_format: str,
    interval_ms: int,
    timeout_ms: int,
    detailed: bool,
    hide_header: bool,
) -> None:
    """Kafka's script prints the header before it looks at the interval and the pattern."""
    from barnabas.cli.consumer_performance import HEADER, HEADER_OF_INTERVALS, Reading
    from barnabas.cli.java_date_format import SimpleDateFormat

    if not hide_header:
        click.echo(HEADER_OF_INTERVALS if detailed else HEADER)
    if interval_ms == 0:
        raise ToolError("Reporting interval must be greater than 0.")
    try:
        dates = SimpleDateFormat(date_format)
        reading = Reading(dates, messages, timeout_ms, interval_ms if detailed else None)
        asyncio.run(reading.run(topic, include, options))
    except (ValueError, BarnabasError) as error:
        raise ToolError(str(error)) from error

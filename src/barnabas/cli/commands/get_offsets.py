"""``barnabas get-offsets``: kafka-get-offsets.sh."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, partition_facts, print_facts
from barnabas.cli.options import (
    admin_options,
    api_timeout_option,
    command_config_option,
    connected_admin,
    reported_as,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.cli.partition_filter import PartitionFilter
    from barnabas.client import OffsetAndTimestamp
    from barnabas.core.errors import BarnabasError
    from barnabas.core.ids import TopicPartition

    Found = Mapping[TopicPartition, OffsetAndTimestamp | BarnabasError]


@click.command()
@bootstrap_option(instead=["broker_list"])
@api_timeout_option()
@click.option("--broker-list", metavar="HOST:PORT", help="The old name of --bootstrap-server.")
@click.option(
    "--topic-partitions", metavar="LIST", help="Patterns TOPIC[:PARTITIONS], with commas; see above."
)
@click.option("--topic", "-t", metavar="REGEX", help="Topics whose whole name matches.  [default: all]")
@click.option("--partitions", metavar="LIST", help="Partition numbers with commas.  [default: all]")
@click.option("--time", default="latest", show_default=True, metavar="TIME", help="Which offset; see above.")
@command_config_option
@click.option(
    "--exclude-internal-topics", is_flag=True, help="Leave out __consumer_offsets and __transaction_state."
)
@json_option
def get_offsets(
    bootstrap_server: str | None,
    broker_list: str | None,
    topic_partitions: str | None,
    topic: str | None,
    partitions: str | None,
    time: str,
    command_config: Path | None,
    exclude_internal_topics: bool,
    as_json: bool,
) -> None:
    """Print one line TOPIC:PARTITION:OFFSET for each partition, as kafka-get-offsets.sh does.

    TIME is latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), latest-tiered (-5), or
    milliseconds since 1970: then the first offset whose record is not older.

    PARTITIONS in --topic-partitions is a number, FROM-TO (without TO), FROM- or -TO.

    \b
    Examples:
      barnabas get-offsets --bootstrap-server 127.0.0.1:9092
      barnabas get-offsets --topic orders --time earliest --bootstrap-server 127.0.0.1:9092
      barnabas get-offsets --topic-partitions 'orders:0-3,logs.*' --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.cli.partition_filter import parse_offset_time, partition_filter

    bootstrap = bootstrap_server or broker_list
    if not bootstrap:
        raise click.UsageError("Missing required option(s) [bootstrap-server]")
    with reported_as("Error occurred: "):
        if topic_partitions is not None and (topic is not None or partitions is not None):
            raise click.ClickException("--topic-partitions cannot be used with --topic or --partitions")
        timestamp = parse_offset_time(time)
        wanted = partition_filter(topic_partitions, topic, partitions)
        found = asyncio.run(_offsets(bootstrap, command_config, timestamp, wanted, exclude_internal_topics))
    if as_json:
        _print_json(found)
    else:
        _print(found)


async def _offsets(
    bootstrap: str, file: Path | None, timestamp: int, wanted: "PartitionFilter", exclude_internal: bool
) -> "Found":
    from barnabas.core.ids import TopicPartition

    async with connected_admin(admin_options(file, bootstrap, "GetOffsetShell")) as admin:
        topics = await admin.topics.describe_all(internal=not exclude_internal)
        partitions = [
            TopicPartition(name, one.partition)
            for name, topic in topics.items()
            for one in topic.partitions
            if wanted.allows(name, one.partition)
        ]
        if not partitions:
            raise click.ClickException("Could not match any topic-partitions with the specified filters")
        return await admin.offsets.try_list(dict.fromkeys(partitions, timestamp))


def _print(results: "Found") -> None:
    from barnabas.core.errors import BarnabasError

    # Sorted as text, so that t-10 stands before t-2: a comparison with Kafka's script shows no difference.
    for tp in sorted(results, key=str):
        result = results[tp]
        if isinstance(result, BarnabasError):
            click.echo(f"Skip getting offsets for topic-partition {tp} due to error: {result}", err=True)
        elif result.offset >= 0:
            click.echo(f"{tp.topic}:{tp.partition}:{result.offset}")


def _print_json(results: "Found") -> None:
    from barnabas.core.errors import BarnabasError

    rows = []
    for tp, found in sorted(results.items()):
        if isinstance(found, BarnabasError):
            rows.append(partition_facts(tp, offset=None, timestamp_ms=None, error=found))
        else:
            offset, timestamp_ms = (None if value < 0 else value for value in (found.offset, found.timestamp))
            rows.append(partition_facts(tp, offset=offset, timestamp_ms=timestamp_ms, error=None))
    print_facts({"offsets": rows})

"""``barnabas log-dirs``: kafka-log-dirs.sh."""

import asyncio
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, partition_facts, plain, print_facts
from barnabas.cli.options import ToolError, api_timeout_option, command_config_option
from barnabas.core.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.admin import LogDirDescription


@click.command()
@bootstrap_option()
@api_timeout_option()
@click.option("--describe", is_flag=True, help="Show the log directories.")
@click.option(
    "--topic-list", metavar="LIST", default="", help="These topics only, with commas.  [default: all]"
)
@click.option("--broker-list", metavar="LIST", default="", help="Ids of brokers with commas.  [default: all]")
@command_config_option
@json_option
def log_dirs(
    bootstrap_server: str | None,
    describe: bool,
    topic_list: str,
    broker_list: str,
    command_config: Path | None,
    as_json: bool,
) -> None:
    """Print as JSON what the log directories of brokers hold: each replica's size in bytes and its lag.

    \b
    Examples:
      barnabas log-dirs --describe --topic-list orders --bootstrap-server 127.0.0.1:9092
    """
    if not bootstrap_server:
        raise click.UsageError('Missing required argument "[bootstrap-server]"')
    if not describe:
        raise click.UsageError('Missing required argument "[describe]"')
    topics = {name for name in topic_list.split(",") if name}
    brokers = {_number(text) for text in broker_list.split(",") if text}
    try:
        found = asyncio.run(_described(bootstrap_server, command_config, brokers, quiet=as_json))
    except BarnabasError as error:
        from barnabas.cli.java_errors import java_text

        raise ToolError(java_text(error)) from error
    if as_json:
        print_facts({"log_dirs": _facts(found, topics)})
    else:
        click.echo(f"Received log directory information from brokers {_joined(found)}")
        click.echo(json.dumps(_printable(found, topics), separators=(",", ":"), ensure_ascii=False))


def _facts(
    found: "Mapping[int, Mapping[str, LogDirDescription]]", topics: Collection[str]
) -> list[dict[str, Any]]:
    """A row for each directory; of sizes that an older broker does not say null."""
    return [
        {
            "broker": broker,
            "path": path,
            "error": directory.error,
            "total_bytes": None if directory.total_bytes < 0 else directory.total_bytes,
            "usable_bytes": None if directory.usable_bytes < 0 else directory.usable_bytes,
            "is_cordoned": directory.is_cordoned,
            "replicas": [
                partition_facts(tp, **plain(replica))
                for tp, replica in sorted(directory.replicas.items())
                if not topics or tp.topic in topics
            ],
        }
        for broker, directories in sorted(found.items())
        for path, directory in sorted(directories.items())
    ]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ToolError(f'For input string: "{text}"') from None


async def _described(
    bootstrap: str, file: Path | None, wanted: set[int], *, quiet: bool
) -> "dict[int, Mapping[str, LogDirDescription]]":
    """The directories of each broker, in the order of the script."""
    from barnabas.cli.options import admin_options, connected_admin
    from barnabas.operations.java_order import number_order

    async with connected_admin(admin_options(file, bootstrap, "log-dirs-tool")) as admin:
        there = [broker.node_id for broker in (await admin.cluster.describe()).brokers]
        if unknown := wanted.difference(there):
            raise ToolError(
                "ERROR: The given brokers do not exist from --broker-list:"
                f" {_joined(number_order(unknown))}. Current existent brokers: {_joined(number_order(there))}"
            )
        brokers = number_order(wanted or there)
        if not quiet:
            click.echo("Querying brokers for log directories information")
        found = await admin.log_dirs.describe(brokers)
    return {broker: found[broker] for broker in brokers}


def _joined(brokers: Collection[int]) -> str:
    return ",".join(map(str, brokers))


def _printable(
    found: "Mapping[int, Mapping[str, LogDirDescription]]", topics: Collection[str]
) -> dict[str, Any]:
    """What the script prints, the keys of each object in the order in which Java has them."""
    from barnabas.operations.java_order import number_order, sized, text_order

    brokers = [
        {
            "broker": broker,
            "logDirs": [
                _log_dir(path, found[broker][path], topics)
                for path in text_order(found[broker], sized(len(found[broker])))
            ],
        }
        for broker in number_order(found, sized(len(found)))
    ]
    return {"brokers": brokers, "version": 1}


def _log_dir(path: str, directory: "LogDirDescription", topics: Collection[str]) -> dict[str, Any]:
    from barnabas.cli.java_errors import java_class
    from barnabas.operations.java_order import partition_order

    # The tool copies what it prints out of a map of all replicas: partitions that share a bucket of the copy
    # stay in the order of the larger map.
    known = partition_order(directory.replicas)
    return {
        "partitions": [
            {
                "partition": str(tp),
                "size": directory.replicas[tp].size,
                "offsetLag": directory.replicas[tp].offset_lag,
                "isFuture": directory.replicas[tp].is_future,
            }
            for tp in partition_order(tp for tp in known if not topics or tp.topic in topics)
        ],
        "error": None if directory.error is None else java_class(directory.error),
        "logDir": path,
    }

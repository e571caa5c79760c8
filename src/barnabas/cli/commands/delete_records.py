"""``barnabas delete-records``: kafka-delete-records.sh."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, partition_facts, print_facts
from barnabas.cli.options import ToolError, api_timeout_option, command_config_option
from barnabas.cli.printing import printable
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition


@click.command()
@bootstrap_option(changes=["delete-records"])
@api_timeout_option()
@click.option("--offset-json-file", metavar="FILE", help="The file with an offset for each partition.")
@command_config_option
@json_option
def delete_records(
    bootstrap_server: str | None,
    offset_json_file: str | None,
    command_config: Path | None,
    as_json: bool,
) -> None:
    """Delete the records of partitions that lie before an offset; -1 deletes all that consumers may see.

    Prints where each partition begins then: the lowest start among its replicas.

    \b
    The file:
      {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 3}]}

    \b
    Examples:
      barnabas delete-records --offset-json-file offsets.json --bootstrap-server 127.0.0.1:9092
    """
    given = {"bootstrap-server": bootstrap_server, "offset-json-file": offset_json_file}
    if missing := [name for name, value in given.items() if not value]:
        raise click.UsageError(f'Missing required argument "[{missing[0]}]"')
    from barnabas.cli.partition_json import parse_deletion, text_of

    assert bootstrap_server is not None
    assert offset_json_file is not None
    try:
        offsets = parse_deletion(text_of(offset_json_file))
        results = asyncio.run(_delete(bootstrap_server, command_config, offsets, quiet=as_json))
    except BarnabasError as error:
        raise ToolError(str(error)) from error
    if as_json:
        print_facts({"partitions": [_facts(tp, result) for tp, result in sorted(results.items())]})
    else:
        _print(results)


def _facts(tp: TopicPartition, result: int | BarnabasError) -> dict[str, Any]:
    failed = isinstance(result, BarnabasError)
    return partition_facts(tp, low_watermark=None if failed else result, error=result if failed else None)


async def _delete(
    bootstrap: str, file: Path | None, offsets: Mapping[TopicPartition, int], *, quiet: bool
) -> Mapping[TopicPartition, int | BarnabasError]:
    from barnabas.cli.options import admin_options, connected_admin

    async with connected_admin(admin_options(file, bootstrap, "barnabas-delete-records")) as admin:
        if not quiet:
            click.echo("Executing records delete operation")
        return await admin.partitions.try_delete_records(offsets)


def _print(results: Mapping[TopicPartition, int | BarnabasError]) -> None:
    from barnabas.cli.java_errors import java_text
    from barnabas.operations.java_order import partition_order

    click.echo("Records delete operation completed:")
    for tp in partition_order(results):
        result = results[tp]
        found = (
            f"error: {java_text(result)}" if isinstance(result, BarnabasError) else f"low_watermark: {result}"
        )
        click.echo(printable(f"partition: {tp}\t{found}"))

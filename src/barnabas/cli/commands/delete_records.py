"""``barnabas delete-records``: kafka-delete-records.sh."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import click

from barnabas.cli.options import ToolError, bootstrap_option, command_config_option, printable
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition


@click.command()
@bootstrap_option()
@click.option("--offset-json-file", metavar="FILE", help="The file with an offset for each partition.")
@command_config_option
def delete_records(
    bootstrap_server: str | None, offset_json_file: str | None, command_config: Path | None
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
        asyncio.run(_delete(bootstrap_server, command_config, offsets))
    except BarnabasError as error:
        raise ToolError(str(error)) from error


async def _delete(bootstrap: str, file: Path | None, offsets: Mapping[TopicPartition, int]) -> None:
    from barnabas.cli.java_errors import java_text
    from barnabas.cli.options import admin_options, connected_admin
    from barnabas.operations.java_order import partition_order

    async with connected_admin(admin_options(file, bootstrap, "barnabas-delete-records")) as admin:
        click.echo("Executing records delete operation")
        results = await admin.partitions.try_delete_records(offsets)
    click.echo("Records delete operation completed:")
    for tp in partition_order(results):
        result = results[tp]
        found = (
            f"error: {java_text(result)}" if isinstance(result, BarnabasError) else f"low_watermark: {result}"
        )
        click.echo(printable(f"partition: {tp}\t{found}"))

"""``barnabas messages``: records as the console's page shows them. No script of Kafka's does this."""

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, plain, print_facts
from barnabas.cli.options import admin_options, api_timeout_option, command_config_option
from barnabas.cli.printing import printable
from barnabas.cli.registry_options import registry_options, schema_source
from barnabas.client.config import CONSUMER_CONFIG

if TYPE_CHECKING:
    from barnabas.operations.messages.browse import MessageQuery, MessagesView, RecordRow
    from barnabas.operations.messages.masks import TopicMasks
    from barnabas.operations.messages.reading import RecordReader, ShownBytes

_CHOICES: Final = click.Choice(["auto", "text", "json", "hex", "schema"])
_FOLLOW_S: Final = 1.0


@click.command()
@bootstrap_option(required=True)
@api_timeout_option()
@json_option
@command_config_option
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", type=click.IntRange(min=0), help="One partition; all when left out.")
@click.option(
    "--from",
    "start",
    default="latest",
    show_default=True,
    metavar="WHERE",
    help="earliest, latest, an offset, or @ and a time in ms.",
)
@click.option("--positions", metavar="P:OFFSET[-END],...", help="Where an earlier answer stopped.")
@click.option("--contains", default="", metavar="TEXT", help="Only records with this text.")
@click.option(
    "--where",
    type=click.Choice(["any", "key", "value", "header"]),
    default="any",
    show_default=True,
    help="Where the text is.",
)
@click.option(
    "--filter",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Such as value.customer.id=42, key~eu-, header.trace!=x; repeatable, all hold.",
)
@click.option("--count", type=click.IntRange(1, 500), default=50, show_default=True, help="How many to find.")
@click.option("--committed-only", is_flag=True, help="Only records of committed transactions.")
@click.option("--key", "key_as", type=_CHOICES, default="auto", show_default=True, help="How keys are read.")
@click.option(
    "--value", "value_as", type=_CHOICES, default="auto", show_default=True, help="The same of values."
)
@click.option(
    "--masking",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The console's rules of what nobody sees.",
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until it is interrupted.")
@registry_options
def messages(
    bootstrap_server: str,
    as_json: bool,
    command_config: Path | None,
    topic: str,
    partition: int | None,
    start: str,
    positions: str | None,
    contains: str,
    where: str,
    conditions: tuple[str, ...],
    count: int,
    committed_only: bool,
    key_as: Any,
    value_as: Any,
    masking: Path | None,
    follow: bool,
    registry: str | None,
    registry_login: Path | None,
) -> None:
    """Print records of a topic, which offsets were read, and where to go on.

    A condition is a place (key, value, header.NAME, partition, offset, timestamp), for keys and values a path
    below it, one of = != ~ !~ < <= > >=, and a text. Fields are those of JSON, of Avro and Protobuf by
    --registry, and of the cluster's own topics.

    \b
    Examples:
      barnabas messages --bootstrap-server 127.0.0.1:9092 --topic orders
      barnabas messages --bootstrap-server 127.0.0.1:9092 --topic orders --filter 'value.total>=100'
      barnabas messages --bootstrap-server 127.0.0.1:9092 --topic __consumer_offsets --from earliest
    """
    from barnabas.operations.messages.browse import MessageQuery
    from barnabas.operations.messages.filters import parsed
    from barnabas.operations.messages.reading import RecordReader

    wanted = MessageQuery(
        topic,
        partition,
        start,
        positions,
        contains,
        where,
        parsed("\n".join(conditions)),
        count,
        committed_only,
        follow,
    )
    schemas = schema_source(registry, registry_login)
    reader = RecordReader(topic, _masks(masking, topic), schemas, key=key_as, value=value_as)
    given = admin_options(command_config, bootstrap_server, "barnabas-messages")
    options = {
        key.replace(".", "_"): value
        for key, value in given.items()
        if key.replace("_", ".") in CONSUMER_CONFIG
    }
    options |= {key.replace(".", "_"): value for key, value in wanted.options.items()}
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_look(options, wanted, reader, as_json=as_json))


async def _look(
    options: dict[str, Any], wanted: "MessageQuery", reader: "RecordReader", *, as_json: bool
) -> None:
    from barnabas.client import AsyncConsumer
    from barnabas.operations.messages.browse import browse

    async with AsyncConsumer(**options) as consumer:
        found = await browse(consumer, wanted, reader)
        _print(found, as_json=as_json)
        while wanted.follow:
            # What has come is read at once, then it rests.
            if not any(one.left for one in found.ranges):
                await asyncio.sleep(_FOLLOW_S)
            found = await browse(consumer, replace(wanted, positions=found.next), reader)
            if as_json and found.records:
                print_facts(plain(found))
            elif not as_json:
                _print_rows(found.records)


def _masks(path: Path | None, topic: str) -> "TopicMasks":
    from barnabas.operations.messages.masks import NO_MASKS, parsed

    if path is None:
        return NO_MASKS
    try:
        return parsed(path.read_text(encoding="utf-8")).of(topic)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from error


def _print(found: "MessagesView", *, as_json: bool) -> None:
    if as_json:
        print_facts(plain(found))
        return
    _print_rows(found.records)
    click.echo(f"{len(found.records)} found, {found.scanned} looked at; {found.stopped}", err=True)
    if found.unjudged:
        click.echo(
            f"{found.unjudged} could not be read as fields: of them the conditions say nothing", err=True
        )
    for one in found.ranges:
        click.echo(
            f"partition {one.partition}: read {one.start} to {one.stop},"
            f" {one.left} left, {one.earlier} before",
            err=True,
        )
    if found.next:
        click.echo(f"go on with --positions {found.next}", err=True)
    if found.back:
        click.echo(f"the records before these: --positions {found.back}", err=True)


def _print_rows(rows: "Any") -> None:
    for row in rows:
        click.echo(printable(_line(row)))


def _line(row: "RecordRow") -> str:
    headers = ",".join(f"{name}={_text(value)}" for name, value in row.headers)
    parts = [
        f"{row.partition}:{row.offset}",
        str(row.timestamp_ms),
        _text(row.key),
        _text(row.value),
        headers,
    ]
    return "\t".join(parts).rstrip("\t")


def _text(part: "ShownBytes") -> str:
    return "null" if part.text is None else part.text + (" ..." if part.is_cut else "")

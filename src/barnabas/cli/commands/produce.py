"""``barnabas produce``: kafka-console-producer.sh."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.options import (
    bootstrap_option,
    client_options,
    file_option,
    key_values,
    pairs_option,
    refuse_security,
)
from barnabas.cli.options import properties as properties_of

if TYPE_CHECKING:
    from barnabas.cli.line_reader import LineReader

_CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]


@click.command()
@click.option("--topic", required=True, metavar="NAME", help="The topic to send to.")
@bootstrap_option(required=True)
@click.option("--sync", is_flag=True, help="Wait for each record before the next is sent.")
@click.option(
    "--compression-codec",
    type=click.Choice(_CODECS),
    is_flag=False,
    flag_value="gzip",
    default="none",
    show_default=True,
    help="How batches are compressed; gzip without a value.",
)
@click.option(
    "--batch-size", type=int, default=16384, show_default=True, help="Bytes at which a batch is sent at once."
)
@click.option(
    "--timeout",
    "linger_ms",
    type=int,
    default=1000,
    show_default=True,
    help="Milliseconds that a batch may wait for more lines.",
)
@click.option(
    "--request-required-acks",
    "acks",
    default="-1",
    show_default=True,
    help="Acknowledgements to wait for: 0, 1, or -1 for the whole ISR.",
)
@click.option("--request-timeout-ms", type=int, help="How long to wait for one answer.  [default: 30000]")
@click.option(
    "--max-block-ms", type=int, default=60000, show_default=True, help="How long to wait for topic and room."
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="Short for --property parse.key=true --property key.separator=TEXT.",
)
@pairs_option("--property", "properties", "How lines are read; see above. Repeatable.")
@file_option("--reader-config", "reader_config", "These properties, from a file.")
@pairs_option("--producer-property", "pairs", "An option of the producer; repeatable.")
@file_option("--producer.config", "config_file", "Options of the producer, from a file.")
def produce(
    topic: str,
    bootstrap_server: str,
    sync: bool,
    key_separator: str | None,
    properties: tuple[str, ...],
    reader_config: Path | None,
    pairs: tuple[str, ...],
    config_file: Path | None,
    **settings: Any,
) -> None:
    """Send each line of standard input as a record, as kafka-console-producer.sh does.

    \b
    Properties of lines (defaults):
      parse.key=false  key.separator=<tab>  parse.headers=false  headers.delimiter=<tab>
      headers.separator=,  headers.key.separator=:  null.marker=  ignore.error=false

    \b
    Examples:
      echo hello | barnabas produce --topic orders --bootstrap-server 127.0.0.1:9092
      echo k1:v1 | barnabas produce --topic orders --key-separator : --bootstrap-server 127.0.0.1:9092
      barnabas produce --topic orders --compression-codec zstd --bootstrap-server 127.0.0.1:9092 < lines.txt
    """
    from barnabas.cli.line_reader import LineReader
    from barnabas.client.config import PRODUCER_CONFIG

    reading = properties_of(reader_config)
    if key_separator is not None:
        reading |= {"parse.key": "true", "key.separator": key_separator}
    reading |= key_values(properties)
    refuse_security(reading)
    reader = LineReader(reading)
    given = client_options(config_file, pairs, PRODUCER_CONFIG, bootstrap_server, "console-producer")
    asyncio.run(_send_lines(topic, reader, _options(settings) | given, sync=sync))


def _options(settings: dict[str, Any]) -> dict[str, Any]:
    names = {"compression_codec": "compression.type"}
    return {
        names.get(name, name.replace("_", ".")): str(value)
        for name, value in settings.items()
        if value is not None
    }


def _lines() -> Iterator[str]:
    """Lines of standard input without their ends, with a prompt where a person types them."""
    prompt = sys.stdin.isatty()
    while True:
        if prompt:
            click.echo(">", nl=False)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        yield line.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


async def _send_lines(topic: str, reader: "LineReader", options: dict[str, Any], *, sync: bool) -> None:
    from barnabas.client import AsyncProducer

    async with AsyncProducer(options.pop("bootstrap.servers"), **options) as producer:
        for line in _lines():
            key, value, headers = reader.parse(line)
            delivery = await producer.send(topic, value, key, headers=headers)
            if sync:
                await delivery

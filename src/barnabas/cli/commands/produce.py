"""``barnabas produce``: kafka-console-producer.sh."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.options import (
    F,
    OldName,
    ToolCommand,
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
_LINE_READERS: Final = (
    "org.apache.kafka.tools.LineMessageReader",
    "kafka.tools.ConsoleProducer$LineMessageReader",
)
_KEYS: Final = {
    "compression_codec": "compression.type",
    "batch_size": "batch.size",
    "max_partition_memory_bytes": "batch.size",
    "timeout": "linger.ms",
    "request_required_acks": "acks",
    "request_timeout_ms": "request.timeout.ms",
    "message_send_max_retries": "retries",
    "retry_backoff_ms": "retry.backoff.ms",
    "metadata_expiry_ms": "metadata.max.age.ms",
    "max_memory_bytes": "buffer.memory",
    "socket_buffer_size": "send.buffer.bytes",
    "max_block_ms": "max.block.ms",
}
"""The flags that are options of the producer; of two that are one, the later counts."""
_DEFAULTS: Final = {"linger.ms": "1000"}
"""Where the script differs from the producer."""
_MARKS_BYTES: Final = 65_536
"""What a line may have beside its record: separators, marks for null."""


def _old(flag: str) -> OldName:
    """An old name, in the words of ``ConsoleProducerOptions``."""
    return OldName(
        flag,
        "Warning: {old} is deprecated and will be removed in a future version. Use {new} instead.",
        "Options {new} and {old} cannot be specified together.",
    )


_BATCH_SIZE_WARNING: Final = (
    "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use"
    " --batch-size instead."
)


def _setting(flag: str, what: str, default: int | None = None) -> Callable[[F], F]:
    return click.option(flag, type=int, help=what if default is None else f"{what}  [default: {default}]")


@click.command(cls=ToolCommand)
@click.option("--topic", "-t", required=True, metavar="NAME", help="The topic to send to.")
@bootstrap_option(instead=["broker_list"], changes=["produce"])
@click.option(
    "--broker-list", metavar="HOST:PORT", help="Deprecated: as --bootstrap-server, which goes before it."
)
@click.option("--sync", is_flag=True, help="Wait for each record before the next is sent.")
@click.option(
    "--compression-codec",
    type=click.Choice(_CODECS),
    is_flag=False,
    flag_value="gzip",
    help="How batches are compressed; gzip without a value.  [default: none]",
)
@_setting("--batch-size", "Bytes at which a batch is sent at once.", 16384)
@_setting("--max-partition-memory-bytes", "Deprecated: as --batch-size, and goes before it.")
@_setting("--timeout", "Milliseconds that a batch may wait for more lines.", 1000)
@click.option(
    "--request-required-acks",
    help="Acknowledgements to wait for: 0, 1, or -1 for the whole ISR.  [default: -1]",
)
@_setting("--request-timeout-ms", "How long to wait for one answer.", 30_000)
@_setting(
    "--message-send-max-retries", "How often a record is sent again.  [default: until delivery.timeout.ms]"
)
@_setting("--retry-backoff-ms", "The pause before it is sent again.", 100)
@_setting("--metadata-expiry-ms", "How old metadata may become.", 300_000)
@_setting("--max-memory-bytes", "Bytes of records that may wait.", 33_554_432)
@_setting("--socket-buffer-size", "Bytes of the socket's send buffer.  [default: the system's]")
@_setting("--max-block-ms", "How long to wait for topic and room.", 60_000)
@click.option(
    "--line-reader", metavar="CLASS", help="The class that reads lines: LineMessageReader is the only one."
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="Short for --reader-property parse.key=true --reader-property key.separator=TEXT.",
)
@pairs_option(
    "--reader-property", "properties", "How lines are read; see above. Repeatable.", _old("--property")
)
@file_option("--reader-config", "reader_config", "These properties, from a file.")
@pairs_option(
    "--command-property", "pairs", "An option of the producer; repeatable.", _old("--producer-property")
)
@file_option(
    "--command-config", "config_file", "Options of the producer, from a file.", _old("--producer.config")
)
def produce(
    topic: str,
    bootstrap_server: str | None,
    broker_list: str | None,
    sync: bool,
    line_reader: str | None,
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

    bootstrap = bootstrap_server or broker_list
    if bootstrap is None:
        raise click.UsageError("Missing option '--bootstrap-server'.")
    if line_reader is not None and line_reader not in _LINE_READERS:
        raise click.ClickException(
            f"{line_reader} is a Java class that this tool cannot run; it knows {_LINE_READERS[0]}"
        )
    if settings["max_partition_memory_bytes"] is not None:
        click.echo(_BATCH_SIZE_WARNING, err=True)
    reading = properties_of(reader_config)
    if key_separator is not None:
        reading |= {"parse.key": "true", "key.separator": key_separator}
    reading |= key_values(properties)
    refuse_security(reading)
    reader = LineReader(reading)
    # A flag goes before a property, and a property before the default of a flag (``maybeMergeOptions``).
    flags = [f"{key}={settings[name]}" for name, key in _KEYS.items() if settings[name] is not None]
    given = client_options(config_file, (*pairs, *flags), PRODUCER_CONFIG, bootstrap, "console-producer")
    _send_lines(topic, reader, _DEFAULTS | given, sync=sync)


def _lines(bytes_max: int) -> Iterator[str]:
    """Lines of standard input without their ends, with a prompt where a person types them.
    Raises ClickException for one that is longer than that.
    """
    if sys.stdin is None:
        raise click.ClickException("standard input is closed: there are no lines to send")
    prompt = sys.stdin.isatty()
    for number in itertools.count(1):
        if prompt:
            click.echo(">", nl=False)
        line = sys.stdin.buffer.readline(bytes_max + 1)
        if not line:
            return
        if len(line) > bytes_max:
            raise click.ClickException(
                f"Line number {number} has more than {bytes_max} bytes, so no record can have it"
                " (max.request.size)"
            )
        yield line.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")


def _send_lines(topic: str, reader: "LineReader", options: dict[str, Any], *, sync: bool) -> None:
    from barnabas.client import Producer
    from barnabas.client.config import PRODUCER_CONFIG

    # Its loop is in a thread of its own: while the next line is waited for, those before it are sent.
    with Producer(options.pop("bootstrap.servers"), **options) as producer:
        request_bytes = int(options.get("max.request.size", PRODUCER_CONFIG["max.request.size"].default))
        try:
            for line in _lines(request_bytes + _MARKS_BYTES):
                key, value, headers = reader.parse(line)
                delivery = producer.send(topic, value, key, headers=headers)
                if sync:
                    delivery.result()
        finally:
            # Where a line is wrong or Ctrl-C ends it, too: what was read in front of that is stored.
            producer.flush()

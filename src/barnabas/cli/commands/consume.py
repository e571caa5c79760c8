"""``barnabas consume``: kafka-console-consumer.sh, for assigned partitions."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.options import BOOTSTRAP_HELP, client_options, key_values

if TYPE_CHECKING:
    from barnabas.cli.record_formatter import RecordFormatter
    from barnabas.client import AsyncConsumer

_POLL_MS: Final = 1000
_POLL_RECORDS: Final = 2000


@click.command(short_help="Print the records of a partition (kafka-console-consumer.sh).")
@click.option("--topic", required=True, metavar="NAME", help="The topic to read.")
@click.option("--bootstrap-server", metavar="HOST:PORT", required=True, help=BOOTSTRAP_HELP)
@click.option("--partition", type=click.IntRange(min=0), help="The partition to read.  [default: all]")
@click.option(
    "--offset",
    metavar="OFFSET",
    help="Where to begin: an offset, earliest or latest; needs --partition.  [default: latest]",
)
@click.option("--from-beginning", is_flag=True, help="Begin at the first record.")
@click.option("--max-messages", type=int, help="End after so many records.  [default: never]")
@click.option("--timeout-ms", type=int, help="End when nothing has come for so long.  [default: never]")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of open and aborted transactions are shown.",
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="How records are printed; see below. Repeatable.",
)
@click.option(
    "--formatter-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="These properties, from a file.",
)
@click.option(
    "--consumer-property",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of the consumer; repeatable.",
)
@click.option(
    "--consumer.config",
    "config_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Options of the consumer, from a file.",
)
def consume(
    topic: str,
    bootstrap_server: str,
    partition: int | None,
    offset: str | None,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    isolation_level: str,
    properties: tuple[str, ...],
    formatter_config: Path | None,
    pairs: tuple[str, ...],
    config_file: Path | None,
) -> None:
    """Print records as kafka-console-consumer.sh does; Ctrl-C ends it.

    Begins behind the last record unless --from-beginning or --offset says otherwise. Without --partition all
    partitions are read (without a consumer group).

    \b
    Properties of the output (defaults):
      print.timestamp=false  print.partition=false  print.offset=false  print.headers=false
      print.key=false  print.value=true  key.separator=<tab>  line.separator=<newline>
      headers.separator=,  null.literal=null

    \b
    Examples:
      barnabas consume --topic orders --from-beginning --bootstrap-server 127.0.0.1:9092
      barnabas consume --topic orders --partition 0 --offset 42 --max-messages 10 --bootstrap-server 127.0.0.1:9092
      barnabas consume --topic orders --from-beginning --property print.key=true --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.cli.record_formatter import RecordFormatter
    from barnabas.client.config import CONSUMER_CONFIG
    from barnabas.core.broker_config import read_properties

    start = _start(partition, offset, from_beginning=from_beginning)
    printing = read_properties(formatter_config.read_text(encoding="utf-8")) if formatter_config else {}
    formatter = RecordFormatter(printing | key_values(properties))
    given = client_options(config_file, pairs, CONSUMER_CONFIG, bootstrap_server, "console-consumer")
    defaults = {"isolation.level": isolation_level, "max.poll.records": _POLL_RECORDS}
    work = _Printing(topic, partition, start, max_messages, timeout_ms, formatter)
    try:
        asyncio.run(work.run(defaults | given))
    finally:
        click.echo(f"Processed a total of {work.count} messages", err=True)


def _start(partition: int | None, offset: str | None, *, from_beginning: bool) -> int:
    """The offset to begin at, or the special timestamp of one; raises UsageError."""
    from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

    if offset is not None and partition is None:
        raise click.UsageError("The partition is required when offset is specified.")
    if offset is not None and from_beginning:
        raise click.UsageError("Options from-beginning and offset cannot be specified together.")
    if from_beginning or (offset or "").lower() == "earliest":
        return EARLIEST_TIMESTAMP
    if offset is None or offset.lower() == "latest":
        return LATEST_TIMESTAMP
    if not offset.isdecimal():
        raise click.UsageError(
            f"The provided offset value '{offset}' is incorrect. Valid values are 'earliest', 'latest', or a"
            " non-negative long."
        )
    return int(offset)


class _Printing:
    """One run: which partitions, from where, how many records."""

    def __init__(
        self,
        topic: str,
        partition: int | None,
        start: int,
        max_messages: int | None,
        timeout_ms: int | None,
        formatter: "RecordFormatter",
    ) -> None:
        self.count = 0
        self._topic = topic
        self._partition = partition
        self._start = start
        self._left = sys.maxsize if max_messages is None or max_messages < 0 else max_messages
        self._timeout_ms = timeout_ms
        self._format = formatter.format

    async def run(self, options: dict[str, Any]) -> None:
        """Prints until there is enough, nothing comes any more, or somebody interrupts."""
        from barnabas.client import AsyncConsumer

        async with AsyncConsumer(options.pop("bootstrap.servers"), **options) as consumer:
            await self._assign(consumer)
            while self._left > 0:
                records = await consumer.poll(self._timeout_ms or _POLL_MS, min(self._left, _POLL_RECORDS))
                if not records and self._timeout_ms is not None:
                    return
                sys.stdout.buffer.write(b"".join(map(self._format, records)))
                sys.stdout.buffer.flush()
                self.count += len(records)
                self._left -= len(records)

    async def _assign(self, consumer: "AsyncConsumer") -> None:
        from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

        partitions = await consumer.partitions_for(self._topic)
        if self._partition is not None and self._partition not in partitions:
            raise click.ClickException(
                f"Topic {self._topic} has no partition {self._partition}, only 0 to {len(partitions) - 1}"
            )
        wanted = partitions if self._partition is None else [self._partition]
        consumer.assign((self._topic, number) for number in wanted)
        if self._start == EARLIEST_TIMESTAMP:
            consumer.seek_to_beginning()
        elif self._start == LATEST_TIMESTAMP:
            consumer.seek_to_end()
        else:
            consumer.seek((self._topic, wanted[0]), self._start)

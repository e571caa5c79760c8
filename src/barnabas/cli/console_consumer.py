"""What ``barnabas consume`` does once its flags are understood (``ConsoleConsumer``)."""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import click

from barnabas.cli.message_formatters import Formatter
from barnabas.client import AsyncConsumer, Consumer
from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ConsumerRecord
from barnabas.core.errors import BarnabasError

_POLL_MS: Final = 1000
_POLL_RECORDS: Final = 2000
_OWN_GROUPS: Final = 100_000


Opening: TypeAlias = Callable[[AsyncConsumer], Awaitable[None]]
"""Assigns partitions or subscribes; raises ClickException."""


def assigned_partitions(topic: str, partition: int | None, start: int) -> Opening:
    """Reads partitions of a topic (all for None) from an offset, or from the special timestamp of one."""

    async def assign(consumer: AsyncConsumer) -> None:
        partitions = await consumer.partitions_for(topic)
        if partition is not None and partition not in partitions:
            raise click.ClickException(
                f"Topic {topic} has no partition {partition}, only 0 to {len(partitions) - 1}"
            )
        wanted = partitions if partition is None else [partition]
        consumer.assign((topic, number) for number in wanted)
        if start == EARLIEST_TIMESTAMP:
            consumer.seek_to_beginning()
        elif start == LATEST_TIMESTAMP:
            consumer.seek_to_end()
        else:
            consumer.seek((topic, wanted[0]), start)

    return assign


def group_member(topic: str | None, include: str | None) -> Opening:
    """Reads what the group gives of a topic, or of all topics whose whole name matches an expression."""

    async def subscribe(consumer: AsyncConsumer) -> None:
        consumer.subscribe([] if topic is None else [topic], pattern=include if topic is None else None)

    return subscribe


def own_group() -> dict[str, str]:
    """The options of a group for this run alone; it commits no positions, so that it leaves no trace."""
    number = random.randrange(_OWN_GROUPS)
    return {"group.id": f"console-consumer-{number}", "enable.auto.commit": "false"}


class RecordPrinter:
    """One run: where it reads, how many records it prints, when it gives up."""

    def __init__(
        self,
        opening: Opening,
        formatter: Formatter,
        max_messages: int | None,
        timeout_ms: int | None,
        *,
        skip_errors: bool = False,
    ) -> None:
        """A record that the formatter cannot read ends the run, unless `skip_errors`."""
        self.count = 0
        self._opening = opening
        self._left = sys.maxsize if max_messages is None or max_messages < 0 else max_messages
        self._timeout_ms = timeout_ms
        self._format = formatter
        self._skip_errors = skip_errors

    def run(self, options: dict[str, Any]) -> None:
        """Prints until there is enough, nothing more comes, or Ctrl-C. Raises ClickException.

        No more records are taken than are printed: what a group commits has been on the screen. The
        consumer's loop is in a thread of its own: a reader of standard output that takes its time does not
        keep it from the heartbeats of its group.
        """
        consumer = Consumer({"max.poll.records": _POLL_RECORDS, **options})
        try:
            consumer.using(self._begin)
            self._print(consumer)
        except TimeoutError:
            return
        finally:
            consumer.close()

    async def _begin(self, consumer: AsyncConsumer) -> None:
        # A broker or a topic that is not there is nothing that comes, as for Kafka's script.
        async with asyncio.timeout(None if self._timeout_ms is None else self._timeout_ms / 1000):
            await consumer.start()
            await self._opening(consumer)

    def _print(self, consumer: Consumer) -> None:
        while self._left > 0:
            records = consumer.poll(self._timeout_ms or _POLL_MS, min(self._left, _POLL_RECORDS))
            if not records and self._timeout_ms is not None:
                return
            try:
                sys.stdout.buffer.writelines(self._texts(records))
            finally:
                sys.stdout.buffer.flush()
            self._left -= len(records)

    def _texts(self, records: Iterable[ConsumerRecord]) -> Iterator[bytes]:
        for record in records:
            self.count += 1
            try:
                yield self._format(record)
            except BarnabasError as error:
                place = (
                    f"Error processing the record at offset {record.offset} of "
                    f"{record.topic}-{record.partition}: {error}"
                )
                if not self._skip_errors:
                    raise click.ClickException(f"{place} (--skip-message-on-error passes over it)") from error
                click.echo(f"{place}; skipped", err=True)

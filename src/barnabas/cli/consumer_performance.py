"""What ``barnabas consumer-perf-test`` does once its flags are understood (``ConsumerPerformance``)."""

from typing import Any, Final

import click

from barnabas.cli.java_date_format import SimpleDateFormat
from barnabas.cli.perf_statistics import ConsumerStatistics
from barnabas.client import AsyncConsumer
from barnabas.operations.clock import now_ms

_COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms,"
    " fetch.MB.sec, fetch.nMsg.sec"
)
HEADER: Final = f"start.time, end.time, {_COLUMNS}"
HEADER_OF_INTERVALS: Final = f"time, threadId, {_COLUMNS}"
_POLL_MS: Final = 100


class Reading:
    """One run: how many records it reads, when it gives up;
    with an interval it prints these and no last line.
    """

    def __init__(
        self, dates: SimpleDateFormat, messages: int, timeout_ms: int, interval_ms: int | None
    ) -> None:
        self._dates = dates
        self._messages = messages
        self._timeout_ms = timeout_ms
        self._interval_ms = interval_ms

    async def run(self, topic: str | None, include: str | None, options: dict[str, Any]) -> None:
        """Reads a topic, or all whose whole name matches an expression, and prints. Raises BarnabasError."""
        consumer = AsyncConsumer(options.pop("bootstrap.servers"), **options)
        statistics = ConsumerStatistics(self._dates, now_ms())
        try:
            consumer.subscribe(
                [] if topic is None else [topic],
                pattern=include if topic is None else None,
                on_assigned=lambda _partitions: statistics.assigned(now_ms()),
                on_revoked=lambda _partitions: statistics.revoked(now_ms()),
            )
            await self._read(consumer, statistics)
            ended_ms = now_ms()
        finally:
            await consumer.close()
        if self._interval_ms is None:
            click.echo(statistics.total(ended_ms))

    async def _read(self, consumer: AsyncConsumer, statistics: ConsumerStatistics) -> None:
        read_ms = time_ms = now_ms()
        while statistics.messages < self._messages and time_ms - read_ms <= self._timeout_ms:
            records = await consumer.poll(_POLL_MS)
            time_ms = now_ms()
            if not records:
                continue
            read_ms = time_ms
            statistics.messages += len(records)
            statistics.bytes += sum(len(each.key or b"") + len(each.value or b"") for each in records)
            if self._interval_ms is not None and statistics.is_due(time_ms, self._interval_ms):
                click.echo(statistics.interval(time_ms))
        if statistics.messages < self._messages:
            click.echo(
                "WARNING: Exiting before consuming the expected number of messages: timeout "
                f"({self._timeout_ms} ms)"
                " exceeded. You can use the --timeout option to increase the timeout."
            )

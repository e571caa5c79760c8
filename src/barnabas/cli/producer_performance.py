"""What ``barnabas producer-perf-test`` does once its flags are understood (``ProducerPerformance``)."""

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from barnabas.cli.java_errors import java_text
from barnabas.cli.perf_statistics import ProducerStatistics
from barnabas.cli.throughput_throttler import ThroughputThrottler
from barnabas.client import AbortableTransactionError, AsyncProducer, FatalTransactionError
from barnabas.client.types import RecordMetadata
from barnabas.core.errors import BarnabasError
from barnabas.operations.clock import now_ms

_STEADY: Final = "steady state records"
_LETTERS: Final = bytes(ord("A") + byte * 26 // 256 for byte in range(256))


def random_payloads(size: int, seed: int) -> Iterator[bytes]:
    """Values of random capital letters, the same in each run of a seed."""
    rng = random.Random(seed)
    while True:
        yield rng.randbytes(size).translate(_LETTERS)


def monotonic_payloads() -> Iterator[bytes]:
    """The numbers from 0 on, as text."""
    return (str(number).encode() for number in itertools.count())


def keys_of(distribution: str, count: int, seed: int) -> Iterator[bytes | None]:
    """The key of each record: none, or one of `count` numbers as text, in turn (``range``) or at random, the
    same in each run of a seed.
    """
    if distribution == "none":
        return itertools.repeat(None)
    if distribution == "range":
        return (str(number % count).encode() for number in itertools.count())
    rng = random.Random(seed)
    return (str(rng.randrange(count)).encode() for _ in itertools.count())


def file_payloads(path: Path, delimiter: str, seed: int) -> Iterator[bytes]:
    r"""Values drawn at random from a file, split as Java's ``String.split`` does; ``\n`` stands for a line
    break.

    Prints how many there are. Raises ClickException.
    """
    click.echo(f"Reading payloads from: {path.absolute()}")
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None
    if not text:
        raise click.ClickException("File does not exist or empty file provided.")
    values = _split(text, delimiter)
    click.echo(f"Number of messages read: {len(values)}")
    if not values:
        raise click.ClickException("The file holds nothing but delimiters")
    rng = random.Random(seed)
    return (rng.choice(values) for _ in itertools.count())


def _split(text: str, delimiter: str) -> list[bytes]:
    """Empty values at the end do not count, nor does the empty one before a match of no length at the
    start.
    """
    try:
        matches = list(re.finditer("\n" if delimiter == "\\n" else delimiter, text))
    except re.error as error:
        raise click.ClickException(f"Invalid regular expression {delimiter}: {error}") from None
    if not matches:
        return [text.encode()]
    values, start = [], 0
    for match in matches:
        if match.end():
            values.append(text[start : match.start()])
            start = match.end()
    values.append(text[start:])
    while values and not values[-1]:
        values.pop()
    return [value.encode() for value in values]


async def send_all(
    topic: str,
    count: int,
    payloads: Iterator[bytes],
    keys: Iterator[bytes | None],
    throughput: float,
    options: dict[str, Any],
    *,
    interval_ms: int,
    warmup: int = 0,
    transaction_ms: int = 0,
    connects: bool = False,
) -> None:
    """Sends `count` records and prints the statistics, with a line each interval; a record that is refused
    gives a line on stderr.

    With `warmup` above 0, intervals and one more line at the end leave out that many records at the start
    (KIP-1052). With `transaction_ms` above 0 every record is in a transaction, which is committed once it is
    that old. With `connects` it waits for a broker first, so that not each record waits. Raises what ends a
    transaction otherwise.
    """
    producer = AsyncProducer(options.pop("bootstrap.servers"), **options)
    if connects:
        try:
            await producer.start()
        except BaseException:
            await producer.abort()
            raise
    if transaction_ms > 0:
        await _init_transactions(producer)
    begun_ms: int | None = None
    """When the transaction began that is open."""
    started_ms = now_ms()
    counted = [ProducerStatistics(count, interval_ms, started_ms)]
    if warmup > 0:
        click.echo(
            f"Warmup first {warmup} records. Steady state results will print after the complete test summary."
        )
    throttler = ThroughputThrottler(throughput, started_ms)
    try:
        for number in range(count):
            payload, key = next(payloads), next(keys)
            if transaction_ms > 0 and begun_ms is None:
                producer.begin_transaction()
                begun_ms = now_ms()
            sent_ms = now_ms()
            if warmup > 0 and number == warmup:
                click.echo("In steady state.")
                counted[0].end_intervals()
                counted.append(ProducerStatistics(count - warmup, interval_ms, sent_ms, what=_STEADY))
            await _send(producer, topic, key, payload, sent_ms, tuple(counted))
            if begun_ms is not None and sent_ms - begun_ms >= transaction_ms:
                await producer.commit_transaction()
                begun_ms = None
            if throttler.should_throttle(number, sent_ms):
                await throttler.throttle()
        if begun_ms is not None:
            await producer.commit_transaction()
    except BaseException:
        await producer.abort()
        raise
    await producer.close()
    for statistics in counted:
        click.echo(statistics.total(now_ms()))


async def _init_transactions(producer: AsyncProducer) -> None:
    try:
        await producer.init_transactions()
    except BaseException:
        await producer.abort()
        raise


async def _send(
    producer: AsyncProducer,
    topic: str,
    key: bytes | None,
    payload: bytes,
    sent_ms: int,
    counted: tuple[ProducerStatistics, ...],
) -> None:
    def done(error: Exception | None, _stored: RecordMetadata | None) -> None:
        if error is not None:
            click.echo(_java_text(error), err=True)
            return
        acknowledged_ms = now_ms()
        for statistics in counted:
            line = statistics.record(acknowledged_ms - sent_ms, len(payload), acknowledged_ms)
            if line is not None:
                click.echo(line)

    try:
        delivery = await producer.send(topic, payload, key=key)
    except (AbortableTransactionError, FatalTransactionError):
        raise  # no later record of the transaction would be taken either
    except BarnabasError as error:
        done(error, None)
    else:
        delivery.tell(done)


def _java_text(error: Exception) -> str:
    return java_text(error) if isinstance(error, BarnabasError) else str(error)

"""What ``barnabas e2e-latency`` does once its flags are understood (``EndToEndLatency``)."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import click

from barnabas.admin import AsyncAdmin, NewTopic
from barnabas.cli.options import ToolError
from barnabas.client import AsyncConsumer, AsyncProducer, ConsumerRecord
from barnabas.client.config import ADMIN_CONFIG
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition

WAIT_S: Final = 60.0
"""How long a record may take before the measurement ends (``POLL_TIMEOUT_MS``)."""
_STEP: Final = 1000
_PERCENTILES: Final = {"50th": 0.5, "99th": 0.99, "99.9th": 0.999}


@dataclass(frozen=True, slots=True)
class RecordShape:
    """Sizes in bytes of what is sent; values of headers are null below 0, keys are left out at 0."""

    value: int
    key: int = 0
    headers: int = 0
    header_key: int = 0
    header_value: int = 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """What all records took, in milliseconds."""

    average_ms: float
    percentiles_ms: dict[str, float]


async def measure(
    topic: str,
    count: int,
    shape: RecordShape,
    producer_options: dict[str, Any],
    consumer_options: dict[str, Any],
    step: Callable[[int, float], None],
) -> Measurement:
    """Sends records one after the other and waits for each at the other end; every thousandth is given to
    `step` with its seconds. Raises ToolError where what comes is not what was sent, BarnabasError.
    """
    partitions = await _partitions(topic, producer_options)
    rng = random.Random()
    took: list[float] = []
    async with AsyncProducer(**producer_options) as producer, AsyncConsumer(**consumer_options) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_end()
        for tp in partitions:
            await consumer.position(tp)
        for number in range(count):
            value, key, headers = _record(rng, shape)
            began = time.perf_counter()
            await producer.send_and_wait(topic, value, key=key, headers=headers)
            records = await consumer.poll(WAIT_S * 1000)
            took.append(time.perf_counter() - began)
            _check(records, value, key)
            if number % _STEP == 0:
                step(number, took[-1])
    took.sort()
    at = {name: took[int(count * share)] * 1000 for name, share in _PERCENTILES.items()}
    return Measurement(sum(took) / count * 1000, at)


async def _partitions(topic: str, options: dict[str, Any]) -> list[TopicPartition]:
    """The partitions of the topic, which is made with one where it is not there."""
    known = {key: value for key, value in options.items() if key.replace("_", ".") in ADMIN_CONFIG}
    async with AsyncAdmin(**known) as admin:
        try:
            described = (await admin.topics.describe([topic]))[topic]
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            click.echo(
                f'Topic "{topic}" does not exist. Will create topic with 1 partition(s)'
                " and replication factor = 1",
                err=True,
            )
            await admin.topics.create(NewTopic(topic, 1, 1))
            return [TopicPartition(topic, 0)]
    return [TopicPartition(topic, one.partition) for one in described.partitions]


def _record(
    rng: random.Random, shape: RecordShape
) -> tuple[bytes, bytes | None, list[tuple[str, bytes | None]]]:
    headers = [
        (
            rng.randbytes(shape.header_key).hex()[: shape.header_key],
            None if shape.header_value < 0 else rng.randbytes(shape.header_value),
        )
        for _ in range(shape.headers)
    ]
    return rng.randbytes(shape.value), rng.randbytes(shape.key) if shape.key else None, headers


def _check(records: list[ConsumerRecord], value: bytes, key: bytes | None) -> None:
    """``validate``: in the order of the script's own checks."""
    if not records:
        raise ToolError(f"poll() timed out before finding a result (timeout:[{WAIT_S * 1000:.0f}ms])")
    if (records[0].value, records[0].key) != (value, key):
        raise ToolError(
            f"The record at offset {records[0].offset} is not the one that was sent: who else writes?"
        )
    if len(records) > 1:
        raise ToolError(f"Only one result was expected during this test. We found [{len(records)}]")

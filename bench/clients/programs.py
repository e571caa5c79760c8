"""The programs of the bench of clients: each sends or reads so many records of 100 B, as its own users would
write it, in a process of its own.

    python -m bench.clients.programs NAME BOOTSTRAP TOPIC RECORDS

prints JSON: wall and processor seconds of this process from the first record to the last, after a tenth of as
many for warming up. Producers wait for every delivery, and fail if one is missing.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

VALUE: Final = os.urandom(100)
TUNED: Final = {"linger_ms": 20, "batch_size": 256 * 1024}
"""What a user of our producer who wants throughput sets; the others get the same by their names."""


class Clock:
    """Measures a program's second, larger part."""

    def __init__(self) -> None:
        self.wall_s = self.processor_s = 0.0

    @contextmanager
    def runs(self) -> Iterator[None]:
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall_s, self.processor_s = time.perf_counter() - wall, time.process_time() - processor

    def scale(self, records: int, done: int) -> None:
        """Makes the times of what was done those of so many records."""
        if done:
            self.wall_s *= records / done
            self.processor_s *= records / done


# ------------------------------------------------------------------------------------------------ producers


def _in_two(send: Callable[[int], None], records: int, clock: Clock) -> None:
    """A tenth to warm up, then all."""
    send(records // 10)
    with clock.runs():
        send(records)


def ours(bootstrap: str, topic: str, records: int, clock: Clock, **options: Any) -> None:
    from barnabas.client import Producer

    with Producer(bootstrap, **options) as producer:

        def send(count: int) -> None:
            for _ in range(count):
                producer.send(topic, VALUE)
            producer.flush()

        _in_two(send, records, clock)


def ours_tuned(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    ours(bootstrap, topic, records, clock, **TUNED)


def ours_async(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from barnabas.client import AsyncProducer

    async def main() -> None:
        async with AsyncProducer(bootstrap) as producer:

            async def send(count: int) -> None:
                for _ in range(count):
                    await producer.send(topic, VALUE)
                await producer.flush()

            await send(records // 10)
            with clock.runs():
                await send(records)

    asyncio.run(main())


def ours_arrow(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    import pyarrow as pa

    from barnabas.client import Producer

    table = pa.table({"value": pa.array([VALUE] * min(records, 100_000), pa.binary())})
    with Producer(bootstrap, **TUNED) as producer:

        def send(count: int) -> None:
            for _ in range(max(1, count // table.num_rows)):
                producer.send_arrow(topic, table)
            producer.flush()

        _in_two(send, records, clock)


def confluent(bootstrap: str, topic: str, records: int, clock: Clock, **options: Any) -> None:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **options})
    failed: list[Any] = []

    def told(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    def send(count: int) -> None:
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, VALUE, on_delivery=told)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        assert producer.flush(120) == 0
        assert not failed, failed[0]

    _in_two(send, records, clock)


def confluent_tuned(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    confluent(bootstrap, topic, records, clock, **{"linger.ms": 20, "batch.size": 256 * 1024})


def kafka_python(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)

    def send(count: int) -> None:
        sent = [producer.send(topic, VALUE) for _ in range(count)]
        producer.flush()
        assert all(each.succeeded() for each in sent)

    _in_two(send, records, clock)
    producer.close()


def aiokafka(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from aiokafka import AIOKafkaProducer

    async def main() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:

            async def send(count: int) -> None:
                sent = [await producer.send(topic, VALUE) for _ in range(count)]
                await producer.flush()
                assert all(each.done() and each.exception() is None for each in sent)

            await send(records // 10)
            with clock.runs():
                await send(records)

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------ consumers


def _read(poll: Callable[[], int], records: int, clock: Clock) -> None:
    seen = 0
    while seen < records // 10:
        seen += poll()
    warm = seen
    with clock.runs():
        while seen < records:
            seen += poll()
    clock.scale(records, seen - warm)


async def _read_async(poll: Callable[[], Awaitable[int]], records: int, clock: Clock) -> None:
    """As `_read`, with a poll that is awaited."""
    seen = 0
    while seen < records // 10:
        seen += await poll()
    warm = seen
    with clock.runs():
        while seen < records:
            seen += await poll()
    clock.scale(records, seen - warm)


def ours_reads(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from barnabas.client import Consumer

    with Consumer(bootstrap, group_id=None, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        _read(lambda: sum(1 for record in consumer.poll(timeout_ms=1000) if record.value), records, clock)


def ours_async_reads(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from barnabas.client import AsyncConsumer

    async def main() -> None:
        async with AsyncConsumer(bootstrap, group_id=None, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, 0)])

            async def poll() -> int:
                return sum(1 for record in await consumer.poll(timeout_ms=1000) if record.value)

            await _read_async(poll, records, clock)

    asyncio.run(main())


def ours_reads_arrow(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from barnabas.client import Consumer

    with Consumer(bootstrap, group_id=None, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        _read(lambda: sum(each.num_rows for each in consumer.poll_arrow(timeout_ms=1000)), records, clock)


def confluent_reads(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
    _read(lambda: sum(1 for each in consumer.consume(500, 1.0) if each.value()), records, clock)
    consumer.close()


def kafka_python_reads(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    _read(lambda: sum(len(each) for each in consumer.poll(timeout_ms=1000).values()), records, clock)
    consumer.close()


def aiokafka_reads(bootstrap: str, topic: str, records: int, clock: Clock) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def main() -> None:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])

            async def poll() -> int:
                return sum(len(each) for each in (await consumer.getmany(timeout_ms=1000)).values())

            await _read_async(poll, records, clock)

    asyncio.run(main())


PRODUCERS: Final = {
    "barnabas": ours,
    "barnabas tuned": ours_tuned,
    "barnabas async": ours_async,
    "barnabas send_arrow": ours_arrow,
    "confluent-kafka": confluent,
    "confluent-kafka tuned": confluent_tuned,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}
CONSUMERS: Final = {
    "barnabas": ours_reads,
    "barnabas async": ours_async_reads,
    "barnabas poll_arrow": ours_reads_arrow,
    "confluent-kafka": confluent_reads,
    "aiokafka": aiokafka_reads,
    "kafka-python": kafka_python_reads,
}


def main() -> None:
    """Runs one program."""
    kind, name, bootstrap, topic, records = sys.argv[1:]
    clock = Clock()
    {"produce": PRODUCERS, "consume": CONSUMERS}[kind][name](bootstrap, topic, int(records), clock)
    print(json.dumps({"wall_s": clock.wall_s, "processor_s": clock.processor_s}))


if __name__ == "__main__":
    main()

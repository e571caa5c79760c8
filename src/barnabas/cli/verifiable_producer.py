"""What ``barnabas verifiable-producer`` does once its flags are understood (``VerifiableProducer``)."""

import asyncio
import itertools
import sys
from typing import Any

from barnabas.cli.java_errors import java_class
from barnabas.cli.throughput_throttler import ThroughputThrottler
from barnabas.cli.verifiable_events import print_event
from barnabas.client import AsyncProducer
from barnabas.client.retries import Deadline
from barnabas.client.types import RecordMetadata
from barnabas.core.errors import BarnabasError
from barnabas.operations.clock import now_ms


class Numbers:
    """The records: numbers from 0 on, with keys that repeat and times that grow, where these are wanted."""

    def __init__(
        self, value_prefix: int | None, repeating_keys: int | None, create_time_ms: int | None
    ) -> None:
        self._prefix = "" if value_prefix is None else f"{value_prefix}."
        self._repeating_keys = repeating_keys
        self._next_key = 0
        self._create_time_ms = create_time_ms
        self._started_ms = now_ms()

    def value(self, number: int) -> str:
        return f"{self._prefix}{number}"

    def key(self) -> str | None:
        """The next key. A count below 1 is never reached, so the keys grow without end, as in Kafka's
        script.
        """
        if self._repeating_keys is None:
            return None
        key, self._next_key = self._next_key, self._next_key + 1
        if self._next_key == self._repeating_keys:
            self._next_key = 0
        return str(key)

    def timestamp_ms(self) -> int | None:
        """The next timestamp: each is later by the whole time since the start, as in Kafka's script."""
        timestamp = self._create_time_ms
        if timestamp is not None:
            self._create_time_ms = timestamp + now_ms() - self._started_ms
        return timestamp


class VerifiableProducer:
    """One run: what it sends, how much, how fast, and whether it waits for a broker before it begins."""

    def __init__(
        self, topic: str, numbers: Numbers, max_messages: int, throughput: int, *, connects: bool
    ) -> None:
        self._connects = connects
        self._topic = topic
        self._numbers = numbers
        self._max_messages = sys.maxsize if max_messages < 0 else max_messages
        self._throughput = throughput
        self._sent = 0
        self._acked = 0

    async def run(self, options: dict[str, Any]) -> None:
        """Sends until it is done or cancelled;
        then everything that was accepted gets its line, and a summary follows. Raises BarnabasError where
        `connects` finds no broker.
        """
        producer = AsyncProducer(options.pop("bootstrap.servers"), **options)
        started_ms = now_ms()
        throttler = ThroughputThrottler(self._throughput, started_ms)
        try:
            print_event("startup_complete")
            if self._connects:
                await producer.start()
            for number in itertools.takewhile(lambda each: each < self._max_messages, itertools.count()):
                sent_ms = now_ms()
                await self._send(producer, self._numbers.key(), self._numbers.value(number))
                if throttler.should_throttle(number, sent_ms):
                    await throttler.throttle()
        finally:
            await producer.close()
            print_event("shutdown_complete")
            elapsed_ms = max(1, now_ms() - started_ms)
            print_event(
                "tool_data",
                sent=self._sent,
                acked=self._acked,
                target_throughput=self._throughput,
                avg_throughput=1000 * (self._acked / elapsed_ms),
            )

    async def _send(self, producer: AsyncProducer, key: str | None, value: str) -> None:
        """`AsyncProducer.send` in its two steps:
        one that is cancelled after it accepted the record would lose its line.
        """

        def done(error: Exception | None, stored: RecordMetadata | None) -> None:
            if stored is None:
                self._print_error(key, value, error)
                return
            self._acked += 1
            print_event(
                "producer_send_success",
                key=key,
                value=value,
                offset=stored.offset,
                topic=stored.topic,
                partition=stored.partition,
            )

        timestamp_ms = self._numbers.timestamp_ms()
        deadline = Deadline(producer.max_block_ms)
        try:
            while True:
                delivery = producer.try_send(self._topic, value, key, None, timestamp_ms, ())
                if delivery is not None:
                    break
                await producer.make_ready(self._topic, deadline)
        except BarnabasError as error:
            self._sent += 1
            self._print_error(key, value, error)
            return
        self._sent += 1
        delivery.tell(done)
        if producer.gives_way():
            await asyncio.sleep(0)

    def _print_error(self, key: str | None, value: str, error: Exception | None) -> None:
        name = java_class(error) if isinstance(error, BarnabasError) else type(error).__name__
        print_event(
            "producer_send_error",
            topic=self._topic,
            key=key,
            value=value,
            exception=f"class {name}",
            message=str(error),
        )

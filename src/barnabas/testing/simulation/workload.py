"""Clients of a scenario: they use the real producer and consumer, and write down the answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from random import Random
from typing import Any, Final

from barnabas.client.consumer import AsyncConsumer
from barnabas.client.producer import AsyncProducer
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.log.producers import BATCHES_KEPT
from barnabas.testing.simulation.history import EndSeen, History, ProducerPromise, Read, Send
from barnabas.testing.simulation.world import World

REQUEST_TIMEOUT_MS: Final = 3000
DELIVERY_TIMEOUT_MS: Final = 30_000
_DAMAGE: Final = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR}
_STORM: Final = 0.1
_STORM_SENDS: Final = 12
_QUESTION: Final = 0.1
"""How often a consumer asks for the end of a partition."""


class ProducerClient:
    """Sends records in bursts until it is stopped."""

    def __init__(
        self, world: World, address: str, history: History, promise: ProducerPromise, options: dict[str, Any]
    ) -> None:
        self.promise = promise
        self.process = world.new_process(promise.name)
        self.stopping = False
        self._loop = world.loop
        self._rng = world.new_rng()
        self._address = address
        self._history = history
        self._numbers: dict[TopicPartition, int] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._producer: AsyncProducer | None = None
        self._options = {
            "acks": promise.acks,
            "enable_idempotence": promise.idempotent,
            "max_in_flight_requests_per_connection": BATCHES_KEPT if promise.pipelines else 1,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
            "max_block_ms": REQUEST_TIMEOUT_MS,
            **options,
        }

    async def run(self, pause_s: float) -> None:
        """Sends, and returns when the fate of everything is known or given up."""
        tps = [tp for topic in self._history.topics.values() for tp in topic.tps]
        producer = self._producer = AsyncProducer(self._address, **self._options)
        try:
            while not self.stopping:
                # Now and then more than may be under way, all to one partition.
                tp = self._rng.choice(tps)
                many = self._rng.random() < _STORM
                for _ in range(_STORM_SENDS if many else self._rng.randint(1, 3)):
                    await self._send(producer, tp if many else self._rng.choice(tps))
                await asyncio.sleep(self._rng.expovariate(1 / pause_s))
            with contextlib.suppress(BarnabasError):
                await producer.flush()
            await asyncio.gather(*self._waiting, return_exceptions=True)
        finally:
            await producer.abort()

    @property
    def unanswered(self) -> int:
        """The most batches of one partition that were sent and not answered yet."""
        if self._producer is None:
            return 0
        accumulator = self._producer._accumulator  # noqa: SLF001 - it tells callers nothing of batches
        return max((len(queue.in_flight) for queue, _ in accumulator.unfinished()), default=0)

    async def _send(self, producer: AsyncProducer, tp: TopicPartition) -> None:
        number = self._numbers.get(tp, 0)
        value = b"%s %d %s" % (self.promise.name.encode(), number, _padding(self._rng))
        send = Send(self.promise, tp, number, value, self._loop.time())
        try:
            delivery = await producer.send(tp.topic, value, partition=tp.partition)
        except BarnabasError:
            return  # it was not accepted: nothing was promised
        self._numbers[tp] = number + 1
        self._history.sends.append(send)
        waiting = asyncio.ensure_future(self._note(send, delivery))
        self._waiting.add(waiting)
        waiting.add_done_callback(self._waiting.discard)

    async def _note(self, send: Send, delivery: Awaitable[Any]) -> None:
        try:
            stored = await delivery
        except BarnabasError:
            return  # it may be there or not
        send.acked_s = self._loop.time()
        send.offset = stored.offset


def _padding(rng: Random) -> bytes:
    return b"." * int(rng.paretovariate(1.2) * 20 % 2000)


class ConsumerClient:
    """Reads all partitions from the beginning until it is stopped."""

    def __init__(
        self, world: World, address: str, history: History, name: str, options: dict[str, Any]
    ) -> None:
        self.name = name
        self.process = world.new_process(name)
        self.stopping = False
        self._loop = world.loop
        self._rng = world.new_rng()
        self._history = history
        self._address = address
        self._options = {
            "auto_offset_reset": "earliest",
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "default_api_timeout_ms": REQUEST_TIMEOUT_MS,
            **options,
        }

    async def run(self, pause_s: float) -> None:
        """Reads, now and then asks for the end of a partition, and writes both down."""
        async with self._consumer() as consumer:
            while not self.stopping:
                for read in await self._poll(consumer):
                    self._history.reads.append(read)
                if self._rng.random() < _QUESTION:
                    await self._ask(consumer)
                await asyncio.sleep(self._rng.expovariate(1 / pause_s))

    async def read_all(self, patience_s: float) -> None:
        """The final content of everything; a complaint where the end is not reached in time."""
        final = self._history.final = {tp: [] for topic in self._history.topics.values() for tp in topic.tps}
        deadline_s = self._loop.time() + patience_s
        async with self._consumer() as consumer:
            try:
                starts, ends = await consumer.beginning_offsets(final), await consumer.end_offsets(final)
            except BarnabasError as error:
                self._history.complaints.append(f"the end is not known: {error}")
                return
            # A loss of power may take a whole first segment that was never synced: then the log starts behind
            # it.
            reached = dict(starts)
            while any(reached[tp] < end for tp, end in ends.items()):
                for read in await self._poll(consumer):
                    final[read.tp].append((read.offset, read.value))
                    reached[read.tp] = read.offset + 1
                if self._loop.time() > deadline_s:
                    places = {str(tp): f"{reached[tp]} of {end}" for tp, end in ends.items()}
                    self._history.complaints.append(f"the end could not be reached: read {places}")
                    return

    @contextlib.asynccontextmanager
    async def _consumer(self) -> AsyncIterator[AsyncConsumer]:
        consumer = AsyncConsumer(self._address, **self._options)
        try:
            consumer.assign(tp for topic in self._history.topics.values() for tp in topic.tps)
            yield consumer
        finally:
            await consumer.close()

    async def _poll(self, consumer: AsyncConsumer) -> list[Read]:
        try:
            records = await consumer.poll(timeout_ms=500)
        except KafkaError as error:
            if error.code in _DAMAGE:
                self._history.complaints.append(f"{self.name} got: {error}")
            return []
        except BarnabasError:
            return []
        return [
            Read(self.name, TopicPartition(one.topic, one.partition), one.offset, one.value or b"")
            for one in records
        ]

    async def _ask(self, consumer: AsyncConsumer) -> None:
        tp = self._rng.choice(sorted(consumer.assignment()))
        asked_s = self._loop.time()
        with contextlib.suppress(BarnabasError):
            self._history.ends.append(EndSeen(tp, asked_s, (await consumer.end_offsets([tp]))[tp]))

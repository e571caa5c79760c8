"""Transactions of one whole node: the real producer with a transactional id, and consumers of committed data.

They write to a topic of their own, in a share of the seeds. What may never be is said by the judge of the
model of transactions (`barnabas.testing.transactions.judge`). The broker syncs every batch in these seeds: a
loss of power may take nothing that was decided.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import Any, Final, Literal

from barnabas.admin.admin import AsyncAdmin
from barnabas.admin.types import NewTopic
from barnabas.client.consumer import AsyncConsumer
from barnabas.client.errors import ClientTimeoutError, FatalTransactionError
from barnabas.client.producer import AsyncProducer
from barnabas.client.types import ConsumerGroupMetadata
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.testing.simulation.workload import DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from barnabas.testing.simulation.world import World
from barnabas.testing.sometimes import sometimes
from barnabas.testing.transactions.judge import ABORTED, COMMITTED, SentTransaction, TransactionJudge
from barnabas.testing.transactions.log_walk import LogWalk, Read
from barnabas.testing.transactions.readers import group_of

TRANSACTION_TIMEOUT_MS: Final = 4_000
BROKER_CONFIG: Final = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.flush.interval.messages": "1",
}
_TOPIC: Final = "ledger"
_TRIES: Final = 10
_READ_COMMITTED: Final = "read_committed"


class Ledger:
    """The producers and consumers of a world, and what they were answered."""

    def __init__(self, world: World, address: str, rng: Random) -> None:
        self.judge = TransactionJudge(world.trace)
        self.complaints: list[str] = []
        self._world = world
        self._address = address
        self._tps = [TopicPartition(_TOPIC, number) for number in range(rng.randint(1, 2))]
        names = [f"copier-{number}" for number in range(rng.randint(1, 2))]
        self._producers = [TransactionalClient(world, address, self.judge, name, self._tps) for name in names]
        self._reader = TransactionsReader(world, address, self.judge, "reader", self._tps)
        self._running: list[asyncio.Task[None]] = []

    async def start(self, admin: AsyncAdmin, pause_s: float) -> None:
        """Everybody begins."""
        await admin.topics.create(NewTopic(_TOPIC, partitions=len(self._tps)))
        spawn = self._world.loop.spawn
        self._running = [
            *(spawn(each.process, each.run(pause_s)) for each in self._producers),
            spawn(self._reader.process, self._reader.run(pause_s)),
        ]

    async def stop(self, patience_s: float) -> None:
        """Nobody begins anything new; what was left open has its time."""
        for each in self._producers:
            each.stopping = True
        done, late = await asyncio.wait(self._running[:-1], timeout=patience_s)
        self.complaints += [f"{task.get_name()} does not come to an end" for task in late]
        for task in done:
            task.result()
        await asyncio.sleep(2 * TRANSACTION_TIMEOUT_MS / 1000)
        self._reader.stopping = True
        await self._running[-1]

    async def read_back(self, patience_s: float) -> None:
        """What is committed in the end."""
        last = TransactionsReader(self._world, self._address, self.judge, "last reader", self._tps)
        await self._world.loop.spawn(last.process, self._read_back(last, patience_s))

    async def _read_back(self, last: "TransactionsReader", patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                committed, left = await last.read_all()
                offsets = {each.name: await each.group_offset() for each in self._producers}
        except TimeoutError:
            self.complaints.append("what is committed could not be read to its end")
            return
        walks = {tp: LogWalk(committed=records) for tp, records in committed.items()}
        self.judge.final(walks, offsets, left)

    def anomalies(self) -> list[str]:
        """All that may not be."""
        return [*self.complaints, *self.judge.anomalies]

    def __repr__(self) -> str:
        told = Counter(each.told or "unknown" for each in self.judge.sent.values())
        return f"<Ledger transactions={len(self.judge.sent)} {dict(sorted(told.items()))}>"


class TransactionalClient:
    """One producer of a transactional id after the other."""

    def __init__(
        self, world: World, address: str, judge: TransactionJudge, name: str, tps: list[TopicPartition]
    ) -> None:
        self.name = name
        self.process = world.new_process(name)
        self.stopping = False
        self._rng = world.new_rng()
        self._address = address
        self._judge = judge
        self._tps = tps
        self._generation = 0

    async def run(self, pause_s: float) -> None:
        """Transactions until it is stopped."""
        while not self.stopping:
            with contextlib.suppress(BarnabasError):
                async with self._producer() as (producer, generation):
                    await self._live(producer, generation, pause_s)

    async def group_offset(self) -> int:
        """How far the group has come that the transactions commit offsets of."""
        async with AsyncConsumer(self._address, group_id=group_of(self.name)) as consumer:
            tp = self._tps[0]
            found = (await _until_known(lambda: consumer.committed([tp])))[tp]
        return -1 if found is None else found.offset

    @contextlib.asynccontextmanager
    async def _producer(self) -> AsyncIterator[tuple[AsyncProducer, ProducerIdAndEpoch]]:
        """A new producer of the id: every earlier one is fenced."""
        producer = AsyncProducer(
            self._address,
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            max_block_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            await _until_known(producer.init_transactions)
            self._generation += 1
            generation = ProducerIdAndEpoch(0, self._generation)
            self._judge.producer_is(self.name, generation)
            yield producer, generation
        finally:
            await producer.abort()

    async def _live(self, producer: AsyncProducer, generation: ProducerIdAndEpoch, pause_s: float) -> None:
        while not self.stopping:
            sent = self._judge.new_transaction(self.name)
            producer.begin_transaction()
            try:
                if not await self._transaction(producer, generation, sent):
                    return
            except FatalTransactionError:
                sometimes("a transactional producer comes to its end")
                return
            except BarnabasError:
                await _until_known(producer.abort_transaction)
                self._judge.ended(sent, ABORTED)
            await asyncio.sleep(self._rng.expovariate(1 / pause_s))

    async def _transaction(
        self, producer: AsyncProducer, generation: ProducerIdAndEpoch, sent: SentTransaction
    ) -> bool:
        """One transaction; False where its producer vanishes with it."""
        rng, judge = self._rng, self._judge
        await self._send(producer, sent)
        if rng.random() < 0.5:
            sent.sends_offsets = True
            group = ConsumerGroupMetadata(group_of(self.name), -1, "", None)
            await producer.send_offsets({self._tps[0]: sent.number}, group)
            sent.offsets_answered = True
        fate = rng.choice(["commit", "commit", "commit", "abort", "vanish", "zombie"])
        if fate == "vanish":
            return False
        if fate == "abort":
            await _until_known(producer.abort_transaction)
            judge.ended(sent, ABORTED)
            return True
        if fate == "zombie":
            async with self._producer():
                pass
        sent.commit_asked = True
        await _until_known(producer.commit_transaction)
        judge.ended(sent, COMMITTED)
        if judge.is_fenced(self.name, generation):
            judge.took_fenced("commit", sent, generation)
        return True

    async def _send(self, producer: AsyncProducer, sent: SentTransaction) -> None:
        deliveries = []
        for _ in range(self._rng.randint(1, 6)):
            tp = self._rng.choice(self._tps)
            value = sent.new_value(tp)
            deliveries.append((value, await producer.send(tp.topic, value, partition=tp.partition)))
        for value, delivery in deliveries:
            await delivery
            sent.answered.add(value)


class TransactionsReader:
    """Reads all partitions from the beginning."""

    def __init__(
        self, world: World, address: str, judge: TransactionJudge, name: str, tps: list[TopicPartition]
    ) -> None:
        self.process = world.new_process(name)
        self.stopping = False
        self._name = name
        self._rng = world.new_rng()
        self._address = address
        self._judge = judge
        self._tps = tps

    async def run(self, pause_s: float) -> None:
        """Reads until it is stopped."""
        async with self._consumer(_READ_COMMITTED) as consumer:
            while not self.stopping:
                await self._poll(consumer)
                await asyncio.sleep(self._rng.expovariate(1 / pause_s))

    async def _poll(self, consumer: AsyncConsumer) -> None:
        judge = self._judge
        with contextlib.suppress(BarnabasError):
            for one in await consumer.poll(timeout_ms=500):
                tp, read = TopicPartition(one.topic, one.partition), (one.offset, bytes(one.value or b""))
                judge.shown(self._name, tp, [read])
                judge.read[self._name, tp].append(read)
                judge.positions[self._name, tp] = one.offset + 1

    async def read_all(self) -> tuple[dict[TopicPartition, list[Read]], list[str]]:
        """All that is committed, and the partitions in which a transaction is open."""
        async with self._consumer(_READ_COMMITTED) as consumer, self._consumer("read_uncommitted") as other:
            stable = await _until_known(lambda: consumer.end_offsets(self._tps))
            ends = await _until_known(lambda: other.end_offsets(self._tps))
            while any([await consumer.position(tp) < end for tp, end in stable.items()]):
                await self._poll(consumer)
        left = [f"{tp} is stable up to {stable[tp]} of {end}" for tp, end in ends.items() if stable[tp] < end]
        return {tp: self._judge.read[self._name, tp] for tp in self._tps}, left

    @contextlib.asynccontextmanager
    async def _consumer(
        self, isolation_level: Literal["read_committed", "read_uncommitted"]
    ) -> AsyncIterator[AsyncConsumer]:
        consumer = AsyncConsumer(
            self._address,
            auto_offset_reset="earliest",
            isolation_level=isolation_level,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            default_api_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            consumer.assign(self._tps)
            yield consumer
        finally:
            await consumer.close()


async def _until_known(call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Calls again what is not known in time, as its caller is asked to."""
    for _ in range(_TRIES):
        with contextlib.suppress(ClientTimeoutError):
            return await call()
    return await call()

"""`AsyncProducer`: records into topics, idempotent unless configured otherwise.

Theory of operation
-------------------
``await send(...)`` returns once the record is in the accumulator, with a `Delivery` to await for its
place in the log; until then it is on its way, batched with others. It waits itself only for metadata of a
new topic and for room in the buffer. The sender runs in turns of the event loop between the caller's own
(`Sender.pump`), so a caller that sends in a tight loop gives it a turn each time a batch is full, or has
waited for a millisecond.

Appending is safe from any thread and needs no event loop; that is how the synchronous `Producer` avoids a
hop between threads for each record.
"""

import asyncio
import atexit
import contextlib
import os
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Final, Never, Self, Unpack

from barnabas.client.accumulator import RecordAccumulator
from barnabas.client.arrow_rows import sections
from barnabas.client.broker_delays import BrokerDelays
from barnabas.client.cluster import Cluster
from barnabas.client.config import Given, given_options, producer_config
from barnabas.client.errors import (
    ClientClosedError,
    ClientTimeoutError,
    DeliveryTimeoutError,
    FatalTransactionError,
    InvalidRecordError,
)
from barnabas.client.habits import IN_CLOSE, IN_FLUSH, IN_SEND, OF_PRODUCERS, knows_arguments, refuse
from barnabas.client.home_loop import FORKED
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.options import OnDelivery, Partitioner, ProducerOptions
from barnabas.client.partition_queue import PartitionQueue
from barnabas.client.producer_batch import Delivery, ProducerBatch
from barnabas.client.producer_hooks import ProducerHooks, ProducerRecord
from barnabas.client.producer_metrics import Metrics, ProducerMetrics
from barnabas.client.record_arguments import (
    PARTITION_MAX,
    TIMESTAMP_MAX,
    as_bytes,
    function_or_none,
    plain_headers,
    whole_number,
)
from barnabas.client.retries import Deadline
from barnabas.client.sender import Sender
from barnabas.client.telemetry import Telemetry
from barnabas.client.topic_names import check_valid, plain_topic
from barnabas.client.transactions import TransactionManager
from barnabas.client.types import ConsumerGroupMetadata, HeadersLike, OffsetAndMetadata, RecordMetadata
from barnabas.core.config import Config, Source
from barnabas.core.errors import BarnabasError, ConfigError, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.instead import knows
from barnabas.records.batch import HEADER_SIZE
from barnabas.records.compression import Codec

_NS_PER_MS = 1_000_000
_GIVE_WAY_S = 0.001

_GROWN_BYTES: Final = 256 << 10
"""How large a batch of the default ``batch.size`` becomes at most, while the sender has not come to it."""

_FAILURES_MAX: Final = 100
"""How many failures that nobody has looked at are kept for the next flush."""

_log = EventLog("client.producer")


@knows(OF_PRODUCERS)
class AsyncProducer:
    """Sends records. Options are the keys of Kafka's producer with underscores: ``linger_ms=5``.

    Use it as a context manager; leaving it flushes. Raises ConfigError for a bad option.
    """

    _released = True
    """Whether nothing can be lost with the object: it was closed, or never came to be."""

    _ended_because = "The producer was closed"

    def __init__(self, bootstrap_servers: Given | None = None, /, **options: Unpack[ProducerOptions]) -> None:
        config = producer_config(given_options("producer", bootstrap_servers, options))
        self._config = config
        self.max_block_ms: int = config["max.block.ms"]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster = Cluster(
            config,
            in_flight_max=config["max.in.flight.requests.per.connection"],
            create_topics=True,
        )
        self._cluster.watch(self._metadata_changed)
        self._accumulator = RecordAccumulator(
            batch_bytes=config["batch.size"],
            grown_bytes=_GROWN_BYTES if _may_grow(config) else 0,
            buffer_bytes=config["buffer.memory"],
            request_bytes_max=config["max.request.size"],
            codec=Codec.named(config["compression.type"]),
            monotonic=time.monotonic,
            on_work=self._wake,
            ignore_keys=config["partitioner.ignore.keys"],
            loads=self._loads if config["partitioner.adaptive.partitioning.enable"] else None,
        )
        self._partitioner: Partitioner | None = config["partitioner"]
        hooks = ProducerHooks(config)
        self.hooks: ProducerHooks | None = hooks or None
        """The program's own functions on the way of each record, if there are any."""
        self._metrics = ProducerMetrics()
        self._delays = BrokerDelays(config["partitioner.availability.timeout.ms"])
        self._transactions = (
            None
            if config["transactional.id"] is None
            else TransactionManager(
                config,
                self._cluster,
                self._accumulator,
                pump=self._pump,
                give_up_waiting=lambda error, never_sent: self._sender.give_up_waiting(
                    error, never_sent=never_sent
                ),
            )
        )
        named = {"transactional_id": config["transactional.id"]}
        self._telemetry = Telemetry(
            self._cluster,
            self.metrics,
            {name: text for name, text in named.items() if text},
            enabled=config["enable.metrics.push"],
        )
        self._sender = Sender(
            config,
            self._cluster,
            self._accumulator,
            self._batch_finished,
            self._transactions,
            self._metrics,
            self._delays,
        )
        self.is_woken = False
        """Whether the event loop was woken for what is there, and has not come to it."""
        self._woken_at = 0.0
        self.is_full = False
        """Whether a batch is full that the loop has not come to."""
        self._closed = False
        self._ended = asyncio.Event()
        self._room: list[asyncio.Future[None]] = []
        self._failures: list[tuple[Callable[[], bool], Exception]] = []
        """Of batches since the last flush: whether callers have looked at them by now, and what it was."""
        self._released = False
        _unreleased.add(self)

    async def start(self) -> Self:
        """Connects; raises `ClientTimeoutError` when no broker answers.
        `send` does it by itself otherwise.
        """
        self._attach()
        await self._cluster.connect(Deadline(self.max_block_ms))
        self._telemetry.begin()
        return self

    def _attach(self) -> None:
        """The loop that runs is the producer's; raises ClientClosedError, EventLoopError."""
        self._cluster.home.enter()
        self._loop = self._cluster.home.loop

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
        on_delivery: OnDelivery | None = None,
        **others: Never,
    ) -> Delivery:
        """Accepts a record for sending. Key and value are bytes, or texts (encoded in UTF-8), or what the
        serializers take; the time is now unless given; headers are pairs of text and bytes, or a mapping.
        ``on_delivery(error, metadata)`` is called when the outcome is known, on the producer's event loop.

        Raises TypeError and `InvalidRecordError` (a ValueError) for an argument that cannot be sent, at once
        and by its name; `ClientTimeoutError` when topic or room are not there within ``max.block.ms``,
        `KafkaError` when the topic may not be used, `EventLoopError` on another event loop. A record that was
        accepted, or whose call was cancelled after that, is accounted for by its `Delivery`, by `flush` and
        by `close`.
        """
        if others:
            refuse("AsyncProducer.send", others, IN_SEND)
        if self._loop is not asyncio.get_running_loop():
            self._attach()
        function_or_none("on_delivery", on_delivery)
        if self.hooks is not None:
            record = self.hooks.outgoing(
                ProducerRecord(topic, value, key, partition, timestamp_ms, plain_headers(headers))
            )
            topic, value, key, partition, timestamp_ms, headers = record
        try:
            delivery = self.try_send(topic, value, key, partition, timestamp_ms, headers)
            if delivery is None:
                deadline = Deadline(self.max_block_ms)
                while delivery is None:
                    await self.make_ready(topic, deadline)
                    delivery = self.try_send(topic, value, key, partition, timestamp_ms, headers)
            elif self.gives_way():
                await asyncio.sleep(0)
        except Exception as error:
            if self.hooks is not None:
                self.hooks.refused(error)
            raise
        if self.hooks is not None:
            self.hooks.accepted(delivery)
        if on_delivery is not None:
            delivery.tell(on_delivery)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = (),
    ) -> RecordMetadata:
        """As `send`, and waits until the record is stored; raises `KafkaError` when it is refused."""
        return await (
            await self.send(
                topic, value, key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        )

    def try_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeadersLike,
    ) -> Delivery | None:
        """Accepts a record from any thread, as it is, past the hooks; None when `make_ready` has to run
        first. Raises as `send`.
        """
        if self._closed:
            raise ClientClosedError(self._ended_because)
        # The usual kinds cost one comparison each; what differs is looked at closely.
        if topic.__class__ is not str:
            topic = plain_topic(topic, "a record's topic")
        if value is not None and value.__class__ is not bytes:
            value = as_bytes("value", value)
        if key is not None and key.__class__ is not bytes:
            key = as_bytes("key", key)
        if partition is not None:
            partition = whole_number("partition", partition, PARTITION_MAX)
        elif self._partitioner is not None:
            known = self._accumulator.partitions(topic)
            if known is None:
                return None
            chosen = self._partitioner(key, *known)
            partition = None if chosen is None else whole_number("partition", chosen, PARTITION_MAX)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // _NS_PER_MS
        else:
            timestamp_ms = whole_number("timestamp_ms", timestamp_ms, TIMESTAMP_MAX)
        plain = plain_headers(headers) if headers else ()
        try:
            return self._accumulator.try_append(topic, value, key, partition, timestamp_ms, plain)
        except InvalidRecordError as error:
            self._refused(error)
            raise

    def try_send_section(self, topic: str, partition: int, section: bytes, count: int) -> Delivery | None:
        """Accepts a batch's worth of encoded records (`records.columnar_encoder`), with the time of now;
        as `try_send`.
        """
        timestamp_ms = time.time_ns() // _NS_PER_MS
        try:
            return self._accumulator.try_append_section(topic, partition, section, count, timestamp_ms)
        except InvalidRecordError as error:
            self._refused(error)
            raise

    async def send_arrow(
        self,
        topic: str,
        table: Any,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
    ) -> list[Delivery]:
        """Sends each row of a table (of pyarrow, polars, pandas) as a record with the time of now, without a
        Python object a record. `key`, `value`, `headers` and `partition` name columns; those that are not
        named are the columns of these names, if there are any, as in Spark's Kafka sink. Keys and values are
        texts or bytes, headers lists of structs of ``key`` and ``value``. Serializers, partitioners and
        interceptors are passed by.

        The deliveries are those of batches, each for all of its records. Needs ``barnabas[arrow]``. Raises as
        `send`: InvalidRecordError names the column, and then earlier rows may have been sent.
        """
        columns = {"key": key, "value": value, "headers": headers, "partition": partition}
        self._attach()
        partitions, available = await self.partitions_for(topic), await self.available_partitions(topic)
        rows = sections(
            table,
            columns,
            partitions=len(partitions),
            available=available,
            section_bytes=self.table_section_bytes(topic),
            sticky_bytes=self.section_bytes,
        )
        deliveries = []
        for one in rows:
            arguments = topic, one.partition, one.records, one.record_count
            deadline = Deadline(self.max_block_ms)
            while (delivery := self.try_send_section(*arguments)) is None:
                await self.make_ready(topic, deadline)
            deliveries.append(delivery)
            # Each batch is full: the sender gets its turn.
            await asyncio.sleep(0)
        return deliveries

    async def make_ready(self, topic: str, deadline: Deadline) -> None:
        """Waits until the topic is known and there is room; raises as `send` does."""
        self._attach()
        try:
            if not self._accumulator.knows(topic):
                check_valid(topic)
                await self._cluster.topic(topic, deadline)
                self._telemetry.begin()
            while not self._accumulator.has_room:
                self._sender.pump()
                await self._wait_for_room(deadline)
        except (ClientTimeoutError, InvalidRecordError, KafkaError) as error:
            self._refused(error)
            raise

    def _refused(self, error: Exception) -> None:
        """A record was not taken, for what the brokers or the settings say of it. The transaction that it was
        meant for lacks it, so it must not be committed, also by a caller that continues (``doSend`` of
        ``KafkaProducer``). Called by any thread: what that thread calls next finds the transaction failed.
        """
        if self._transactions is None or self._loop is None or self._loop.is_closed():
            return
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            self._transactions.records_failed(error)
        else:
            self._loop.call_soon_threadsafe(self._transactions.records_failed, error)

    async def _wait_for_room(self, deadline: Deadline) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._room.append(waiter)
        try:
            async with asyncio.timeout(deadline.left_s):
                await waiter
        except TimeoutError:
            raise ClientTimeoutError(
                f"No room in the buffer of {self._config['buffer.memory']} bytes (buffer.memory)"
                f" in {deadline.total_ms:.0f} ms"
            ) from None

    def gives_way(self) -> bool:
        """Whether a caller that sends one record after the other should let the event loop run now: it was
        woken, and a batch is full, or it has waited for a millisecond. Before that, records that come while
        the loop wakes share a batch, also where ``linger.ms`` is 0. Says so once, until the next such moment.
        """
        if not self.is_woken:
            return False
        now = time.monotonic()
        if not self.is_full and now - self._woken_at < _GIVE_WAY_S:
            return False
        self.is_full = False
        self._woken_at = now
        return True

    def _loads(self, queues: Sequence[PartitionQueue]) -> Sequence[int | None]:
        """How many batches' worth waits for each partition; None where its broker takes nothing."""
        leader, is_slow = self._cluster.metadata.leader, self._delays.is_slow
        load = self._accumulator.load
        return [None if is_slow(leader(queue.tp)) else load(queue) for queue in queues]

    def metrics(self) -> Metrics:
        """What this producer has done and what it holds, by Kafka's names in groups:
        ``metrics()["producer-metrics"]["record-send-rate"]``. Rates and averages are those of the last half
        to whole minute; what did not happen in it is NaN.
        """
        accumulator = self._accumulator
        return self._metrics.shown(
            {
                "buffer-available-bytes": max(0, self._config["buffer.memory"] - accumulator.waiting_bytes),
                "buffer-total-bytes": self._config["buffer.memory"],
                "metadata-age": self._cluster.age_ms / 1000,
                "requests-in-flight": self._cluster.requests_in_flight,
                "waiting-threads": len(self._room),
            }
        )

    def _wake(self, full: bool) -> None:
        """There is work: a batch takes no more (`full`), is due, or has its first record. Called under the
        accumulator's lock, by any thread. Raises ClientClosedError.
        """
        if self._loop is None:
            return
        self.is_full = self.is_full or full
        if not self.is_woken:
            self._cluster.home.check()
            self._woken_at = time.monotonic()
            self.is_woken = True
            self._loop.call_soon_threadsafe(self._woken_up)

    def _woken_up(self) -> None:
        self.is_woken = self.is_full = False
        self._sender.pump()

    def _pump(self) -> None:
        self._sender.pump()

    def _metadata_changed(self, metadata: ClusterMetadata, topics: Collection[str]) -> None:
        for name in topics:
            topic = metadata.topics.get(name)
            # An answer that was on its way may be about a topic that is not asked about any more.
            if topic is not None and self._cluster.is_needed(name) and (available := topic.available):
                self._accumulator.set_topic(name, len(topic.partitions), available, topic.topic_id)
        since = time.monotonic() - self._config["metadata.max.idle.ms"] / 1000
        # ``ProducerMetadata.retainTopic``: looked at with each answer.
        if idle := self._cluster.needed_before(since, topics):
            self._cluster.forget(self._accumulator.leave_idle(idle, since))
        self._sender.pump()

    def _batch_finished(self, batch: ProducerBatch, error: Exception | None) -> None:
        # A transaction has its own way to say that something in it failed.
        is_news = error is not None and not batch.is_observed() and self._transactions is None
        if error is not None and is_news and len(self._failures) < _FAILURES_MAX:
            self._failures.append((batch.is_observed, error))
        if self._room and self._accumulator.has_room:
            waiting, self._room = self._room, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def leave_to_parent(self) -> None:
        """The process was forked, and this is the child: what this producer holds is the parent's to send."""
        self._closed = self._released = True
        self._ended.set()
        self._ended_because = FORKED

    @knows_arguments(IN_FLUSH)
    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - it is what others have
        """Sends everything accepted so far, without lingering, and waits until it is stored, for at most so
        many seconds: then it raises `DeliveryTimeoutError`, and what is left is on its way still.
        Below 0 there is no limit, as without one.

        Raises the first failure since the last flush of a record whose `Delivery` was not waited for, so that
        no record is lost in silence. Raises ClientClosedError where the event loop that the producer ran on
        is closed, EventLoopError on another one.
        """
        self._attach()
        try:
            async with asyncio.timeout(None if timeout is None or timeout < 0 else timeout):
                await self._drain()
        except TimeoutError:
            raise DeliveryTimeoutError(
                f"{self.held_records} record(s) are not stored yet after {timeout} s"
            ) from None
        if self._transactions is not None:
            self._transactions.raise_error()

    async def _drain(self) -> None:
        batches = [batch for _, batch in self._accumulator.unfinished()]
        self._sender.hurry += 1
        try:
            self._sender.pump()
            waiting = [asyncio.wrap_future(batch.future) for batch in batches]
            await asyncio.gather(*waiting, return_exceptions=True)
        finally:
            self._sender.hurry -= 1
        failures, self._failures = self._failures, []
        # A caller may have come to a failure after it happened, as one does who waits for one after another.
        for is_observed, failure in failures:
            if not is_observed():
                raise failure

    # Transactions.

    async def init_transactions(self) -> None:
        """Makes this the only producer of its ``transactional_id``: older ones are fenced, what they left
        open is ended. `begin_transaction` needs it; `transaction` does it by itself.

        Raises ConfigError without a ``transactional_id``, KafkaError where it may not be used,
        ClientTimeoutError.
        """
        self._attach()
        await self._transactional().init()

    def begin_transaction(self) -> None:
        """From now on what is sent belongs to a new transaction. Raises TransactionStateError while one is
        open, FatalTransactionError once this producer was fenced.
        """
        self._transactional().begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Commits offsets of a consumer's group with the transaction (``sendOffsetsToTransaction``): they are
        valid when it is committed, and never where it is aborted. `group` is the consumer's
        ``group_metadata()``, by which a member that is out of the group is refused.

        Raises AbortableTransactionError, FatalTransactionError, ClientTimeoutError.
        """
        self._attach()
        await self._transactional().send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Waits until every record of the transaction is stored, and commits it.

        Raises AbortableTransactionError where something of it failed: then `abort_transaction`.
        FatalTransactionError: close the producer. ClientTimeoutError: the end is not known within
        ``max.block.ms``, call it again.
        """
        self._attach()
        await self._transactional().commit()

    async def abort_transaction(self) -> None:
        """Aborts the transaction: no reader of committed records will see any of it. Raises as
        `commit_transaction`.
        """
        self._attach()
        await self._transactional().abort()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """``async with producer.transaction():`` begins one, and commits it at the end of the block; an
        exception of the block aborts it, and is raised again. Raises as `commit_transaction`, after the
        abort.
        """
        await self.init_transactions()
        self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except FatalTransactionError:
            raise
        except BaseException as error:
            await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        """Aborts what can be aborted; the error that led here is the one that matters."""
        if isinstance(error, ClientTimeoutError) and not self._transactional().can_abort:
            return  # its end is being written
        try:
            await self.abort_transaction()
        except (BarnabasError, OSError) as second:
            error.add_note(f"The transaction could not be aborted: {second}")

    def _transactional(self) -> TransactionManager:
        if self._transactions is None:
            raise ConfigError("This producer has no transactions: give it a transactional_id")
        if self._closed:
            raise ClientClosedError("The producer was closed")
        return self._transactions

    @knows_arguments(IN_CLOSE)
    async def close(self) -> None:
        """Flushes and closes the connections; raises as `flush`. A transaction that is open is aborted.
        Harmless when repeated: a second call waits for the first. Raises ClientClosedError where records are
        lost because the event loop that the producer ran on is closed, EventLoopError on another one.
        """
        if self._closed:
            await self._ended.wait()
            return
        if not self._cluster.home.enter_to_end():
            await self._end_without_loop()
            return
        self._closed = True
        try:
            if self._transactions is not None and self._transactions.can_abort:
                await self._transactions.abort()
            await self._drain()
        finally:
            await self.abort()

    async def _end_without_loop(self) -> None:
        """Closes what the loop has left; raises ClientClosedError where a record was lost with it."""
        lost = self._unfinished()
        await self.abort()
        if lost:
            raise ClientClosedError(
                f"{lost} when the event loop that the producer ran on was closed: close the producer before"
                " its loop, as `async with` does"
            )

    def _unfinished(self) -> str:
        """What is lost when nothing more can be sent, in words; empty where nothing is."""
        if self._transactions is not None and self._transactions.can_abort:
            return "a transaction was open"
        held = self.held_records
        return f"{held} record(s) were not stored" if held else ""

    async def abort(self) -> None:
        """Closes at once; records that are not stored fail with ClientClosedError."""
        if self._ended_because is FORKED:
            return  # the connections are the parent's, and so is the loop
        self._cluster.home.enter_to_end()
        self._closed = True
        try:
            await self._sender.close()
        finally:
            self._released = True
            self._ended.set()
            await self._telemetry.close()
            await self._cluster.close()

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> list[int]:
        """The partitions of a topic, which is waited for as long as ``max.block.ms``, or `timeout_ms`; raises
        as `send` does.
        """
        deadline = Deadline(self.max_block_ms if timeout_ms is None else timeout_ms)
        known = await self._cluster.topic(topic, deadline)
        return list(known.partitions)

    async def available_partitions(self, topic: str) -> list[int]:
        """Those of them that have a leader, all where none has: where records without a key go.
        Raises as `send`.
        """
        known = await self._cluster.topic(topic, Deadline(self.max_block_ms))
        return list(known.available or known.partitions)

    @property
    def section_bytes(self) -> int:
        """How many bytes of records fit into a batch (``batch.size``)."""
        return self._accumulator.batch_bytes - HEADER_SIZE

    def table_section_bytes(self, topic: str) -> int:
        """The same for records that are there all at once, as those of a table are: what a batch of the topic
        may grow to.
        """
        return self._accumulator.limit_bytes(topic) - HEADER_SIZE

    @property
    def held_records(self) -> int:
        """How many accepted records are neither stored nor failed at the moment; ``len(producer)`` too."""
        return self._accumulator.held_records()

    def __len__(self) -> int:
        return self.held_records

    def __bool__(self) -> bool:
        return True

    def warn_if_dropped(self, shown: object) -> None:
        """Says once that records are left in it, and it is no longer used; `shown` is what its user has."""
        if not self._released:
            self._released = True
            warn_of_records(shown, self.held_records)

    def __del__(self) -> None:
        self.warn_if_dropped(self)

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.abort()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await (self.close() if kind is None else self.abort())

    def __repr__(self) -> str:
        closed = " closed" if self._closed else ""
        return f"<AsyncProducer {self._cluster.bootstrap} {self.held_records} records not stored yet{closed}>"


_unreleased: "weakref.WeakSet[AsyncProducer]" = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    """What a thread holds at the end of the process is never collected, and would be lost without a word."""
    for producer in list(_unreleased):
        producer.warn_if_dropped(producer)


def _after_fork() -> None:
    for producer in list(_unreleased):
        producer.leave_to_parent()


# Not on every system there is a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _may_grow(config: Config) -> bool:
    """Whether batches may become larger than ``batch.size``.

    A size that was asked for is the upper bound that Kafka's documentation makes of it. With acks=0 no
    answer says that a topic takes no batch as large as that: all its records would be lost without a word.
    """
    return config.source("batch.size") is Source.DEFAULT and config["acks"] != "0"


def warn_of_records(producer: object, count: int) -> None:
    """Says that a producer was dropped with records in it. The warning is for developers, like that of
    an unclosed file; the line in the log is for operators, who have such warnings off.
    """
    if not count:
        return
    text = (
        f"{producer!r} was dropped without close() while {count} record(s) were not stored: they may be lost;"
        " use it in a `with` block, or call close() or abort()"
    )
    _log.error("producer.dropped", records=count, advice="use it in a with block, or call close()")
    warnings.warn(text, ResourceWarning, stacklevel=2, source=producer)

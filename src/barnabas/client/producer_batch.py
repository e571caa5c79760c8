"""`ProducerBatch`, a batch on its way, and `Delivery`, what a caller holds for one record in it.

There is one future a batch, not one a record: a `Delivery` is only the batch and a place in it. It can be
awaited on any event loop, or waited for in any thread.
"""

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, TypeAlias

from barnabas.client.batch_builder import BatchBuilder
from barnabas.client.errors import DeliveryTimeoutError
from barnabas.client.types import RecordMetadata
from barnabas.core.ids import TopicPartition
from barnabas.records.compression import Codec

NO_SEQUENCE = -1

DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, Exception | None], object]
"""Gets where the record was stored, or why it was not (Java's ``Callback``)."""


class ProducerBatch:
    """Records of one partition that are sent, acknowledged or failed together."""

    __slots__ = (
        "_future",
        "attempts",
        "base_sequence",
        "builder",
        "created_at",
        "number",
        "observed",
        "retry_at",
        "tp",
    )

    def __init__(self, tp: TopicPartition, codec: Codec, created_at: float) -> None:
        self.tp = tp
        self.number = -1
        """Its place among the batches of the partition, from the first: the order to keep."""
        self.builder = BatchBuilder(codec)
        self.created_at = created_at
        """Seconds of the monotonic clock."""
        self.retry_at = 0.0
        self.attempts = 0
        self.base_sequence = NO_SEQUENCE
        self.observed: set[int] = set()
        """The records in it, by index, whose outcome a caller waits for, or has."""
        self._future: Future[tuple[int, int]] = Future()
        self._future.set_running_or_notify_cancel()  # a waiter that gives up must not cancel the batch

    @property
    def count(self) -> int:
        """How many records it holds."""
        return self.builder.count

    @property
    def size_bytes(self) -> int:
        """Its size before compression."""
        return self.builder.size_bytes

    @property
    def future(self) -> "Future[tuple[int, int]]":
        """Completes with base offset and log append time (-1: the records' own times)."""
        return self._future

    def is_observed(self) -> bool:
        """Whether a caller looks at the outcome of each of its records."""
        return len(self.observed) == self.count

    def complete(self, base_offset: int, log_append_time: int) -> None:
        """The broker stored it; the offset is -1 when the broker did not say where."""
        self._future.set_result((base_offset, log_append_time))

    def fail(self, error: Exception) -> None:
        """It will not be stored, or that cannot be known."""
        self._future.set_exception(error)

    def __repr__(self) -> str:
        done = " done" if self._future.done() else ""
        return (
            f"<ProducerBatch {self.tp} {self.count} records seq={self.base_sequence}"
            f" attempts={self.attempts}{done}>"
        )


class Delivery:
    """One record that was accepted. ``await delivery`` or ``delivery.result()`` says where it was stored."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.future.done()

    def add_done_callback(self, callback: DeliveryCallback) -> None:
        """Calls it once when the outcome is known, in the thread of the producer's event loop; at once where
        it is known already. The order is that of the records of a partition. It must be quick and must not
        raise.
        """
        self._batch.observed.add(self._index)

        def done(future: "Future[tuple[int, int]]") -> None:
            error = future.exception()
            if error is None:
                callback(self._metadata(*future.result()), None)
            else:
                assert isinstance(error, Exception)  # `fail` takes no other
                callback(None, error)

        self._batch.future.add_done_callback(done)

    def result(self, timeout: float | None = None, *, timeout_ms: float | None = None) -> RecordMetadata:
        """Blocks until the record is stored, for at most `timeout` seconds or `timeout_ms` milliseconds.

        Raises `KafkaError` if it was not stored, `DeliveryTimeoutError` (a TimeoutError) when the time is
        over first. Never call it on the producer's own event loop: await instead.
        """
        if timeout is None and timeout_ms is not None:
            timeout = timeout_ms / 1000
        self._batch.observed.add(self._index)
        try:
            stored = self._batch.future.result(timeout)
        except BaseException as error:
            self._not_seen_yet()
            if isinstance(error, TimeoutError) and not self._batch.future.done():
                raise DeliveryTimeoutError(
                    f"No acknowledgement from {self._batch.tp} in {timeout} s"
                ) from None
            raise
        return self._metadata(*stored)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `result`, with what it would raise for a value; None once the record is stored."""
        try:
            self.result(timeout)
        except DeliveryTimeoutError:
            raise
        except Exception as error:
            return error
        return None

    def _not_seen_yet(self) -> None:
        """A wait has ended. When it was cut short, the caller has no outcome: then `flush` raises it."""
        if not self._batch.future.done():
            self._batch.observed.discard(self._index)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        self._batch.observed.add(self._index)
        future = self._batch.future
        if not future.done():
            try:
                yield from asyncio.wrap_future(future).__await__()
            except BaseException:
                self._not_seen_yet()
                raise
        return self._metadata(*future.result())

    def _metadata(self, base_offset: int, log_append_time: int) -> RecordMetadata:
        return RecordMetadata(
            self._batch.tp.topic,
            self._batch.tp.partition,
            base_offset + self._index if base_offset >= 0 else -1,
            self._timestamp if log_append_time < 0 else log_append_time,
        )

    def __repr__(self) -> str:
        return f"<Delivery {self._index} of {self._batch!r}>"

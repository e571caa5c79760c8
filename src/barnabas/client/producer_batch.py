"""`ProducerBatch`, a batch on its way, and `Delivery`, what a caller holds for one record in it.

There is one future a batch, not one a record: a `Delivery` is only the batch and a place in it. It can be
awaited on any event loop, or waited for in any thread.

A batch that is too large for a broker is split in two, these perhaps again: it is then over when both are,
and its deliveries look for their outcome in the piece that has their record.
"""

import asyncio
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any

from barnabas.client.batch_builder import BatchBuilder
from barnabas.client.errors import DeliveryTimeoutError
from barnabas.client.habits import OF_DELIVERIES
from barnabas.client.options import OnDelivery
from barnabas.client.types import RecordMetadata
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.instead import knows
from barnabas.records.batch import SEQUENCE_MAX
from barnabas.records.compression import Codec

NO_SEQUENCE = -1

_log = EventLog("client.producer")


class ProducerBatch:
    """Records of one partition that are sent, acknowledged or failed together."""

    __slots__ = (
        "_future",
        "attempts",
        "base_sequence",
        "builder",
        "created_at",
        "first",
        "is_section",
        "limit_bytes",
        "may_be_stored",
        "number",
        "observed",
        "parent",
        "pieces",
        "retry_at",
        "tp",
    )

    def __init__(self, tp: TopicPartition, codec: Codec, created_at: float) -> None:
        self.tp = tp
        self.number = -1
        """Its place among the batches of the partition, from the first."""
        self.first = 0
        """The index of its first record in the whole, where it is a piece of a batch that was split."""
        self.builder = BatchBuilder(codec)
        self.created_at = created_at
        """Seconds of the monotonic clock."""
        self.limit_bytes = 0
        """Up to which size it takes records, as long as it was not sent."""
        self.retry_at = 0.0
        self.attempts = 0
        self.base_sequence = NO_SEQUENCE
        self.observed: set[int] = set()
        """The records in it, by index, whose outcome a caller waits for, or has."""
        self.is_section = False
        """Whether its records came as one, with one delivery that stands for all of them."""
        self.may_be_stored = False
        """Whether the outcome of an attempt to send it is not known."""
        self.parent: ProducerBatch | None = None
        self.pieces: tuple[ProducerBatch, ...] = ()
        """What it was split into."""
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
    def sent_bytes(self) -> int:
        """Its size as it was sent, header included; before it is, that before compression."""
        return self.builder.sent_bytes

    @property
    def future(self) -> "Future[tuple[int, int]]":
        """Completes with base offset and log append time (-1: the records' own times)."""
        return self._future

    def is_observed(self) -> bool:
        """Whether a caller looks at the outcome of each of its records."""
        whole = self
        while whole.parent is not None:
            whole = whole.parent
        if whole.is_section:
            return bool(whole.observed)
        if whole is self:
            return len(self.observed) == self.count
        return whole.observed.issuperset(range(self.first, self.first + self.count))

    @property
    def whole_may_be_stored(self) -> bool:
        """Whether it is a piece of a batch that may be stored."""
        return any(whole.may_be_stored for whole in self._wholes())

    def _wholes(self) -> "Iterator[ProducerBatch]":
        """What it is a piece of."""
        whole = self.parent
        while whole is not None:
            yield whole
            whole = whole.parent

    @property
    def place(self) -> tuple[int, int]:
        """Its place in its partition, that of pieces within that of the whole: the order to keep."""
        return self.number, self.first

    def find(self, index: int) -> "tuple[ProducerBatch, int]":
        """Where a record is by now: the batch that is sent with it, and its index in that."""
        batch = self
        while batch.pieces:
            before, behind = batch.pieces
            inside = index < before.count
            batch, index = (before, index) if inside else (behind, index - before.count)
        return batch, index

    def raise_failure(self) -> None:
        """Raises what became of any piece of it that was not stored."""
        for piece in self.pieces:
            piece.raise_failure()
        self._future.result()

    def split(self) -> "tuple[ProducerBatch, ...]":
        """Two batches with a half of its records each, which take its place (``splitAndReenqueue``).

        Their sequences are those that the records had: the broker refused it before it looked at them. Where
        an earlier attempt has stored it after all, under a limit that was higher then, the broker has these
        sequences behind it, and refuses the pieces.
        """
        half = self.count // 2
        builders = self.builder.split(half)
        self.pieces = tuple(self._piece(builder) for builder in builders)
        before, behind = self.pieces
        behind.first += half
        if self.base_sequence != NO_SEQUENCE:
            before.base_sequence = self.base_sequence
            behind.base_sequence = (self.base_sequence + half) & SEQUENCE_MAX
        self.builder.release()
        return self.pieces

    def _piece(self, builder: BatchBuilder) -> "ProducerBatch":
        piece = ProducerBatch(self.tp, Codec.NONE, self.created_at)
        piece.builder = builder
        piece.parent = self
        piece.number, piece.first = self.number, self.first
        piece.attempts = self.attempts
        return piece

    def complete(self, base_offset: int, log_append_time: int) -> None:
        """The broker stored it; the offset is -1 when the broker did not say where."""
        if base_offset >= 0:
            # It has taken a piece: so it does not have the whole.
            for whole in self._wholes():
                whole.may_be_stored = False
        # A caller that keeps deliveries keeps no records with them.
        self.builder.release()
        self._future.set_result((base_offset, log_append_time))
        self._tell_parent()

    def fail(self, error: Exception) -> None:
        """It will not be stored, or that cannot be known."""
        self.builder.release()
        self._future.set_exception(error)
        self._tell_parent()

    def _tell_parent(self) -> None:
        # What became of the records is known by the pieces alone.
        if self.parent is not None and all(piece.future.done() for piece in self.parent.pieces):
            self.parent.complete(-1, -1)

    def __repr__(self) -> str:
        done = " done" if self._future.done() else ""
        return (
            f"<ProducerBatch {self.tp} {self.count} records seq={self.base_sequence}"
            f" attempts={self.attempts}{done}>"
        )


@knows(OF_DELIVERIES)
class Delivery:
    """One record that was accepted. ``await delivery`` or ``delivery.result()`` says where it was stored.

    It has what futures of ``asyncio`` and ``concurrent.futures`` have, but cannot be cancelled: the record is
    on its way.
    """

    __slots__ = ("_batch", "_timestamp", "index")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self._batch = batch
        self.index = index
        """Which record of its batch it is, from 0."""
        self._timestamp = timestamp

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.future.done()

    def running(self) -> bool:
        """Whether it is not known yet."""
        return not self.done()

    def cancel(self) -> bool:
        """False: a record that was accepted is sent."""
        return False

    def cancelled(self) -> bool:
        """False, for the same reason."""
        return False

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """Calls it with this delivery when the outcome is known, in the thread of the producer's event loop;
        at once where it is known already. The order is that of the records of a partition. It must be quick;
        what it raises is logged. `exception` and `result` do not wait there.
        """
        self._batch.observed.add(self.index)
        self.watch(lambda _error, _stored: callback(self))

    def watch(self, on_delivery: OnDelivery) -> None:
        """As `add_done_callback`, with the outcome; does not count as a caller who looks at it."""

        def done(_future: object) -> None:
            error, stored = self._outcome()
            try:
                on_delivery(error, stored)
            except BaseException as problem:  # it is the caller's, who is not here
                _log.error("delivery.callback_failed", partition=self._batch.tp, error=repr(problem))
                # ``sys.exit()`` would end the thread of a synchronous producer, and nothing but that.
                is_main = threading.current_thread() is threading.main_thread()
                if is_main and not isinstance(problem, Exception):
                    raise

        self._batch.future.add_done_callback(done)

    def tell(self, on_delivery: OnDelivery) -> None:
        """As `add_done_callback`, with the outcome."""
        self._batch.observed.add(self.index)
        self.watch(on_delivery)

    def result(self, timeout: float | None = None, *, timeout_ms: float | None = None) -> RecordMetadata:
        """Blocks until the record is stored, for at most `timeout` seconds or `timeout_ms` milliseconds.

        Raises `KafkaError` if it was not stored, `DeliveryTimeoutError` (a TimeoutError) when the time is
        over first. Never call it on the producer's own event loop: await instead.
        """
        if timeout is None and timeout_ms is not None:
            timeout = timeout_ms / 1000
        self._batch.observed.add(self.index)
        future = self._batch.future
        try:
            # Its own error is a record's, and looked for below.
            future.exception(timeout)
        except BaseException as error:
            self._not_seen_yet()
            if isinstance(error, TimeoutError) and not future.done():
                raise DeliveryTimeoutError(
                    f"No acknowledgement from {self._batch.tp} in {timeout} s"
                ) from None
            raise
        return self._stored()

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
            self._batch.observed.discard(self.index)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        self._batch.observed.add(self.index)
        future = self._batch.future
        if not future.done():
            try:
                yield from asyncio.wrap_future(future).__await__()
            except BaseException:
                self._not_seen_yet()
                raise
        return self._stored()

    def _outcome(self) -> tuple[Exception | None, RecordMetadata | None]:
        try:
            return None, self._stored()
        except Exception as error:
            return error, None

    def _stored(self) -> RecordMetadata:
        """Where the record was stored, of a batch that is over. Raises why it was not."""
        if self._batch.is_section:
            self._batch.raise_failure()
        batch, index = self._batch.find(self.index)
        base_offset, log_append_time = batch.future.result()
        return RecordMetadata(
            batch.tp.topic,
            batch.tp.partition,
            base_offset + index if base_offset >= 0 else -1,
            self._timestamp if log_append_time < 0 else log_append_time,
        )

    def __repr__(self) -> str:
        return f"<Delivery {self.index} of {self._batch!r}>"

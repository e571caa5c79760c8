"""The synchronous faces: the same clients, run on an event loop in a thread of their own.

Nothing is written twice. `mirrored` makes a method out of that of the asynchronous twin: it runs on the loop,
as a client's state belongs to its loop, and the caller waits for it. Types and parameters are those of the
twin.

What the caller hands in to be called back (listeners, commit callbacks) runs in the caller's own thread while
it waits, not in the loop's: there it may call the consumer again, and take its time.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import os
import queue
import re
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Never,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)

from barnabas.client.arrow_rows import sections
from barnabas.client.committed import Offsets
from barnabas.client.config import Given
from barnabas.client.consumer import AsyncConsumer
from barnabas.client.errors import ClientClosedError
from barnabas.client.habits import (
    IN_CLOSE,
    IN_CLOSE_OF_CONSUMERS,
    IN_SEND,
    IN_SUBSCRIBE,
    OF_CONSUMERS,
    OF_PRODUCERS,
    knows_arguments,
    refuse,
)
from barnabas.client.home_loop import FORKED
from barnabas.client.options import ConsumerOptions, OnDelivery, ProducerOptions
from barnabas.client.producer import AsyncProducer
from barnabas.client.producer_batch import Delivery
from barnabas.client.producer_hooks import ProducerRecord
from barnabas.client.record_arguments import function_or_none, plain_headers
from barnabas.client.retries import Deadline
from barnabas.client.types import ConsumerRecord, HeadersLike, OffsetAndMetadata, RecordMetadata
from barnabas.core.ids import TopicPartition
from barnabas.core.instead import knows

_CLOCK_MASK: Final = 15

if TYPE_CHECKING:
    import pyarrow as pa

SyncListener: TypeAlias = Callable[[list[TopicPartition]], object]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
"""A face of a subclass is one of the class: it may have mirrors of what it inherits."""
C = TypeVar("C", bound="AsyncClient")


_threads: "weakref.WeakSet[LoopThread]" = weakref.WeakSet()


def _after_fork() -> None:
    for thread in list(_threads):
        thread.left_behind()


# Not on every system there is a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class LoopThread:
    """An event loop that runs in a daemon thread until it is closed."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Without a loop it makes a plain one of asyncio."""
        self._loop = loop or asyncio.new_event_loop()
        self._callers: list[queue.SimpleQueue[Callable[[], object] | None]] = []
        """What each waiting caller has to run meanwhile, the innermost last; None ends its wait."""
        self._entrance = threading.Lock()
        self._closing = False
        self._forked = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _threads.add(self)

    def left_behind(self) -> None:
        """This is a child that was forked: the thread is the parent's alone."""
        self._forked = self._closing = True
        self._entrance = threading.Lock()  # another thread may have had the old one

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The coroutine's value; an interrupt of the waiting thread cancels it. Raises ClientClosedError when
        another thread closes this one first.
        """
        tasks: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        with self._entrance:
            if self._closing:
                work.close()
                raise ClientClosedError(FORKED if self._forked else "The client was closed")
            self._callers.append(tasks)  # first: the work may call back as soon as the loop has it
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(lambda _done: tasks.put(None))
        try:
            while (task := tasks.get()) is not None:
                task()
            return future.result()
        except concurrent.futures.CancelledError:
            if not self._closing:
                raise
            raise ClientClosedError("The client was closed") from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._callers.remove(tasks)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Has the loop's thread call it, behind what it has to do before; never where the loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def call(self, function: Callable[[], T]) -> T:
        """The function's value, computed in the loop's thread."""

        async def work() -> T:
            return function()

        return self.run(work())

    def in_caller(
        self, function: Callable[P, object] | None
    ) -> Callable[P, Coroutine[Any, Any, None]] | None:
        """A coroutine function for the loop that runs this one in the thread that waits for it."""
        if function is None:
            return None

        async def call(*args: P.args, **kwargs: P.kwargs) -> None:
            outcome: concurrent.futures.Future[None] = concurrent.futures.Future()

            def run() -> None:
                try:
                    function(*args, **kwargs)
                except BaseException as error:
                    outcome.set_exception(error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    outcome.set_result(None)

            self._callers[-1].put(run)
            await asyncio.wrap_future(outcome)

        return call

    @property
    def closed(self) -> bool:
        """Whether the thread has ended."""
        return self._forked or self._loop.is_closed()

    def close(self) -> None:
        """Ends the thread, and the wait of all callers of `run`; harmless when repeated."""
        with self._entrance:
            if self._closing:
                return
            self._closing = True
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @staticmethod
    async def _cancel_all() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Face(Generic[A_co]):
    """A synchronous face: an asynchronous twin and the thread that its loop runs in."""

    def __init__(self, twin: A_co, thread: LoopThread) -> None:
        self._twin = twin
        self._thread = thread
        self._ending = threading.RLock()

    def end(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Closes the twin, then the thread; harmless when repeated. A second thread that closes waits for the
        first: what that one flushes must not lose its loop.
        """
        with self._ending:
            if not self._thread.closed:
                try:
                    self._thread.run(close())
                finally:
                    self._thread.close()

    def __repr__(self) -> str:
        return repr(self._twin).replace("<Async", "<", 1)


class AsyncClient(Protocol):
    """What an asynchronous client is to its face."""

    def start(self) -> Coroutine[Any, Any, object]:
        """Connects."""

    def close(self) -> Coroutine[Any, Any, None]:
        """Closes the connections."""


class ClientFace(Face[C]):
    """The face of a whole client: a context manager that connects at its begin and closes at its end."""

    @knows_arguments(IN_CLOSE)
    def close(self) -> None:
        """Closes the connections, the producer's after a flush, and raises what that raises.
        Harmless when repeated.
        """
        self.end(self._twin.close)

    def using(
        self, work: Callable[Concatenate[C, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What an asynchronous function comes to that works with the twin, which is its first argument."""
        return mirrored(work)(self, *args, **kwargs)

    def __enter__(self) -> Self:
        try:
            self._thread.run(self._twin.start())
        except BaseException:
            self._abort()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()

    def _abort(self) -> None:
        """Closes after a start that failed."""
        self.end(self._twin.close)


def made_in_thread(make: Callable[[], A], name: str) -> tuple[A, LoopThread]:
    """A twin, made in the loop of a thread of its own; raises what making it raises."""
    thread = LoopThread(name)
    try:
        return thread.call(make), thread
    except BaseException:
        thread.close()
        raise


@overload
def mirrored(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[A], P], T]: ...
@overload
def mirrored(method: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[Face[A], P], T]: ...
def mirrored(method: Callable[Concatenate[A, P], Any]) -> Callable[Concatenate[Face[A], P], T]:
    """A method of a face: runs that of the twin on the loop's thread, and waits for its coroutine if it gives
    one.
    """

    @functools.wraps(method)
    def call(face: Face[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        twin = face._twin  # noqa: SLF001

        async def work() -> T:
            outcome = method(twin, *args, **kwargs)
            value: T = await outcome if inspect.iscoroutine(outcome) else outcome
            return value

        return face._thread.run(work())  # noqa: SLF001

    return call


def _polling(
    method: Callable[Concatenate[AsyncConsumer, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Consumer", P], T]:
    """A method of a consumer's face that gives records: an interrupt leaves them to the next one."""

    @functools.wraps(method)
    def call(face: "Consumer", /, *args: P.args, **kwargs: P.kwargs) -> T:
        twin, thread = face._twin, face._thread  # noqa: SLF001
        given: list[T] = []

        async def work() -> T:
            given.append(await method(twin, *args, **kwargs))
            return given[0]

        try:
            return thread.run(work())
        except BaseException:
            # The poll may have been over when the interrupt came: the loop's thread knows, behind the
            # cancellation.
            thread.call_soon(lambda: twin.take_back() if given else None)
            raise

    return call


@knows(OF_PRODUCERS)
class Producer(ClientFace[AsyncProducer]):
    """`AsyncProducer` without ``await``; safe to use from several threads.

    `send` appends in the calling thread, so a record costs no hop to the loop's thread. A signal handler must
    not call the producer: within a `send` it would wait for itself. It may raise an exception, or set a flag.
    While a thread closes the producer, every record that others have sent is stored or has an error in its
    `Delivery`; from then on `send` and `flush` raise ClientClosedError.
    """

    def __init__(self, bootstrap_servers: Given | None = None, /, **options: Unpack[ProducerOptions]) -> None:
        super().__init__(
            *made_in_thread(lambda: AsyncProducer(bootstrap_servers, **options), "barnabas-producer")
        )
        self._max_block_ms: int = self._twin.max_block_ms

    def send(
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
        """Accepts a record for sending; ``.result()`` of what it returns waits until it is stored.

        Takes and raises what `AsyncProducer.send` does. `on_delivery` is called in the thread of the
        producer's event loop.
        """
        if others:
            refuse("Producer.send", others, IN_SEND)
        twin = self._twin
        if twin.hooks is not None or on_delivery is not None:
            function_or_none("on_delivery", on_delivery)
            record = ProducerRecord(topic, value, key, partition, timestamp_ms, plain_headers(headers))
            return self._send_with_hooks(record, on_delivery)
        delivery = twin.try_send(topic, value, key, partition, timestamp_ms, headers)
        if delivery is None:
            return self._send_later((topic, value, key, partition, timestamp_ms, headers))
        # The clock is looked at once in 16 records, which follow each other in microseconds where it matters.
        if twin.is_woken and (twin.is_full or delivery.index & _CLOCK_MASK == 0) and twin.gives_way():
            # Hands the interpreter to the sending thread, which else would wait for it up to 5 ms: measured,
            # that halves the rate of batches of 16 KB.
            time.sleep(0)
        return delivery

    def _send_later(self, record: tuple[str, Any, Any, int | None, int | None, HeadersLike]) -> Delivery:
        """Waits for the topic and for room first."""
        deadline = Deadline(self._max_block_ms)
        while True:
            self._thread.run(self._twin.make_ready(record[0], deadline))
            delivery = self._twin.try_send(*record)
            if delivery is not None:
                return delivery

    def _send_with_hooks(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> Delivery:
        """The same with the functions that were given to the producer, or for this record."""
        twin, hooks = self._twin, self._twin.hooks
        if hooks is not None:
            record = hooks.outgoing(record)
        try:
            delivery = twin.try_send(*record) or self._send_later(record)
        except Exception as error:
            if hooks is not None:
                hooks.refused(error)
            raise
        if twin.gives_way():
            time.sleep(0)
        if hooks is not None:
            hooks.accepted(delivery)
        if on_delivery is not None:
            delivery.tell(on_delivery)
        return delivery

    def send_and_wait(self, topic: str, value: Any = None, key: Any = None, **options: Any) -> RecordMetadata:
        """As `send`, and waits until the record is stored; raises `KafkaError` when it is refused."""
        return self.send(topic, value, key, **options).result()

    def send_section(self, topic: str, partition: int, section: bytes, count: int) -> Delivery:
        """Accepts a batch's worth of records that are encoded already; `section_bytes` says how much that is.

        The delivery is that of the last record. Raises as `AsyncProducer.send`.
        """
        twin, deadline = self._twin, Deadline(self._max_block_ms)
        while (delivery := twin.try_send_section(topic, partition, section, count)) is None:
            self._thread.run(twin.make_ready(topic, deadline))
        return delivery

    def send_arrow(
        self,
        topic: str,
        table: Any,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
    ) -> list[Delivery]:
        """See `AsyncProducer.send_arrow`; the rows are encoded in the calling thread."""
        columns = {"key": key, "value": value, "headers": headers, "partition": partition}
        partitions, available = self.partitions_for(topic), self.available_partitions(topic)
        rows = sections(
            table,
            columns,
            partitions=len(partitions),
            available=available,
            section_bytes=self.table_section_bytes(topic),
            sticky_bytes=self.section_bytes,
        )
        return [self.send_section(topic, one.partition, one.records, one.record_count) for one in rows]

    @property
    def held_records(self) -> int:
        """How many accepted records are neither stored nor failed at the moment; ``len(producer)`` too."""
        return self._twin.held_records

    def __len__(self) -> int:
        return self._twin.held_records

    def __bool__(self) -> bool:
        return True

    @property
    def section_bytes(self) -> int:
        """How many bytes of records fit into a batch."""
        return self._twin.section_bytes

    def table_section_bytes(self, topic: str) -> int:
        """The same for records that are there all at once, as those of a table are."""
        return self._twin.table_section_bytes(topic)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """``with producer.transaction():`` begins one, and commits it at the end of the block; an exception
        of the block aborts it, and is raised again. Raises as `AsyncProducer.transaction`.
        """
        block = self._twin.transaction()
        self._thread.run(block.__aenter__())
        try:
            yield self
        except BaseException as error:
            self._thread.run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._thread.run(block.__aexit__(None, None, None))

    init_transactions = mirrored(AsyncProducer.init_transactions)
    begin_transaction = mirrored(AsyncProducer.begin_transaction)
    send_offsets = mirrored(AsyncProducer.send_offsets)
    commit_transaction = mirrored(AsyncProducer.commit_transaction)
    abort_transaction = mirrored(AsyncProducer.abort_transaction)
    flush = mirrored(AsyncProducer.flush)
    partitions_for = mirrored(AsyncProducer.partitions_for)
    available_partitions = mirrored(AsyncProducer.available_partitions)
    metrics = mirrored(AsyncProducer.metrics)

    def __del__(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and not thread.closed:
            self._twin.warn_if_dropped(self)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._abort()

    def _abort(self) -> None:
        # Without the flush of `close`: there may be no broker that would take the records.
        self.end(self._twin.abort)


@knows(OF_CONSUMERS)
class Consumer(ClientFace[AsyncConsumer]):
    """`AsyncConsumer` without ``await``; use it from one thread at a time.

    Two calls are for other threads: `wakeup`, and `close`. What a thread waits for while another one closes
    ends with ClientClosedError, and so does whatever it calls then; what its last poll gave is committed,
    where that is automatic.
    """

    def __init__(self, bootstrap_servers: Given | None = None, /, **options: Unpack[ConsumerOptions]) -> None:
        super().__init__(
            *made_in_thread(lambda: AsyncConsumer(bootstrap_servers, **options), "barnabas-consumer")
        )

    @knows_arguments(IN_SUBSCRIBE)
    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: SyncListener | None = None,
        on_revoked: SyncListener | None = None,
        on_lost: SyncListener | None = None,
    ) -> None:
        """See `AsyncConsumer.subscribe`; the listeners are plain functions, called in the polling thread."""
        thread, twin = self._thread, self._twin
        thread.call(
            lambda: twin.subscribe(
                topics,
                pattern=pattern,
                on_assigned=thread.in_caller(on_assigned),
                on_revoked=thread.in_caller(on_revoked),
                on_lost=thread.in_caller(on_lost),
            )
        )

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: Callable[[Offsets, Exception | None], object] | None = None,
    ) -> None:
        """See `AsyncConsumer.commit_async`;
        the callback is a plain function, called in the polling thread.
        """
        called = self._thread.in_caller(callback)
        self._thread.call(lambda: self._twin.commit_async(offsets, called))

    assign = mirrored(AsyncConsumer.assign)
    assignment = mirrored(AsyncConsumer.assignment)
    subscription = mirrored(AsyncConsumer.subscription)
    unsubscribe = mirrored(AsyncConsumer.unsubscribe)
    commit = mirrored(AsyncConsumer.commit)
    committed = mirrored(AsyncConsumer.committed)
    group_metadata = mirrored(AsyncConsumer.group_metadata)
    enforce_rebalance = mirrored(AsyncConsumer.enforce_rebalance)
    seek = mirrored(AsyncConsumer.seek)
    seek_to_time = mirrored(AsyncConsumer.seek_to_time)
    seek_to_beginning = mirrored(AsyncConsumer.seek_to_beginning)
    seek_to_end = mirrored(AsyncConsumer.seek_to_end)
    pause = mirrored(AsyncConsumer.pause)
    resume = mirrored(AsyncConsumer.resume)
    paused = mirrored(AsyncConsumer.paused)
    position = mirrored(AsyncConsumer.position)
    lag = mirrored(AsyncConsumer.lag)
    metrics = mirrored(AsyncConsumer.metrics)
    poll = _polling(AsyncConsumer.poll)
    poll_arrow = _polling(AsyncConsumer.poll_arrow)
    to_arrow = mirrored(AsyncConsumer.to_arrow)
    to_pandas = mirrored(AsyncConsumer.to_pandas)
    to_polars = mirrored(AsyncConsumer.to_polars)
    fetch_raw = _polling(AsyncConsumer.fetch_raw)
    partitions_for = mirrored(AsyncConsumer.partitions_for)
    topic_id = mirrored(AsyncConsumer.topic_id)
    beginning_offsets = mirrored(AsyncConsumer.beginning_offsets)
    end_offsets = mirrored(AsyncConsumer.end_offsets)
    offsets_for_times = mirrored(AsyncConsumer.offsets_for_times)

    def arrow_batches(
        self, *, to_end: bool = False, include_headers: bool = False
    ) -> "Iterator[pa.RecordBatch]":
        """See `AsyncConsumer.arrow_batches`."""
        ends = self._thread.run(self._twin.ends()) if to_end else None
        while ends is None or not self._thread.call(lambda: self._twin.has_read_to(ends)):
            yield from self.poll_arrow(timeout_ms=1000, include_headers=include_headers)

    def wakeup(self) -> None:
        """See `AsyncConsumer.wakeup`; returns at once."""
        self._twin.wakeup()

    @knows_arguments(IN_CLOSE_OF_CONSUMERS)
    def close(self, timeout_ms: float | None = None) -> None:
        """See `AsyncConsumer.close`."""
        self.end(self._twin.close if timeout_ms is None else lambda: self._twin.close(timeout_ms))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Every record, without end."""
        while True:
            yield from self.poll(timeout_ms=1000)

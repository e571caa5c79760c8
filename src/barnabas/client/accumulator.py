"""`RecordAccumulator`: where records wait, sorted by partition, until a batch is full or old enough.

Any thread may append; batches are taken and finished on the producer's event loop. One lock guards
all of it, held for a microsecond at a time. `on_work` is called (in the appending thread) when there is
something new to consider: a batch was opened or is due (False), or one takes no more (True).

A batch of ``batch.size`` is due, however long records may linger. Until the sender comes to it, it may grow
on, to `grown_bytes`: each partition has one batch in a request, so for a program that sends faster than its
sender, the size of batches is what a record costs. That delays nothing, as the batch waited in any case.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.client.errors import InvalidRecordError, RecordTooLargeError
from barnabas.client.partition_queue import PartitionQueue, ProducerIdentity
from barnabas.client.partitioner import StickyPartitioner, key_hash
from barnabas.client.producer_batch import Delivery, ProducerBatch
from barnabas.client.types import Headers
from barnabas.core.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.records.compression import Codec

if TYPE_CHECKING:
    from concurrent.futures import Future

Loads: TypeAlias = Callable[[Sequence[PartitionQueue]], Sequence[int | None]]
"""How many batches wait for each of these partitions; None for one that should get none."""

_LOCK_S: Final = 1.0


class TopicQueues:
    """The queues of one topic's partitions."""

    __slots__ = (
        "available",
        "count",
        "limit_bytes",
        "queues",
        "sticky",
        "taken_bytes",
        "topic_id",
        "used_at",
    )

    def __init__(
        self,
        topic: str,
        count: int,
        available: Sequence[int],
        *,
        topic_id: Uuid,
        limit_bytes: int,
        sticky_bytes: int,
        loads: Loads | None,
    ) -> None:
        self.topic_id = topic_id
        self.used_at = 0.0
        """When its newest batch was made, or it came into the metadata, in seconds of the monotonic clock."""
        self.count = count
        """How many partitions it has; where it was deleted and made again with fewer, there are queues of
        others, in which records may wait.
        """
        self.limit_bytes = limit_bytes
        """How large its batches may grow."""
        self.taken_bytes = sticky_bytes
        """How large a batch a broker has stored, as it was sent; ``batch.size`` before that."""
        self.queues = [PartitionQueue(TopicPartition(topic, number)) for number in range(count)]
        self.available = available
        self.sticky = StickyPartitioner(
            sticky_bytes, None if loads is None else lambda numbers: loads([self.queues[n] for n in numbers])
        )


class RecordAccumulator:
    """All records of a producer that are not acknowledged yet; `waiting_bytes` is their size."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        grown_bytes: int = 0,
        buffer_bytes: int,
        request_bytes_max: int,
        codec: Codec,
        monotonic: Callable[[], float],
        on_work: Callable[[bool], object],
        ignore_keys: bool = False,
        loads: Loads | None = None,
    ) -> None:
        """A batch is due with `batch_bytes`, and takes no more with `grown_bytes`, if that is more.

        `loads` says how much waits for each of some partitions, None for one whose broker takes nothing
        at the moment; without it records without a key are spread evenly.
        """
        self.batch_bytes = min(batch_bytes, request_bytes_max)
        self._grown_bytes = max(self.batch_bytes, min(grown_bytes, request_bytes_max))
        self.waiting_bytes = 0
        self._buffer_bytes = buffer_bytes
        self._request_bytes_max = request_bytes_max
        self._codec = codec
        self._monotonic = monotonic
        self._on_work = on_work
        self._ignore_keys = ignore_keys
        self._loads = loads
        self._lock = threading.Lock()
        self._topics: dict[str, TopicQueues] = {}
        self._idle: dict[str, TopicQueues] = {}
        """Of topics that have left the metadata: where their sequences go on when they come back."""
        self._active: dict[PartitionQueue, None] = {}
        self._refusal: Callable[[], Exception] | None = None

    def knows(self, topic: str) -> bool:
        return topic in self._topics

    def limit_bytes(self, topic: str) -> int:
        """How large a batch of this topic may become."""
        known = self._topics.get(topic)
        return self._grown_bytes if known is None else known.limit_bytes

    def partitions(self, topic: str) -> tuple[Sequence[int], Sequence[int]] | None:
        """All partitions of a topic, and those that have a leader; None where it is not known."""
        known = self._topics.get(topic)
        return None if known is None else (range(known.count), known.available)

    @property
    def has_room(self) -> bool:
        return self.waiting_bytes < self._buffer_bytes

    def set_topic(self, topic: str, count: int, available: Sequence[int], topic_id: Uuid = ZERO_UUID) -> None:
        """The topic has this many partitions, of which these have a leader. Partitions never go away, unless
        it is another topic of the same name.
        """
        with self._lock:
            known = self._topics.get(topic)
            if known is None and topic in self._idle:
                known = self._topics[topic] = self._idle.pop(topic)
                known.used_at = self._monotonic()
            if known is None:
                self._topics[topic] = TopicQueues(
                    topic,
                    count,
                    available,
                    topic_id=topic_id,
                    limit_bytes=self._grown_bytes,
                    sticky_bytes=self.batch_bytes,
                    loads=self._loads,
                )
                self._topics[topic].used_at = self._monotonic()
                return
            if topic_id != known.topic_id:
                known.topic_id, known.count = topic_id, count
                known.limit_bytes, known.taken_bytes = self._grown_bytes, self.batch_bytes
            known.count = max(known.count, count)
            known.available = available
            if known.sticky.partition not in available:
                known.sticky.partition = -1
            for number in range(len(known.queues), count):
                known.queues.append(PartitionQueue(TopicPartition(topic, number)))

    def leave_idle(self, topics: Sequence[str], since: float) -> list[str]:
        """Takes records for these topics only after another `set_topic`, unless some wait or came since this
        time of the monotonic clock. Those of the topics for which that is so.
        """
        with self._lock:
            busy = {queue.tp.topic for queue in self._active}
            busy |= {name for name in topics if name in self._topics and self._topics[name].used_at >= since}
            idle = [name for name in topics if name not in busy]
            self._idle |= {name: self._topics.pop(name) for name in idle if name in self._topics}
        return idle

    def try_append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp: int,
        headers: Headers,
    ) -> Delivery | None:
        """Adds a record; None when the topic is not known yet or there is no room. Raises InvalidRecordError,
        and what `refuse_with` says.
        """
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            known = self._topics.get(topic)
            if known is None or self.waiting_bytes >= self._buffer_bytes:
                return None
            sticky = None
            if partition is not None:
                queue = _explicit(known, topic, partition)
            elif key is not None and not self._ignore_keys:
                queue = known.queues[key_hash(key) % known.count]
            else:
                sticky = known.sticky
                number = sticky.partition
                queue = known.queues[number if number >= 0 else sticky.choose(known.available)]
            batch = queue.waiting[-1] if queue.waiting else None
            if batch is not None and not batch.attempts:
                builder = batch.builder
                added = builder.append(timestamp, key, value, headers, batch.limit_bytes)
                if added:
                    self.waiting_bytes += added
                    size = builder.size_bytes
                    is_due = size >= self.batch_bytes
                    if sticky is not None and sticky.bytes_left <= added:
                        sticky.produced(added, batch_is_full=is_due)
                    elif sticky is not None:
                        sticky.bytes_left -= added
                    # Said once when it becomes due, and when nothing more will fit.
                    if is_due and (size >= batch.limit_bytes or size - added < self.batch_bytes):
                        self._on_work(size >= batch.limit_bytes)
                    return Delivery(batch, builder.count - 1, timestamp)
            delivery, batch = self._append_first(
                queue, timestamp, key, value, headers, limit_bytes=known.limit_bytes
            )
            known.used_at = batch.created_at
            if sticky is not None:
                sticky.produced(batch.size_bytes, batch_is_full=batch.size_bytes >= self.batch_bytes)
            return delivery

    def try_append_section(
        self, topic: str, partition: int, section: bytes, count: int, timestamp: int
    ) -> Delivery | None:
        """Adds a batch of records that are encoded already; as `try_append`, for the last of them."""
        with self._lock:
            if self._refusal is not None:
                raise self._refusal()
            known = self._topics.get(topic)
            if known is None or not self.has_room:
                return None
            queue = _explicit(known, topic, partition)
            batch = ProducerBatch(queue.tp, self._codec, self._monotonic())
            batch.builder.fill(section, count, timestamp)
            batch.is_section = True
            self._enqueue(queue, batch)
            known.used_at = batch.created_at
            return Delivery(batch, count - 1, timestamp)

    def _append_first(
        self,
        queue: PartitionQueue,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        *,
        limit_bytes: int,
    ) -> tuple[Delivery, ProducerBatch]:
        # What can fail comes before the queue knows the batch: a batch that is left behind there without its
        # first record would take in all later ones, and would never be sent.
        batch = ProducerBatch(queue.tp, self._codec, self._monotonic())
        batch.builder.append(timestamp, key, value, headers, limit_bytes)
        batch.limit_bytes = limit_bytes
        self._enqueue(queue, batch)
        return Delivery(batch, 0, timestamp), batch

    def _enqueue(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A new batch waits at the end of its queue.
        Raises RecordTooLargeError, and what `on_work` raises.
        """
        if batch.size_bytes > self._request_bytes_max:
            raise RecordTooLargeError(
                f"A record of {batch.size_bytes} bytes is larger than max.request.size,"
                f" which is {self._request_bytes_max}"
            )
        self._on_work(batch.size_bytes >= self.batch_bytes)
        queue.add(batch)
        self.waiting_bytes += batch.size_bytes
        self._active[queue] = None

    def due(self, linger_s: float) -> list[tuple[float, PartitionQueue]]:
        """Every queue whose first batch waits for nothing but time, with that time; those first from which
        nothing was taken for the longest time. No batch lingers while the buffer is full.
        """
        with self._lock:
            linger_s = linger_s if self.has_room else 0.0
            found = [(queue.due_at(linger_s, self.batch_bytes), queue) for queue in self._active]
        return [(due, queue) for due, queue in found if due is not None]

    def close_grown(self) -> None:
        """What is due takes no more records, although the sender cannot come to it.

        A batch has one time from which ``delivery.timeout.ms`` counts, that of its first record. While no
        broker takes anything, the records of minutes would else share it, and expire together.
        """
        with self._lock:
            for queue in self._active:
                if queue.waiting and queue.waiting[-1].size_bytes >= self.batch_bytes:
                    queue.waiting[-1].limit_bytes = 0

    def load(self, queue: PartitionQueue) -> int:
        """How much of a partition waits, in batches of ``batch.size``. Under the lock already, as a partition
        is chosen there.
        """
        return queue.load(self.batch_bytes)

    def was_taken(self, queue: PartitionQueue) -> bool:
        """Whether the topic has stored a batch as large as each that is in flight: none is to be split."""
        taken_bytes = self._topics[queue.tp.topic].taken_bytes
        return all(batch.count == 1 or batch.sent_bytes <= taken_bytes for batch in queue.in_flight)

    def take(self, queue: PartitionQueue, identity: ProducerIdentity) -> ProducerBatch:
        """The first batch of the queue, from now on in flight."""
        with self._lock:
            # To the end of the line (``drainIndex``): four batches that have grown fill a request, and a few
            # partitions that are sent to all the time would leave no room for the others.
            self._active[queue] = self._active.pop(queue)
            return queue.take(identity)

    def finished(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The batch was stored; its memory is free."""
        with self._lock:
            known = self._topics[queue.tp.topic]
            known.taken_bytes = max(known.taken_bytes, batch.sent_bytes)
            queue.finished(batch)
            self._release(queue, batch)

    def retry(self, queue: PartitionQueue, batch: ProducerBatch, retry_at: float) -> None:
        """The batch must be sent again, not before this time."""
        with self._lock:
            queue.retry(batch, retry_at)

    def split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The batch was too large: its halves go in its place, one after the other. The others of its topic
        do not grow any more: each would have to be split.
        """
        with self._lock:
            known = self._topics[queue.tp.topic]
            known.limit_bytes = self.batch_bytes
            for one in known.queues:
                if one.waiting:
                    newest = one.waiting[-1]
                    newest.limit_bytes = min(newest.limit_bytes, self.batch_bytes)
            queue.split(batch)
            self.waiting_bytes += sum(piece.size_bytes for piece in batch.pieces) - batch.size_bytes

    def give_up(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The batch failed for good; its memory is free."""
        with self._lock:
            queue.give_up(batch)
            self._release(queue, batch)

    def _release(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self.waiting_bytes -= batch.size_bytes
        if not queue.waiting and not queue.in_flight:
            self._active.pop(queue, None)

    def refuse_with(self, refusal: Callable[[], Exception] | None) -> None:
        """Refuses records from now on with this error, or takes them again. Under the lock, so that no thread
        can add one after the last look.
        """
        with self._lock:
            self._refusal = refusal

    def held_records(self) -> int:
        """How many records have neither been stored nor given up; 0 where the lock cannot be had, because its
        holder is a thread that was stopped for good at the end of the process.
        """
        if not self._lock.acquire(timeout=_LOCK_S):
            return 0
        try:
            return sum(batch.count for queue in self._active for batch in (*queue.in_flight, *queue.waiting))
        finally:
            self._lock.release()

    def unfinished(self) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Every batch that has neither been stored nor given up, oldest first within a partition."""
        with self._lock:
            return [(queue, batch) for queue in self._active for batch in (*queue.in_flight, *queue.waiting)]

    def outcomes(self) -> "list[Future[tuple[int, int]]]":
        """The outcomes of all of them."""
        return [batch.future for _, batch in self.unfinished()]

    def waiting(self) -> Iterable[tuple[PartitionQueue, ProducerBatch]]:
        """Those of them that no broker has been asked about at the moment."""
        with self._lock:
            return [(queue, batch) for queue in self._active for batch in queue.waiting]

    def __repr__(self) -> str:
        return f"<RecordAccumulator {len(self._active)} partitions, {self.waiting_bytes} bytes>"


def _explicit(known: TopicQueues, topic: str, partition: int) -> PartitionQueue:
    if not 0 <= partition < known.count:
        raise InvalidRecordError(
            f"Invalid partition {partition} for topic {topic}: it has partitions 0 to {known.count - 1}"
        )
    return known.queues[partition]

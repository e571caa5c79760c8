"""`PartitionQueue`: the batches of one partition, in order, from open to acknowledged.

Theory of operation
-------------------
New batches go out one after the other without waiting for answers, while the leader stays the same
(`sent_to`). A batch that has to be sent again goes back to its old place and is sent only when nothing of the
partition is in flight: so retries keep the order (Kafka's
``RecordAccumulator.shouldStopDrainBatchesForPartition`` reaches the same with sequence numbers).

An idempotent batch gets its sequence when it is first sent and keeps it through retries, by which a broker
recognises what it has already. Once a batch with a sequence is given up, the broker would refuse new ones; so
the queue takes the next epoch and counts from 0 again, but only when every batch that was sent has its
outcome (``TransactionManager.maybeResolveSequences``). A batch whose outcome is unknown may be in the log:
under a new sequence it would be stored twice. Only when the broker itself says that it does not have what
came before the oldest batch, none of them can be there, and all get new sequences (`restart`).
"""

from collections import deque
from dataclasses import dataclass

from barnabas.client.producer_batch import NO_SEQUENCE, ProducerBatch
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import SEQUENCE_MAX

EPOCH_MAX = 2**15 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What a broker knows an idempotent producer by."""

    producer_id: int
    epoch: int
    transactional: bool = False
    """Whether its batches belong to transactions: then only the coordinator gives new epochs."""


NO_IDENTITY = ProducerIdentity(-1, -1)


class PartitionQueue:
    """Batches of one partition; not synchronised, its accumulator holds the lock."""

    __slots__ = (
        "_new_epoch",
        "_next_number",
        "_next_sequence",
        "_renumber",
        "identity",
        "in_flight",
        "sent_to",
        "tp",
        "waiting",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.waiting: deque[ProducerBatch] = deque()
        self.in_flight: list[ProducerBatch] = []
        self.sent_to = -1
        """The broker that has, or had, what is in flight."""
        self.identity: ProducerIdentity | None = None
        """Under what batches are sent: the producer's, its epoch moved on where this partition needed it."""
        self._next_number = 0
        self._next_sequence = 0
        self._new_epoch = False
        self._renumber = False

    def add(self, batch: ProducerBatch) -> None:
        """Takes in a new batch, at the end."""
        batch.number = self._next_number
        self._next_number += 1
        self.waiting.append(batch)

    def load(self, batch_bytes: int) -> int:
        """How much waits, in batches of this size: one that has grown counts as several."""
        return sum(-(-batch.size_bytes // batch_bytes) for batch in self.waiting)

    def due_at(self, linger_s: float, batch_bytes: int) -> float | None:
        """When the first batch may go (seconds of the monotonic clock); None when there is nothing to send,
        or not before an answer has come.
        """
        if not self.waiting:
            return None
        first = self.waiting[0]
        if first.attempts:
            return None if self.in_flight else first.retry_at
        if self._new_epoch and self.in_flight:
            return None
        is_due = len(self.waiting) > 1 or first.size_bytes >= batch_bytes
        return 0.0 if is_due else first.created_at + linger_s

    def take(self, identity: ProducerIdentity) -> ProducerBatch:
        """The first batch, from now on in flight, with a sequence if the producer has an identity."""
        unsent = self.waiting[0].base_sequence == NO_SEQUENCE
        if not self.in_flight and (self._renumber or (self._new_epoch and unsent)):
            self._restart_sequence()
        batch = self.waiting.popleft()
        if identity is not NO_IDENTITY and batch.base_sequence == NO_SEQUENCE:
            if self.identity is None:
                self.identity = identity
            elif identity.transactional and identity != self.identity:
                # The next epoch of a transactional id: nothing of the one before is on its way.
                self.identity = identity
                self._next_sequence = 0
                self._new_epoch = False
            batch.base_sequence = self._next_sequence
            self._next_sequence = (self._next_sequence + batch.count) & SEQUENCE_MAX
        batch.attempts += 1
        self.in_flight.append(batch)
        return batch

    def encode(self, batch: ProducerBatch) -> bytes:
        """The bytes of a batch that was taken."""
        identity = self.identity or NO_IDENTITY
        return batch.builder.encode(
            identity.producer_id,
            identity.epoch,
            batch.base_sequence,
            transactional=identity.transactional,
        )

    def is_first_unacknowledged(self, batch: ProducerBatch) -> bool:
        """Whether nothing older is unanswered or waits to be sent again."""
        older = [*self.in_flight, *self.waiting]
        return all(other.place >= batch.place for other in older)

    def finished(self, batch: ProducerBatch) -> None:
        self.in_flight.remove(batch)

    def retry(self, batch: ProducerBatch, retry_at: float) -> None:
        """Back to its old place, to be sent again."""
        self.in_flight.remove(batch)
        batch.retry_at = retry_at
        newer = next((i for i, other in enumerate(self.waiting) if other.place > batch.place), None)
        self.waiting.insert(len(self.waiting) if newer is None else newer, batch)

    def split(self, batch: ProducerBatch) -> None:
        """Puts the halves of a batch in its place, to be sent one after the other."""
        for piece in reversed(batch.split()):
            self.in_flight.append(piece)
            self.retry(piece, 0.0)
        self.in_flight.remove(batch)

    def give_up(self, batch: ProducerBatch) -> None:
        if batch in self.in_flight:
            self.in_flight.remove(batch)
        else:
            self.waiting.remove(batch)
        if batch.base_sequence != NO_SEQUENCE:
            self._new_epoch = True

    def restart(self) -> None:
        """The broker does not have what came before the oldest batch: as soon as nothing is in flight, all
        that wait are numbered from 0 under a new epoch.
        """
        self._new_epoch = self._renumber = True

    def _restart_sequence(self) -> None:
        self._new_epoch = self._renumber = False
        self._next_sequence = 0
        for batch in self.waiting:
            batch.base_sequence = NO_SEQUENCE
        if self.identity and self.identity.epoch < EPOCH_MAX:
            self.identity = ProducerIdentity(self.identity.producer_id, self.identity.epoch + 1)

    def __repr__(self) -> str:
        return f"<PartitionQueue {self.tp} waiting={len(self.waiting)} in_flight={len(self.in_flight)}>"

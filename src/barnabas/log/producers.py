"""What a partition knows of its producers: duplicates, sequence gaps, fenced epochs, open transactions.

Theory of operation
-------------------
Each idempotent producer numbers its batches. The last five of each producer are kept: one of them again is a
duplicate and gets its old answer; otherwise the next sequence number must follow, and the epoch may not
fall (``ProducerStateManager``, ``ProducerAppendInfo``; KIP-98).

A transaction opens with its first batch and ends with a marker. Readers of committed data may go up to the
first offset of the oldest transaction that is open, or that has ended at or above the high watermark (its
marker may still be lost): the *first unstable offset*.

`check` decides and changes nothing, `apply` changes and cannot fail: an append that the disk refuses
leaves no trace here.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.log.producer_batches import BATCH
from barnabas.log.producer_snapshot import SnapshotEntry
from barnabas.log.verification import VerificationGuard, Verifications, VerificationState
from barnabas.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, SEQUENCE_MAX, BatchHeader
from barnabas.records.control import EndTransactionMarker

BATCHES_KEPT: Final = 5
"""Of one producer; Kafka's clients and ours have no more of them under way to a broker."""
NO_OFFSET: Final = -1


class AppendOrigin(Enum):
    """Who appends, which decides how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    COORDINATOR_OF_BUMPED = "coordinator of a transaction whose end has bumped the epoch"
    """A marker of transaction version 2 (KIP-890)."""


class BatchMetadata(NamedTuple):
    """What is remembered of a batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStateEntry:
    """One producer (``ProducerStateEntry``)."""

    __slots__ = (
        "_batches",
        "_packed",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "last_timestamp",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self._batches: list[BatchMetadata] = []
        self._packed = b""
        """Batches before these, as a start has read them. Most producers of a snapshot are never heard of
        again: to unpack their batches would double the time and the memory of a start. `batches` unpacks
        them; the two methods that every produce calls ask for it only where there are some.
        """
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP
        self.current_txn_first_offset: int | None = None

    @property
    def batches(self) -> list[BatchMetadata]:
        """The last ones of its epoch, the newest at the end; `BATCHES_KEPT` at most."""
        if self._packed:
            earlier = [BatchMetadata._make(fields) for fields in BATCH.iter_unpack(self._packed)]
            self._batches[:0] = earlier
            self._packed = b""
        return self._batches

    @property
    def last_sequence(self) -> int:
        return self._batches[-1].last_sequence if self._batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self._batches[-1].last_offset if self._batches else NO_OFFSET

    def find_duplicate(self, batch: BatchHeader) -> BatchMetadata | None:
        """The remembered batch with the same epoch and sequence numbers."""
        # Sequence numbers begin again with each epoch.
        if batch.producer_epoch != self.epoch:
            return None
        last_sequence = batch.last_sequence
        for known in self.batches if self._packed else self._batches:
            if known.last_sequence == last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def remember(self, batch: BatchMetadata) -> None:
        """Takes in the next batch, and forgets the oldest one that is one too many."""
        batches = self.batches if self._packed else self._batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)

    def take_batches(self, other: "ProducerStateEntry") -> None:
        """Remembers what is known elsewhere of the same producer and epoch."""
        self._batches, self._packed = other.batches, b""

    def bump(self, epoch: int) -> None:
        """Begins a new epoch; a batch of the old one no longer counts as a duplicate."""
        if epoch != self.epoch:
            self._batches.clear()
            self._packed = b""
            self.epoch = epoch

    def snapshot(self) -> SnapshotEntry:
        last = self._batches[-1] if self._batches else None
        first_offset = self.current_txn_first_offset
        return SnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence if last else NO_SEQUENCE,
            last.last_offset if last else NO_OFFSET,
            last.offset_delta if last else 0,
            self.last_timestamp,
            self.coordinator_epoch,
            NO_OFFSET if first_offset is None else first_offset,
        )

    def earlier_batches(self) -> bytes:
        """What a snapshot has no room for: all batches but the last one, packed."""
        return self._packed + b"".join([BATCH.pack(*batch) for batch in self._batches[:-1]])

    def copy(self) -> "ProducerStateEntry":
        copy = ProducerStateEntry(self.producer_id)
        copy.epoch = self.epoch
        copy._batches = list(self._batches)
        copy._packed = self._packed
        copy.coordinator_epoch = self.coordinator_epoch
        copy.last_timestamp = self.last_timestamp
        copy.current_txn_first_offset = self.current_txn_first_offset
        return copy

    @classmethod
    def restore(cls, entry: SnapshotEntry, earlier: bytes) -> "ProducerStateEntry":
        state = cls(entry.producer_id)
        state.epoch = entry.producer_epoch
        state.coordinator_epoch = entry.coordinator_epoch
        state.last_timestamp = entry.timestamp
        if entry.current_txn_first_offset >= 0:
            state.current_txn_first_offset = entry.current_txn_first_offset
        if entry.last_offset >= 0:
            state._packed = earlier
            state._batches.append(
                BatchMetadata(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            )
        return state

    def __repr__(self) -> str:
        return (
            f"<ProducerState {self.producer_id} epoch={self.epoch} sequence={self.last_sequence}"
            f" txn={self.current_txn_first_offset}>"
        )


class ProducerStateManager:
    """The producers of one partition, and its transactions."""

    __slots__ = ("_completed", "_verifications", "map_end_offset", "ongoing", "producers", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.producers: dict[int, ProducerStateEntry] = {}
        self.ongoing: dict[int, int] = {}
        """First offset of each open transaction by producer id, in order of offsets."""
        self._completed: list[CompletedTxn] = []
        self._verifications: Verifications | None = None
        """The producers whose coordinators are asked about their first batch; None before the first."""
        self.map_end_offset = 0
        """The state is that of the log up to here."""

    # -- checks --------------------------------------------------------------------------------------

    def find_duplicate(self, batch: BatchHeader) -> BatchMetadata | None:
        """``findDuplicateBatch``: the batch that this one repeats, if it is among the last five of its
        producer.
        """
        state = self.producers.get(batch.producer_id)
        return state.find_duplicate(batch) if state else None

    def check(self, batch: BatchHeader, origin: AppendOrigin, offset: int) -> None:
        """``checkProducerEpoch``, ``checkSequence``: raises what Kafka answers to a data batch whose epoch or
        sequence number does not fit.
        """
        # KIP-890: first, because a producer that is being asked about may be unknown here until its batch is
        # appended.
        if self._verifications and origin is AppendOrigin.CLIENT:
            self._check_order_of_verified(batch, self._verifications.get(batch.producer_id), offset)
        state = self.producers.get(batch.producer_id)
        # A new producer, or one that has expired here: its count begins with any sequence number, unless each
        # transaction has an epoch of its own. Then it begins at 0 in each.
        if state is None:
            if self._verifications and origin is AppendOrigin.CLIENT:
                self._check_first_of_bumped(batch, self._verifications.get(batch.producer_id), offset)
            return
        self._check_epoch(state, batch.producer_epoch, offset)
        # A coordinator's commits in a transaction carry the client's epoch, and no sequence numbers.
        if origin is AppendOrigin.CLIENT:
            self._check_sequence(state, batch, offset)
        # A transaction is open: its marker would stand behind a batch that is not part of it.
        if state.current_txn_first_offset is not None and not batch.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {batch.producer_id} at offset {offset} in"
                f" partition {self.tp}",
            )

    def check_marker(
        self, batch: BatchHeader, marker: EndTransactionMarker, origin: AppendOrigin, offset: int
    ) -> None:
        """Raises what Kafka answers to a marker of a fenced producer or coordinator."""
        state = self.producers.get(batch.producer_id)
        if state is None:
            return
        self._check_epoch(state, batch.producer_epoch, offset)
        # KIP-890: the end of a transaction has the epoch after that of its batches. A marker with their epoch
        # is that of the transaction before, and late. Where none is open, it is one that comes twice.
        is_of_bumped = origin is AppendOrigin.COORDINATOR_OF_BUMPED
        if is_of_bumped and state.current_txn_first_offset is not None:
            self._check_epoch(state, batch.producer_epoch - 1, offset)
        # The coordinator was replaced: its successor has written, and decides.
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {batch.producer_id} at offset {offset} in "
                f"partition {self.tp}: {marker.coordinator_epoch} (zombie), {state.coordinator_epoch} "
                "(current)",
            )

    def _check_epoch(self, state: ProducerStateEntry, epoch: int, offset: int) -> None:
        # Another producer of the transactional id, or the coordinator's fence, has raised the epoch.
        if epoch < state.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {state.producer_id} at offset {offset} in {self.tp} is {epoch}, which is"
                f" smaller than the last seen epoch {state.epoch}",
            )

    def _check_order_of_verified(
        self, batch: BatchHeader, asked: VerificationState | None, offset: int
    ) -> None:
        """An earlier batch of the producer waits for its verification: no other may get in front of it."""
        # The earlier batch would be refused as out of order when its verification is done.
        if asked is not None and batch.base_sequence > asked.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id} at offset {offset} in "
                f"partition {self.tp}: {batch.base_sequence} (incoming seq. number), "
                f"{asked.lowest_sequence} (earliest seen sequence)",
            )

    def _check_first_of_bumped(
        self, batch: BatchHeader, asked: VerificationState | None, offset: int
    ) -> None:
        if asked is not None and asked.bumped and batch.base_sequence != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for producer {batch.producer_id} at offset {offset} in partition"
                f" {self.tp}: {batch.base_sequence} (incoming seq. number), and the first batch of a"
                " transaction has 0",
            )

    def _check_sequence(self, state: ProducerStateEntry, batch: BatchHeader, offset: int) -> None:
        sequence = batch.base_sequence
        # A higher epoch (a lower one was refused): its count begins at 0.
        if batch.producer_epoch != state.epoch:
            # An unknown epoch (-1) is that of a marker alone: no batch has begun a count.
            if sequence != 0 and state.epoch != NO_PRODUCER_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {state.producer_id} at offset "
                    f"{offset} in partition {self.tp}: {batch.producer_epoch} (request epoch), {sequence} "
                    f"(seq. number), {state.epoch} (current producer epoch)",
                )
            return
        last = state.last_sequence
        # The count wraps from 2^31-1 to 0.
        if sequence == last + 1 or (sequence == 0 and last == SEQUENCE_MAX):
            return
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {state.producer_id} at offset {offset} in partition"
            f" {self.tp}: {sequence} (incoming seq. number), {last} (current end sequence number)",
        )

    # -- changes -------------------------------------------------------------------------------------

    def apply(self, batch: BatchHeader, base_offset: int) -> None:
        """Takes in a data batch that was appended at this offset."""
        state = self._state(batch.producer_id)
        state.bump(batch.producer_epoch)
        last_offset = base_offset + batch.last_offset_delta
        state.remember(
            BatchMetadata(batch.last_sequence, last_offset, batch.last_offset_delta, batch.max_timestamp)
        )
        state.last_timestamp = batch.max_timestamp
        # The batch is in the log: a guard of before answers for nothing that comes later. The first batch of
        # a transaction is how far readers of committed data may go.
        if batch.is_transactional:
            if self._verifications:
                self._verifications.drop(batch.producer_id)
            if state.current_txn_first_offset is None:
                state.current_txn_first_offset = base_offset
                self.ongoing[batch.producer_id] = base_offset

    def apply_marker(
        self, batch: BatchHeader, marker: EndTransactionMarker, *, offset: int, timestamp: int
    ) -> CompletedTxn | None:
        """Takes in a marker; returns the transaction that it ended, unless there was none."""
        if self._verifications:
            self._verifications.drop(batch.producer_id)
        state = self._state(batch.producer_id)
        state.bump(batch.producer_epoch)
        # Remembered, so that a marker of an earlier coordinator is refused.
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = timestamp
        first_offset, state.current_txn_first_offset = state.current_txn_first_offset, None
        # The transaction wrote nothing here, or its marker is written a second time.
        if first_offset is None:
            return None
        self.ongoing.pop(batch.producer_id, None)
        completed = CompletedTxn(batch.producer_id, first_offset, offset, not marker.committed)
        # The last stable offset stays below it until the high watermark has passed the marker.
        self._completed.append(completed)
        return completed

    def copy_of(self, producer_id: int) -> ProducerStateEntry | None:
        """A producer's state as it is, for `put_back`; None for an unknown one."""
        state = self.producers.get(producer_id)
        return None if state is None else state.copy()

    def put_back(self, producer_id: int, state: ProducerStateEntry | None) -> None:
        """Undoes data batches: a producer is again what `copy_of` said."""
        if state is None:
            self.producers.pop(producer_id, None)
        else:
            self.producers[producer_id] = state
        # A transaction that began with one of them has not begun. Its verification is gone: the producer
        # sends the batch again, and the coordinator is asked again.
        if state is None or state.current_txn_first_offset is None:
            self.ongoing.pop(producer_id, None)

    def _state(self, producer_id: int) -> ProducerStateEntry:
        state = self.producers.get(producer_id)
        if state is None:
            state = self.producers[producer_id] = ProducerStateEntry(producer_id)
        return state

    # -- transactions --------------------------------------------------------------------------------

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, bumped: bool
    ) -> VerificationGuard | None:
        """Begins to ask about a producer's transaction; None where it has written here already
        (``maybeStartTransactionVerification``). `bumped` is whether its end will bump the epoch.
        """
        # Verified with its first batch, or by an earlier life of this broker.
        if self._is_ongoing(producer_id, epoch):
            return None
        if self._verifications is None:
            self._verifications = Verifications()
        asked = self._verifications.get(producer_id)
        if asked is None:
            asked = VerificationState(sequence, epoch, now_ms, bumped=bumped)
        else:
            # Another batch of the producer asks: it gets the guard of the first question.
            asked.asked_again(sequence, epoch)
        self._verifications.add(producer_id, asked)
        return asked.guard

    def refuse_verification(self, producer_id: int) -> None:
        """The coordinator does not count the partition to the producer's transaction."""
        if self._verifications:
            self._verifications.refuse(producer_id)

    def is_verified(self, producer_id: int, epoch: int, guard: VerificationGuard | None) -> bool:
        """Whether the transaction has written here, or was asked about with this guard and neither a batch
        nor a marker of the producer has come since.
        """
        asked = None if self._verifications is None else self._verifications.get(producer_id)
        # It must be this question's guard: a batch or a marker since then has dropped it, and a later
        # question has another.
        if guard is not None and asked is not None and asked.guard is guard:
            return True
        return self._is_ongoing(producer_id, epoch)

    def check_verified(self, producer_id: int, epoch: int, guard: VerificationGuard | None) -> None:
        """Raises INVALID_TXN_STATE unless it `is_verified`."""
        if not self.is_verified(producer_id, epoch, guard):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    def _is_ongoing(self, producer_id: int, epoch: int) -> bool:
        state = self.producers.get(producer_id)
        return state is not None and state.current_txn_first_offset is not None and state.epoch == epoch

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Where readers of committed data may go right after this transaction ended."""
        open_elsewhere = next(iter(self.ongoing.values()), None)
        return completed.last_offset + 1 if open_elsewhere is None else open_elsewhere

    @property
    def first_unstable_offset(self) -> int | None:
        """The start of the oldest transaction that is open or whose end may still be lost."""
        oldest = next(iter(self.ongoing.values()), None)
        # Ended, but its marker is not on all in-sync replicas yet: a new leader may not have it.
        for txn in self._completed:
            if oldest is None or txn.first_offset < oldest:
                oldest = txn.first_offset
        return oldest

    @property
    def oldest_transaction_ms(self) -> int | None:
        """When the transaction that is open for longest was written to last (``oldestTxnLastTimestamp``).

        None while none is open.
        """
        producer_id = next(iter(self.ongoing), None)
        return None if producer_id is None else self.producers[producer_id].last_timestamp

    def on_high_watermark(self, high_watermark: int) -> None:
        """Transactions whose markers are below the high watermark are settled."""
        if self._completed:
            self._completed = [txn for txn in self._completed if txn.last_offset >= high_watermark]

    # -- life ----------------------------------------------------------------------------------------

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that were silent for `expiration_ms` and have no open transaction; returns how
        many.
        """
        expired = [
            producer_id
            for producer_id, state in self.producers.items()
            if state.current_txn_first_offset is None and now_ms - state.last_timestamp >= expiration_ms
        ]
        # ``producer.id.expiration.ms``; an open transaction keeps its producer.
        for producer_id in expired:
            del self.producers[producer_id]
        if self._verifications:
            self._verifications.drop_older(now_ms - expiration_ms)
        return len(expired)

    def on_log_start(self, log_start_offset: int) -> None:
        """Forgets transactions that lie before the new start of the log."""
        self.ongoing = {
            producer_id: first for producer_id, first in self.ongoing.items() if first >= log_start_offset
        }
        self._completed = [txn for txn in self._completed if txn.last_offset >= log_start_offset]
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def clear(self, end_offset: int) -> None:
        """Forgets everything; the state is that of an empty log ending at the offset."""
        self.producers.clear()
        self.ongoing.clear()
        self._completed.clear()
        self._verifications = None
        self.map_end_offset = end_offset

    def snapshot(self) -> list[SnapshotEntry]:
        return [state.snapshot() for state in self.producers.values()]

    def earlier_batches(self) -> list[bytes]:
        """What the snapshot has no room for, by producer in its order; see `producer_batches`."""
        return [state.earlier_batches() for state in self.producers.values()]

    def restore(
        self, entries: Sequence[SnapshotEntry], end_offset: int, earlier: Sequence[bytes] | None = None
    ) -> None:
        """Replaces everything by a snapshot of the log up to the offset, and by the `earlier` batches."""
        self.clear(end_offset)
        for entry, batches in zip(entries, earlier or [b""] * len(entries), strict=True):
            self.producers[entry.producer_id] = ProducerStateEntry.restore(entry, batches)
        # By first offset: `first_unstable_offset` takes the first one.
        self.ongoing = _open_transactions(self.producers)

    def adopt(self, other: "ProducerStateManager") -> None:
        """Knows of each producer what `other` does, which is the state of a log with the same records."""
        self.producers = {each: state.copy() for each, state in other.producers.items()}
        self.ongoing = dict(other.ongoing)

    def fill_in(self, found: "ProducerStateManager") -> None:
        """Takes earlier batches from a state into which only the last part of the log was replayed."""
        for producer_id, known in found.producers.items():
            state = self.producers.get(producer_id)
            # Another last batch is one of another epoch, or lies behind what was replayed.
            if state is not None and state.epoch == known.epoch and state.last_offset == known.last_offset:
                state.take_batches(known)

    def __len__(self) -> int:
        return len(self.producers)

    def __repr__(self) -> str:
        return f"<ProducerStateManager {self.tp} {len(self.producers)} producers, open={self.ongoing}>"


def _open_transactions(producers: Mapping[int, ProducerStateEntry]) -> dict[int, int]:
    first_offsets = (
        (state.current_txn_first_offset, producer_id)
        for producer_id, state in producers.items()
        if state.current_txn_first_offset is not None
    )
    return {producer_id: first for first, producer_id in sorted(first_offsets)}

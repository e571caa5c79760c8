"""What is left of one batch (``Cleaner.cleanInto``, ``MemoryRecords.filterTo``).

A batch that loses no record is copied. One that loses records keeps its offsets, its sequence numbers and its
codec, so that producers and followers see the same log. One that loses all of them is dropped, unless it is
the last of its producer: then an empty batch says how far that producer has come.

Tombstones, and markers of transactions without records, stay for ``delete.retention.ms`` after the first
cleaning that comes across them: it writes the time when they may go into the batch, in the place of the base
timestamp (KIP-534).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.core.chunks import Buffer
from barnabas.log.cleaner.frames import Frames, frames_of, later_base, timestamp_delta
from barnabas.log.cleaner.offset_map import KEYLESS, OffsetMap
from barnabas.log.cleaner.transactions import CleanedTransactions
from barnabas.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    records_section,
    wrap_section,
)
from barnabas.records.compression import compress


class LastRecord(NamedTuple):
    """How far a producer has come: the offset of its last data, -1 without any, and its epoch."""

    last_data_offset: int
    producer_epoch: int


class Stats:
    """What a cleaning has read and kept (``CleanerStats``)."""

    __slots__ = ("bytes_read", "bytes_written", "keyless", "messages_read", "messages_written")

    def __init__(self) -> None:
        self.bytes_read = 0
        self.bytes_written = 0
        self.messages_read = 0
        self.messages_written = 0
        self.keyless = 0
        """Records without a key, from before the topic was compacted: they cannot be kept."""

    def add(self, other: "Stats") -> None:
        self.bytes_read += other.bytes_read
        self.bytes_written += other.bytes_written
        self.messages_read += other.messages_read
        self.messages_written += other.messages_written
        self.keyless += other.keyless


class BatchFilter:
    """Judges the batches of one cleaning, in the order of their offsets."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        *,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self.stats = Stats()

    def filter(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        """The batch as it is to be written; None when nothing is left of it. `batch` holds nothing else.

        Raises CORRUPT_MESSAGE or INVALID_RECORD.
        """
        self.stats.messages_read += header.count
        if header.is_control:
            kept = self._filter_marker(batch, header)
        # Aborted: nobody may read its records.
        elif self._transactions.on_batch(header):
            kept = self._emptied(header)
        else:
            kept = self._filter_data(batch, header)
        if kept is not None:
            self.stats.bytes_written += len(kept)
        return kept

    def _filter_marker(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        is_done = self._transactions.on_control_batch(batch, header)
        horizon_ms = header.delete_horizon_ms
        # An earlier cleaning emptied it, or its time is over.
        if header.count == 0 or (is_done and horizon_ms is not None and horizon_ms <= self._now_ms):
            return self._emptied(header)
        self.stats.messages_written += header.count
        # KIP-534: the first cleaning that finds nothing depending on the marker writes when it may go.
        if is_done and horizon_ms is None:
            section = records_section(batch, header)
            frames = frames_of(section, header.count)
            return self._rebuilt(header, section, frames, range(header.count), sets_horizon=True)
        return batch

    def _filter_data(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        section = records_section(batch, header)
        frames = frames_of(section, header.count)
        kept = self._kept(frames, header)
        if not kept:
            return self._emptied(header)
        self.stats.messages_written += len(kept)
        # KIP-534: the same for the first cleaning that meets a tombstone which is the last record of its key.
        sets_horizon = header.delete_horizon_ms is None and not set(kept).isdisjoint(frames.tombstones)
        if len(kept) == header.count and not sets_horizon:
            return batch
        return self._rebuilt(header, section, frames, kept, sets_horizon=sets_horizon)

    def _kept(self, frames: Frames, header: BatchHeader) -> Sequence[int]:
        """``shouldRetainRecord`` for all records of a batch: which of them stay."""
        if header.last_offset > self._offsets.latest_offset:
            return range(header.count)  # the map ends between two batches
        base_offset = header.base_offset
        last_offsets = self._offsets.last_offsets(frames.keys)
        self.stats.keyless += last_offsets.count(KEYLESS)
        # A record stays if no later one of its key is in the map; one without a key never does.
        kept = [
            number
            for number, offset_delta in enumerate(frames.offset_deltas)
            if base_offset + offset_delta >= last_offsets[number]
        ]
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        # Readers have had ``delete.retention.ms`` to see them.
        if frames.tombstones and not keeps_tombstones:
            gone = set(frames.tombstones)
            return [number for number in kept if number not in gone]
        return kept

    def _rebuilt(
        self, header: BatchHeader, section: bytes, frames: Frames, kept: Sequence[int], *, sets_horizon: bool
    ) -> bytes:
        starts = frames.starts
        base_timestamp, attributes = header.base_timestamp, header.attributes
        max_timestamp = header.max_timestamp
        # With LogAppendTime the batch has one time for all of its records.
        if not attributes & TIMESTAMP_TYPE_BIT:
            max_timestamp = base_timestamp + max(
                [timestamp_delta(section, starts[number]) for number in kept]
            )
        records = [section[starts[number] : starts[number + 1]] for number in kept]
        # The horizon takes the place of the base timestamp; each record's delta is changed, so that its time
        # stays.
        if sets_horizon:
            horizon_ms = self._now_ms + self._delete_retention_ms
            shift_ms = horizon_ms - base_timestamp
            base_timestamp, attributes = horizon_ms, attributes | DELETE_HORIZON_BIT
            records = [later_base(record, shift_ms) for record in records]
        return wrap_section(
            compress(header.codec, b"".join(records)),
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            attributes=attributes,
            # Kept, or the producer's next batch would seem to leave sequence numbers out.
            last_offset_delta=header.last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            count=len(kept),
        )

    def _emptied(self, header: BatchHeader) -> bytes | None:
        """The batch without records, if its producer's state depends on it (``writeEmptyHeader``)."""
        if not self._is_last_of_producer(header):
            return None
        return wrap_section(
            b"",
            base_offset=header.base_offset,
            leader_epoch=header.leader_epoch,
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
            last_offset_delta=header.last_offset_delta,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            count=0,
        )

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False  # it has expired
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        # Of a producer without data the marker says the epoch, which fences earlier ones.
        return header.is_control and header.producer_epoch == last.producer_epoch

"""`StoredLog`: a simulated partition as the loader reads a log: batches of bytes, some at a time."""

from bisect import bisect_left
from typing import Final

from barnabas.coordinator.runtime.journal import NO_PRODUCER
from barnabas.core.chunks import FileSlice
from barnabas.log.results import ReadResult
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from group_model.journal import Entry, ReplicatedPartition

_BATCH_BYTES: Final = 200
"""About what a batch takes: `max_bytes` of a read are counted in such."""


class _Bytes:
    """Bytes in the place of a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def fileno(self) -> int:
        """There is none."""
        return -1

    def pread(self, size: int, position: int) -> bytes:
        """As a file's."""
        return self._data[position : position + size]


class StoredLog:
    """What the loader needs of a `Log`."""

    log_start_offset = 0
    size = 0
    """Always small enough to be decoded on the loop."""

    def __init__(self, partition: ReplicatedPartition, now_ms: int) -> None:
        self._partition = partition
        self._now_ms = now_ms

    @property
    def log_end_offset(self) -> int:
        """Behind everything that this leader has, acknowledged or not."""
        return self._partition.log_end_offset

    def read(self, offset: int, max_bytes: int, *, min_one_message: bool) -> ReadResult:
        """Whole batches from the one at the offset on."""
        assert min_one_message
        entries = self._partition.entries
        first = bisect_left(entries, offset, key=lambda entry: entry.base_offset)
        data = b"".join(map(self._batch, entries[first : first + max(1, max_bytes // _BATCH_BYTES)]))
        return ReadResult(FileSlice(_Bytes(data), 0, len(data)), offset, 0, 0)

    def _batch(self, entry: Entry) -> bytes:
        if entry.batch is None:
            entry.batch = self._build(entry)
        return entry.batch

    def _build(self, entry: Entry) -> bytes:
        producer_id, producer_epoch = entry.producer
        return build_batch(
            [
                Record(offset, self._now_ms, key, value)
                for offset, (key, value) in enumerate(entry.records, entry.base_offset)
            ],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=entry.producer != NO_PRODUCER,
        )

    def __repr__(self) -> str:
        return f"<StoredLog {self._partition!r}>"

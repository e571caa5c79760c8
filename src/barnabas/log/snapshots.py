"""The producer snapshots in a partition's directory: one at each roll and one at the end of a clean close.

Theory of operation
-------------------
Beside each ``<offset>.snapshot``, which is Kafka's, lies a ``<offset>.batches`` with what Kafka's file has no
room for (`producer_batches`). The two are made and removed together. Only those of a clean close are synced,
so a kill or a loss of power may leave one of them, or torn bytes:

- the batches are written first and removed last: without their snapshot they are ignored;
- a damaged snapshot is removed with its batches, and the one before it is used;
- damaged batches, or those of another snapshot, are ignored: a JVM broker may have written this snapshot.

A snapshot without batches knows one batch a producer. The others are then looked for at the end of the log
before it (`_recall`). Only so much is read: a directory of a JVM broker has only such snapshots, and must
start fast.
"""

from collections.abc import Container
from typing import Final

from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.log.descriptors import DescriptorCache
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import SyncByPath
from barnabas.log.index import IndexCorruptError, OffsetIndex
from barnabas.log.names import (
    BATCHES_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    offset_name,
    offsets_in,
)
from barnabas.log.producer_batches import decode_batches, encode_batches
from barnabas.log.producer_snapshot import SnapshotError, crc_of, decode_snapshot, encode_snapshot
from barnabas.log.producers import ProducerStateManager
from barnabas.log.replay import apply_batch, marker_in
from barnabas.records.batch import batch_headers

RECALL_BYTES: Final = 1 << 20
"""How much of the log before a snapshot without batches is looked at."""

_events: Final = EventLog("log.snapshots")


class SnapshotStore:
    """Writes, finds and removes snapshots; knows which exist without listing the directory again."""

    __slots__ = ("_alone", "_batches", "_directory", "_filesystem", "_is_synced", "_offsets")

    def __init__(self, filesystem: Filesystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        names = filesystem.listdir(directory)
        self._offsets = offsets_in(names, SNAPSHOT_SUFFIX)
        self._batches = set(offsets_in(names, BATCHES_SUFFIX))
        """The offsets that a file of batches exists for."""
        self._alone: set[int] = set()
        """The offsets of snapshots that turned out to have no batches."""
        self._is_synced = True
        """Whether the newest snapshot needs no sync."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offsets that snapshots exist for, rising."""
        return tuple(self._offsets)

    # -- taking --------------------------------------------------------------------------------------

    def take(self, producers: ProducerStateManager) -> None:
        """Writes the state at `map_end_offset`, unless that snapshot exists or the log is empty."""
        offset = producers.map_end_offset
        newest = self._offsets[-1] if self._offsets else 0
        if not offset or newest > offset or (newest == offset and offset not in self._alone):
            return
        snapshot = encode_snapshot(producers.snapshot())
        path, batches_path = self._path(offset, SNAPSHOT_SUFFIX), self._path(offset, BATCHES_SUFFIX)
        if len(producers):
            # Also where each producer has one batch: without the file nobody knows that there are no others.
            batches = encode_batches(producers.earlier_batches(), crc_of(snapshot))
            self._filesystem.write_atomic(batches_path, batches, sync=False)
            self._batches.add(offset)
        self._filesystem.write_atomic(path, snapshot, sync=False)
        self._alone.discard(offset)
        if newest < offset:
            self._offsets.append(offset)
        self._is_synced = not len(producers)  # one without producers may be lost

    def sync(self) -> None:
        """Makes the newest snapshot durable: the start after a clean stop reads no batches instead of it."""
        if self._is_synced:
            return
        for suffix in (BATCHES_SUFFIX, SNAPSHOT_SUFFIX):
            SyncByPath(self._filesystem, self._path(self._offsets[-1], suffix)).sync()
        self._filesystem.sync_directory(self._directory)
        self._is_synced = True

    # -- loading -------------------------------------------------------------------------------------

    def load_into(
        self, producers: ProducerStateManager, start_offset: int, *, at_most: int | None = None
    ) -> None:
        """Restores the newest snapshot that can be read; `start_offset` with nothing when none can.

        Snapshots above `at_most` are passed over.
        """
        for offset in reversed(self.offsets):
            if at_most is not None and offset > at_most:
                continue
            path = self._path(offset, SNAPSHOT_SUFFIX)
            try:
                snapshot = self._filesystem.read(path)
                entries = decode_snapshot(snapshot)
            except SnapshotError as error:
                _events.warning("snapshot.unreadable", path=path, reason=error)
                self.remove(offset)
                continue
            batches = self._batches_of(offset, crc_of(snapshot))
            producers.restore(entries, offset, batches)
            if entries and batches is None:
                self._alone.add(offset)
                self._recall(producers)
            return
        producers.clear(start_offset)

    def _batches_of(self, offset: int, snapshot_crc: int) -> list[bytes] | None:
        """The batches that belong to this snapshot; None where there is no file of them."""
        if offset not in self._batches:
            return None
        path = self._path(offset, BATCHES_SUFFIX)
        try:
            belongs_to, batches = decode_batches(self._filesystem.read(path))
        except SnapshotError as error:
            _events.warning("snapshot.batches_unreadable", path=path, reason=error)
            return None
        return batches if belongs_to == snapshot_crc else None

    def _recall(self, producers: ProducerStateManager) -> None:
        """Finds the batches before the last one of each producer, as far as they lie near the log's end."""
        end_offset = producers.map_end_offset
        found = ProducerStateManager(producers.tp)
        try:
            for data in self._log_before(end_offset):
                for header in batch_headers(data):
                    if header.producer_id >= 0 and header.base_offset < end_offset:
                        marker = marker_in(data, header) if header.is_control else None
                        apply_batch(found, header, header.base_offset, marker)
        except (FileNotFoundError, IndexCorruptError, KafkaError):
            return  # the readers of the log say what is wrong with it
        producers.fill_in(found)

    def _log_before(self, end_offset: int) -> list[bytes]:
        """Whole batches: some `RECALL_BYTES` before the offset and what follows, in the order of the log."""
        bases = offsets_in(self._filesystem.listdir(self._directory), LOG_SUFFIX)
        pieces: list[bytes] = []
        missing = RECALL_BYTES
        for base in reversed([base for base in bases if base < end_offset]):
            path = self._path(base, INDEX_SUFFIX)
            size = self._filesystem.size(path)
            files = DescriptorCache(self._filesystem)
            index = OffsetIndex(files, path, base, size // OffsetIndex.ENTRY.size, size)
            index.leave_out_preallocated()
            end = index.lookup(end_offset)[1]
            start = index.lookup_position(end - missing)
            # Behind the last entry of the index lies what one append of a follower may bring.
            file = self._filesystem.open(self._path(base, LOG_SUFFIX))
            pieces.append(file.pread(end - start + 2 * RECALL_BYTES, start))
            missing -= len(pieces[-1])
            if missing <= 0:
                break
        return pieces[::-1]

    # -- removing ------------------------------------------------------------------------------------

    def remove(self, offset: int) -> None:
        if offset in self._offsets:
            self._is_synced = self._is_synced or offset == self._offsets[-1]
            self._offsets.remove(offset)
            self._alone.discard(offset)
            self._filesystem.remove(self._path(offset, SNAPSHOT_SUFFIX))
            self._remove_batches(offset)

    def remove_outside(self, low: int, high: int) -> None:
        """Removes snapshots below `low` and above `high`."""
        for offset in self.offsets:
            if not low <= offset <= high:
                self.remove(offset)

    def remove_strays(self, base_offsets: Container[int]) -> None:
        """Keeps the newest snapshot and those where a segment starts; removes batches without a snapshot."""
        for offset in self.offsets[:-1]:
            if offset not in base_offsets:
                self.remove(offset)
        for offset in self._batches.difference(self._offsets):
            self._remove_batches(offset)

    def _remove_batches(self, offset: int) -> None:
        if offset in self._batches:
            self._batches.remove(offset)
            self._filesystem.remove(self._path(offset, BATCHES_SUFFIX))

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self._directory}/{offset_name(offset, suffix)}"

    def __repr__(self) -> str:
        return f"<SnapshotStore {self._directory} {self._offsets}>"

"""Turning the directory of an unclean shutdown into one that was closed cleanly.

Theory of operation
-------------------
`recover_log` is a function of plain values, so it can run in a child process: a scan of gigabytes never
shares the interpreter with the event loop. It checks every segment that reaches beyond the recovery point,
cuts the log at the first bad batch, drops all later segments, writes new indexes, fills the leader-epoch
file, replays producers, and leaves a snapshot at the end, so that loading afterwards reads no batches. After
a clean shutdown only segments whose indexes are missing or impossible are treated, and others that turn out
to be damaged. Then a bad batch ends its own segment only: the segments after it were whole and synced when
they were closed, and one bad sector must not take all that came later with it
(``LogLoader.loadSegmentFiles``).

A loss of power just after a roll may take the end of the old segment, at the edge of a batch, and leave what
the new one has. Kafka keeps the hole, also where other replicas have the records: once this one leads,
consumers go over it. Here all that lies behind the hole is cut off, as it is behind a bad batch, and the
leader sends it again. That is done only where the directory says that each gap is a loss
(`barnabas.log.gapless`): a log that was cleaned keeps its gaps, also when its topic is not compacted now.
"""

import itertools
from typing import Final, NamedTuple

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.log import gapless
from barnabas.log.checkpoint import LEADER_EPOCHS, CheckpointError
from barnabas.log.descriptors import DescriptorCache
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import SyncByPath
from barnabas.log.index import IndexCorruptError, OffsetIndex, TimeIndex
from barnabas.log.leader_epochs import LeaderEpochCache
from barnabas.log.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
    offsets_in,
)
from barnabas.log.partition_metadata import FILE_NAME as PARTITION_METADATA
from barnabas.log.partition_metadata import PartitionMetadataError, read_topic_id
from barnabas.log.producers import ProducerStateManager
from barnabas.log.replay import apply_batch, marker_in
from barnabas.log.scan import RELATIVE_OFFSET_MAX, SegmentScan, holds_old_format, scan_segment
from barnabas.log.snapshots import SnapshotStore
from barnabas.log.txn_index import TransactionIndex
from barnabas.records.batch import BatchHeader

_events: Final = EventLog("log.recovery")


class Recovery(NamedTuple):
    """What a recovery did."""

    log_end_offset: int
    segments: int
    scanned_bytes: int
    truncated_bytes: int


def base_offsets(filesystem: Filesystem, directory: str) -> list[int]:
    """The base offsets of the segments in a directory, rising."""
    return offsets_in(filesystem.listdir(directory), LOG_SUFFIX)


def segments_to_recover(
    filesystem: Filesystem, directory: str, *, clean: bool, recovery_point: int
) -> list[int]:
    """Which segments must be scanned before the directory can be loaded. Raises OSError."""
    bases = base_offsets(filesystem, directory)
    # After a clean stop all bytes were synced: only indexes can be missing or wrong.
    if clean:
        return [base for base in bases if not _has_sane_indexes(filesystem, directory, base)]
    # Epochs can only be read from the batches, and those of any segment may be missing.
    if drop_torn_files(filesystem, directory):
        return bases
    # A segment that ends at the recovery point may have been closed without its indexes being synced.
    first = max((base for base in bases if base < recovery_point), default=-1)
    return [base for base in bases if base >= first or not _has_sane_indexes(filesystem, directory, base)]


def drop_torn_files(filesystem: Filesystem, directory: str) -> bool:
    """Removes what a loss of power may have left half-written; whether the leader epochs went.

    These files are replaced without a sync whose content can be had again from the log or the controller.
    """
    try:
        read_topic_id(filesystem, directory)
    except PartitionMetadataError as error:
        _events.warning("partition_metadata.torn", directory=directory, reason=error)
        filesystem.remove(f"{directory}/{PARTITION_METADATA}")
    try:
        LeaderEpochCache(filesystem, directory)
    except CheckpointError as error:
        _events.warning("leader_epochs.torn", directory=directory, reason=error)
        filesystem.remove(f"{directory}/{LEADER_EPOCHS}")
        return True
    return False


def _has_sane_indexes(filesystem: Filesystem, directory: str, base: int) -> bool:
    stem = f"{directory}/{offset_name(base, '')}"
    files = DescriptorCache(filesystem)
    try:
        index_bytes = filesystem.size(stem + INDEX_SUFFIX)
        time_bytes = filesystem.size(stem + TIME_INDEX_SUFFIX)
        index = OffsetIndex(files, stem + INDEX_SUFFIX, base, index_bytes // 8, index_bytes)
        index.sanity_check(index_bytes)
        # The entry that reaches furthest must lie inside the log file.
        last_position = index.lookup(base + RELATIVE_OFFSET_MAX)[1]
        if last_position and last_position >= (size := filesystem.size(stem + LOG_SUFFIX)):
            raise IndexCorruptError(
                f"{index.path} leads to position {last_position} of a log of {size} bytes"
            )
        TimeIndex(files, stem + TIME_INDEX_SUFFIX, base, time_bytes // 12, time_bytes).sanity_check(
            time_bytes
        )
        TransactionIndex(filesystem, stem + TXN_INDEX_SUFFIX).sanity_check(base)
    except (FileNotFoundError, IndexCorruptError, ValueError) as error:
        _events.warning("index.rebuild", segment=stem, reason=error)
        return False
    return True


def bytes_of(filesystem: Filesystem, directory: str, bases: list[int]) -> int:
    return sum(filesystem.size(f"{directory}/{offset_name(base, LOG_SUFFIX)}") for base in bases)


def recover_log(
    filesystem: Filesystem,
    directory: str,
    tp: TopicPartition,
    *,
    targets: list[int],
    clean: bool,
    index_interval_bytes: int,
    recovery_point: int = 0,
) -> Recovery:
    """Scans the target segments and puts the directory right; what lies below the recovery point is durable
    already.

    Raises OSError.
    """
    recovering = _Recovering(
        filesystem,
        directory,
        tp,
        index_interval_bytes=index_interval_bytes,
    )
    return recovering.run(targets, clean=clean, recovery_point=recovery_point)


class _Recovering:
    """The state of one recovery."""

    def __init__(
        self,
        filesystem: Filesystem,
        directory: str,
        tp: TopicPartition,
        *,
        index_interval_bytes: int,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._interval = index_interval_bytes
        self._bases = base_offsets(filesystem, directory)
        self._is_gapless = gapless.is_noted(filesystem, directory)
        self._epochs = LeaderEpochCache(filesystem, directory)
        self._snapshots = SnapshotStore(filesystem, directory)
        self._producers = ProducerStateManager(tp)
        self._txn_index: TransactionIndex | None = None
        self._scanned = 0
        self._written: list[str] = []
        """Files that are not durable yet."""

    def run(self, targets: list[int], *, clean: bool, recovery_point: int) -> Recovery:
        epochs = self._epochs.entries
        if not clean:
            # Snapshots beyond may be of records that were lost; one before all segments knows too little.
            self._snapshots.remove_outside(self._bases[0], targets[0])
        truncated = 0
        # In the order of offsets: each segment begins with the producers of all before it.
        for base in targets:
            self._prepare_producers(base)
            if not clean:
                self._snapshots.take(self._producers)
            scan = self._rebuild(base)
            if not scan.is_whole:
                truncated += scan.size - scan.valid_bytes
            # What lies behind the first loss cannot be told from what was never acknowledged: it is all cut
            # off.
            if not clean and (not scan.is_whole or self._ends_too_soon(base, scan, recovery_point)):
                self._drop_after(base, scan.next_offset)
                break
        if truncated or not clean:
            self._snapshots.take(self._producers)
        end_offset = self._producers.map_end_offset
        # Something counts as durable from now on that was not.
        if clean or truncated or end_offset > recovery_point or self._epochs.entries != epochs:
            self._sync()
        # Else nothing is new but indexes of the last segment, which the next recovery makes again. Thousands
        # of idle partitions would wait for six syncs each.
        return Recovery(end_offset, len(targets), self._scanned, truncated)

    def _ends_too_soon(self, base: int, scan: SegmentScan, recovery_point: int) -> bool:
        """Whether the end of a segment is lost that was never synced."""
        return self._is_gapless and recovery_point <= scan.next_offset < self._following(base)

    def _following(self, base: int) -> int:
        """Where the next segment begins; -1 behind the last one."""
        return min((each for each in self._bases if each > base), default=-1)

    def _sync(self) -> None:
        """From now on all of it counts as synced, so the epochs and the names must be as durable as the
        bytes.
        """
        for path in (*self._written, self._epochs.path):
            SyncByPath(self._filesystem, path).sync()
        self._filesystem.sync_directory(self._directory)
        self._filesystem.sync_directory(self._directory.rpartition("/")[0])

    def _prepare_producers(self, base: int) -> None:
        """Brings producer state to the start of a segment: a snapshot, and what was appended since."""
        producers = self._producers
        # No state yet, or one of a later place: the newest snapshot at or below the segment.
        if not 0 < producers.map_end_offset <= base:
            self._snapshots.load_into(producers, self._bases[0], at_most=base)
        self._txn_index = None
        # Whole segments behind the snapshot are read again, only for their producers.
        for earlier, end in itertools.pairwise(self._bases):
            if earlier < base and end > producers.map_end_offset:
                self._scan(earlier)
        producers.map_end_offset = max(producers.map_end_offset, base)

    def _rebuild(self, base: int) -> SegmentScan:
        """Scans the segment, cuts what is not valid, and writes its indexes."""
        stem = f"{self._directory}/{offset_name(base, '')}"
        self._filesystem.remove(stem + TXN_INDEX_SUFFIX)
        self._txn_index = TransactionIndex(self._filesystem, stem + TXN_INDEX_SUFFIX)
        scan = self._scan(base)
        file = self._filesystem.open(stem + LOG_SUFFIX)
        if not scan.is_whole:
            # It is no damage: cutting it would destroy records that Kafka can read.
            if holds_old_format(file, scan.valid_bytes):
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                    f"{stem}{LOG_SUFFIX} has messages of format 0 or 1 at position {scan.valid_bytes},"
                    " which a broker of Apache Kafka still reads",
                )
            # Not the last segment: the cut leaves a gap.
            if base < self._following(base):
                self._withdraw_note()
            lost = scan.size - scan.valid_bytes
            _events.warning("segment.truncated", segment=stem, position=scan.valid_bytes, lost_bytes=lost)
            file.truncate(scan.valid_bytes)
        self._written.append(stem + LOG_SUFFIX)
        self._write(stem + INDEX_SUFFIX, scan.index)
        self._write(stem + TIME_INDEX_SUFFIX, scan.time_index)
        return scan

    def _withdraw_note(self) -> None:
        """What is cut may leave a gap that a later start finds, and the segments behind it are whole."""
        if self._is_gapless:
            self._is_gapless = False
            gapless.withdraw(self._filesystem, self._directory)
            self._filesystem.sync_directory(self._directory)

    def _scan(self, base: int) -> SegmentScan:
        file = self._filesystem.open(f"{self._directory}/{offset_name(base, LOG_SUFFIX)}")
        scan = scan_segment(file, base, self._interval, self._observe)
        self._scanned += scan.size
        self._producers.map_end_offset = max(self._producers.map_end_offset, scan.next_offset)
        return scan

    def _write(self, path: str, data: bytearray) -> None:
        file = self._filesystem.open(path, create=True)
        file.truncate(len(data))
        if data:
            file.pwrite(data, 0)
        self._written.append(path)

    def _observe(self, header: BatchHeader, block: bytes) -> None:
        latest = self._epochs.latest_epoch
        # The first batch of each epoch is where the epoch begins.
        if header.leader_epoch >= 0 and (latest is None or header.leader_epoch > latest):
            self._epochs.assign(header.leader_epoch, header.base_offset)
        # Below that offset the snapshot knows the producers already.
        if header.producer_id >= 0 and header.base_offset >= self._producers.map_end_offset:
            self._replay(header, block)

    def _replay(self, header: BatchHeader, block: bytes) -> None:
        try:
            marker = marker_in(block, header) if header.is_control else None
        except KafkaError:
            return  # a control batch of another kind says nothing about producers
        # A marker that aborts is noted in the segment's transaction index, which readers of committed data
        # need.
        aborted = apply_batch(self._producers, header, header.base_offset, marker)
        if aborted is not None and self._txn_index is not None:
            self._txn_index.append(aborted)

    def _drop_after(self, base: int, end_offset: int) -> None:
        for later in self._bases:
            if later > base:
                lost = self._filesystem.size(f"{self._directory}/{offset_name(later, LOG_SUFFIX)}")
                _events.warning(
                    "segment.dropped", directory=self._directory, base_offset=later, lost_bytes=lost
                )
                for suffix in SEGMENT_SUFFIXES:
                    self._filesystem.remove(f"{self._directory}/{offset_name(later, suffix)}")
        # A snapshot of what was cut off would bring its producers back.
        self._snapshots.remove_outside(0, end_offset)

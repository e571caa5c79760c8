"""The log of one partition: an ordered list of segments that grows at the end (``UnifiedLog``).

Theory of operation
-------------------
Offsets: ``log_start_offset <= recovery_point, high_watermark <= log_end_offset``. Records below the log
start may still lie in the first segment but are not served. The recovery point says what was synced: after a
crash only segments that reach beyond it are checked.

An append validates first, then changes nothing in memory before the disk has taken the bytes: a batch that
the disk refuses was never there. (Appends of one turn that wait for each other are the exception:
`write_turn` says how they are taken back.) An OSError takes the log offline, and the `LogListener` takes its
directory too where that must be; from then on every call answers KAFKA_STORAGE_ERROR. What was acknowledged
stays on disk and is served again after a restart.
"""

from collections.abc import Sequence
from typing import Final

from barnabas.core.chunks import Buffer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import Uuid
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.log import gapless, truncation
from barnabas.log.damage import looked_up, mend, warn_once
from barnabas.log.flush import DirectorySync, Syncable, SyncByPath
from barnabas.log.index import IndexCorruptError
from barnabas.log.names import segment_paths
from barnabas.log.partition_metadata import write_topic_id
from barnabas.log.producers import AppendOrigin
from barnabas.log.replay import apply_batch, marker_in
from barnabas.log.results import AppendInfo, ReadResult, TimestampAndOffset, UnexpectedAppendOffsetError
from barnabas.log.rolling import must_roll
from barnabas.log.segment import Place
from barnabas.log.state import LogState
from barnabas.log.time_search import search_batch
from barnabas.log.txn_index import AbortedTxn
from barnabas.log.validator import HeavyBatchError, check_frame, validate, validate_elsewhere
from barnabas.log.write_turn import UnwrittenAppends, WriteTurn
from barnabas.records.batch import (
    CONTROL_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    batch_headers,
    parse_header,
    stamp,
)
from barnabas.records.control import EndTransactionMarker

_events: Final = EventLog("log")


class Log(LogState):
    """One partition's records. Built by `barnabas.log.loader.load_log`."""

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Binds the directory to a topic; raises INCONSISTENT_TOPIC_ID when it is bound to another."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"Tried to assign topic ID to log for topic partition {self.tp}, but log already contained"
                " another topic ID",
            )
        try:
            write_topic_id(self.resources.filesystem, self.directory, topic_id)
        except OSError as error:
            raise self.refused(error) from error
        self.topic_id = topic_id

    # -- append --------------------------------------------------------------------------------------

    def append(
        self,
        records: bytearray | memoryview,
        leader_epoch: int,
        now_ms: int,
        header: BatchHeader | None = None,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        validated: bool = False,
    ) -> AppendInfo:
        """``appendAsLeader``: appends one batch; stamps offset and epoch into `records`, which is writable.

        Behind `join` a small batch may wait until the turn ends (`waits`): it is not appended before that is
        written. Raises KafkaError with Kafka's code, and HeavyBatchError for a batch that `validate_heavy`
        must see first; then nothing was appended.
        """
        unwritten = self.unwritten
        if unwritten is not None:
            if unwritten.takes_next:
                unwritten.takes_next = False
            else:
                unwritten = None
        if self.offline:
            self._refuse_offline()
        config = self.config
        # A child process has looked into the batch already (`validate_heavy`).
        if validated:
            buffer, header = records, parse_header(records)
            if config.uses_append_time:
                now_ms = header.max_timestamp  # as it was stamped
        else:
            buffer, header = validate(
                records, tp=self.tp, config=config, origin=origin, now_ms=now_ms, header=header
            )
        size = len(buffer)
        # No segment could take it, not even an empty one.
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {size} bytes in append to partition {self.tp}, which exceeds the"
                f" maximum configured segment size of {config.segment_bytes}.",
            )
        try:
            if unwritten is not None and not self._may_defer(unwritten, header, size, leader_epoch, now_ms):
                unwritten = None
        except OSError as error:  # of a look at the first batch, for the age of the segment
            raise self.refused(error) from error
        # The batches before this one come first, in the log as in the file.
        if unwritten is None:
            self.check_online()
        first_offset = self.log_end_offset
        marker = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = self._checked_marker(buffer, header, origin)
            else:
                # KIP-98: a batch that the producer repeats is answered as the first time; any other gap in
                # its sequence is refused.
                duplicate = self._find_duplicate(header, origin)
                if duplicate is not None:
                    return duplicate
                self.producers.check(header, origin, first_offset)
        last_offset = first_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp
        stamp(buffer, header, first_offset, leader_epoch)
        info = AppendInfo(
            first_offset,
            last_offset,
            max_timestamp,
            now_ms if config.uses_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            False,
            size,
        )
        try:
            if unwritten is not None:
                self._defer(unwritten, buffer, header, info)
            else:
                # The epoch comes before its first record: a start cuts epochs that begin behind the end.
                if leader_epoch != self.leader_epochs.latest_epoch and leader_epoch >= 0:
                    self.leader_epochs.assign(leader_epoch, first_offset)
                self._make_room(size, first_offset, last_offset, max_timestamp, now_ms)
                self._write(
                    buffer,
                    first_offset=first_offset,
                    last_offset=last_offset,
                    max_timestamp=max_timestamp,
                    max_timestamp_offset=last_offset,
                    first_batch_size=size,
                )
            # The disk has it, or its turn can take it back: the producer's next batch follows it.
            if header.producer_id >= 0:
                self._note_producer(header, first_offset, marker)
        except OSError as error:
            raise self.refused(error) from error
        self.producers.map_end_offset = last_offset + 1
        return info

    # -- appends of one turn -------------------------------------------------------------------------

    def join(self, turn: WriteTurn) -> None:
        """The next append may wait for the end of the turn, or for a call of anything else before that."""
        if self.unwritten is None:
            self.unwritten = UnwrittenAppends(
                self.tp, self.log_end_offset, self._high_watermark, self.write_unwritten
            )
            turn.unwritten.append(self.unwritten)
        self.unwritten.takes_next = True

    def _may_defer(
        self, unwritten: UnwrittenAppends, header: BatchHeader, size: int, leader_epoch: int, now_ms: int
    ) -> bool:
        """Whether an append may wait for its turn: plain data that changes nothing but the end of the log."""
        segment = self.segments.active
        return (
            unwritten.has_room(size)
            # A marker changes the index of transactions too, which is not put back.
            and not header.attributes & CONTROL_BIT
            # A new epoch is written to its checkpoint.
            and leader_epoch == self.leader_epochs.latest_epoch
            # The first batch of a segment has the time that the age of the segment counts from.
            and segment.size > 0
            and not must_roll(
                self.tp,
                self.config,
                segment,
                unwritten.size + size,
                self.log_end_offset + header.last_offset_delta,
                header.max_timestamp,
                now_ms,
                index_entries=len(unwritten.buffers),
            )
        )

    def _defer(
        self, unwritten: UnwrittenAppends, buffer: Buffer, header: BatchHeader, info: AppendInfo
    ) -> None:
        if not unwritten.buffers:
            self.active.file_for_appends()  # raises where there is no descriptor left for it
        unwritten.add(buffer, info)
        if header.producer_id >= 0:
            unwritten.save_producer(self.producers, header.producer_id)
        self.log_end_offset = info.last_offset + 1

    def validate_heavy(self, records: Buffer, now_ms: int) -> Pending[bytes | None]:
        """Validates a batch where it does not hold the event loop: the batch to append, None for the same."""
        run = self.resources.offload.run
        return run(validate_elsewhere, bytes(records), self.tp, self.config, now_ms)

    def append_as_follower(self, records: Buffer, now_ms: int = 0) -> AppendInfo | None:
        """``appendAsFollower``: appends batches as the leader has them, offsets and epochs included.

        What is cut off at the end of a fetch is left out; None when no whole batch is left. Raises
        CORRUPT_MESSAGE, or UnexpectedAppendOffsetError for batches that begin before the log's end.
        """
        self.check_online()
        headers = self._checked_replicas(records)
        # A fetch ends anywhere: there may be no whole batch in it.
        if not headers:
            return None
        first, last = headers[0], headers[-1]
        newest = max(headers, key=lambda header: header.max_timestamp)
        with memoryview(records) as view, view[: last.end] as whole:
            try:
                # All of it goes into one segment, with one write.
                self._make_room(last.end, first.base_offset, last.last_offset, newest.max_timestamp, now_ms)
                # Epochs come before records: a start cuts epochs that begin behind the end of the log.
                for header in headers:
                    if header.leader_epoch >= 0 and header.leader_epoch != self.leader_epochs.latest_epoch:
                        self.leader_epochs.assign(header.leader_epoch, header.base_offset)
                self._write(
                    whole,
                    first_offset=first.base_offset,
                    last_offset=last.last_offset,
                    max_timestamp=newest.max_timestamp,
                    max_timestamp_offset=newest.last_offset,
                    first_batch_size=first.size,
                )
                self._note_producers(records, headers)
            except OSError as error:
                raise self.refused(error) from error
        return AppendInfo(
            first.base_offset,
            last.last_offset,
            newest.max_timestamp,
            NO_TIMESTAMP,
            self.log_start_offset,
            duplicate=False,
            size=last.end,
        )

    def _checked_replicas(self, records: Buffer) -> list[BatchHeader]:
        """The headers of all whole batches, each checked; offsets must rise from the log's end on."""
        headers = list(batch_headers(records))
        expected = self.log_end_offset
        for header in headers:
            check_frame(records, header, self.tp)
            # A leader's log may begin in the middle of a batch, which comes whole: `Partition` begins again
            # with it.
            if header.base_offset < expected:
                raise UnexpectedAppendOffsetError(
                    f"Unexpected offset in append to {self.tp}. First offset {header.base_offset} is less"
                    f" than the next offset {expected}. Log start offset = {self.log_start_offset}",
                    first_offset=headers[0].base_offset,
                    last_offset=headers[-1].last_offset,
                )
            if header.base_offset > expected:
                try:
                    self.expect_gaps()  # the leader's log is a cleaned one
                except OSError as error:
                    raise self.refused(error) from error
            expected = header.next_offset
        return headers

    def expect_gaps(self) -> None:
        """To be called before the first gap comes into the log: no later start takes one for a loss.

        Raises OSError.
        """
        if self.is_gapless:
            gapless.withdraw(self.resources.filesystem, self.directory)
            self.is_gapless = False

    def _find_duplicate(self, header: BatchHeader, origin: AppendOrigin) -> AppendInfo | None:
        known = self.producers.find_duplicate(header) if origin is AppendOrigin.CLIENT else None
        if known is None:
            return None
        return AppendInfo(
            known.first_offset,
            known.last_offset,
            known.timestamp,
            known.timestamp,  # as in Kafka, also with LogAppendTime
            self.log_start_offset,
            duplicate=True,
            size=0,
        )

    def _checked_marker(
        self, buffer: Buffer, header: BatchHeader, origin: AppendOrigin
    ) -> EndTransactionMarker | None:
        marker = marker_in(buffer, header)
        if marker is not None:
            self.producers.check_marker(header, marker, origin, self.log_end_offset)
        return marker

    def _write(
        self,
        data: bytearray | memoryview,
        *,
        first_offset: int,
        last_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        first_batch_size: int,
    ) -> None:
        assert first_offset >= self.log_end_offset, f"{first_offset} is written already in {self!r}"
        position = self.segments.active.append(
            data,
            last_offset=last_offset,
            max_timestamp=max_timestamp,
            max_timestamp_offset=max_timestamp_offset,
            interval=self.config.index_interval_bytes,
        )
        self.segments.remember(Place(position, first_batch_size, first_offset))
        self.log_end_offset = last_offset + 1

    def _note_producers(self, records: Buffer, headers: list[BatchHeader]) -> None:
        for header in headers:
            if header.producer_id >= 0:
                marker = marker_in(records, header) if header.is_control else None
                self._note_producer(header, header.base_offset, marker)
            self.producers.map_end_offset = header.next_offset

    def _note_producer(
        self, header: BatchHeader, base_offset: int, marker: EndTransactionMarker | None
    ) -> None:
        aborted = apply_batch(self.producers, header, base_offset, marker)
        if aborted is not None:
            self.active.txn_index.append(aborted)

    # -- roll ----------------------------------------------------------------------------------------

    def _make_room(
        self, size: int, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int
    ) -> None:
        """``maybeRoll``: when the active segment cannot or should not take the append
        (``LogSegment.shouldRoll``).
        """
        if must_roll(self.tp, self.config, self.segments.active, size, last_offset, max_timestamp, now_ms):
            self.roll(now_ms, first_offset)

    def roll(self, now_ms: int, expected_offset: int = 0) -> None:
        """Closes the active segment and opens one at the end of the log (or further on). Raises OSError."""
        self.write_unwritten()
        # A follower's next batch may begin behind the end of its log, where its leader's log was cleaned.
        base_offset = max(expected_offset, self.log_end_offset)
        if base_offset > self.log_end_offset:
            self.expect_gaps()
        old, index_bytes_max = self.active, self.config.segment_index_bytes
        if old.base_offset == base_offset:
            # Only an empty segment can be in the way: its indexes are full, so its files are begun again.
            assert old.size == 0, f"a new segment at {base_offset} would replace {old!r}"
            self.segments.replace_active(self.segments.create(base_offset, index_bytes_max, now_ms))
            old.rest()
        else:
            try:
                new = self.segments.create(base_offset, index_bytes_max, now_ms)
                old.seal()
            except OSError:
                # The old segment stays the active one; an empty one beyond its next records would end the log
                # at a restart.
                self.segments.remove_files(segment_paths(self.directory, base_offset))
                raise
            self.segments.add(new)
        # The recovery point passes the closed segment once it is synced: a start need not scan it then
        # (``flushUptoOffsetExclusive``).
        if old.size:
            self.flush_soon()
        # A start reads producers from here on: without a snapshot at each segment it would read all batches.
        self.producers.map_end_offset = base_offset
        self.snapshots.take(self.producers)

    # -- flush ---------------------------------------------------------------------------------------

    @property
    def flush_needed(self) -> bool:
        """Whether `flush.messages` asks for a sync before the last append may be answered."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_after

    def flush_soon(self) -> Pending[None]:
        """Done when everything appended so far is durable; one sync serves all callers of one turn.

        Fails with KAFKA_STORAGE_ERROR.
        """
        return self.resources.commits.request(self)

    def flush(self) -> None:
        """Syncs now, in place. Raises KAFKA_STORAGE_ERROR."""
        end_offset, files = self.begin_flush()
        try:
            for file in files:
                file.sync()
        except OSError as error:
            raise self.sync_failed(error) from error
        self.end_flush(end_offset)

    def begin_flush(self) -> tuple[int, Sequence[Syncable]]:
        self.write_unwritten()
        # From the segment of the last record that was synced: it may have been closed since, and then its
        # indexes are synced now, because recovery looks at no segment that lies wholly below the recovery
        # point.
        unsynced = self.segments.reaching(self.recovery_point - 1)
        self.flush_bound = self.log_end_offset
        disk = self.resources.disk
        files = [file for segment in unsynced for file in segment.files_to_sync(disk)]
        if unsynced[-1].base_offset >= self.recovery_point:
            # A segment is new since the last sync: its name has to be durable as well as its bytes. And so
            # have the leader epochs: those of segments below the recovery point are not learnt from their
            # batches again.
            files.append(SyncByPath(disk, self.leader_epochs.path))
            files.append(DirectorySync(disk, self.directory))
        return self.log_end_offset, files

    def end_flush(self, end_offset: int) -> None:
        # A truncation may have come between: what was written since then is not synced.
        self.recovery_point = max(self.recovery_point, min(end_offset, self.flush_bound))

    # -- read ----------------------------------------------------------------------------------------

    def read(
        self,
        start_offset: int,
        max_bytes: int,
        *,
        upper_bound_offset: int | None = None,
        min_one_message: bool = False,
    ) -> ReadResult:
        """Whole batches from the one that holds `start_offset` on, none at or above the upper bound.

        The last batch may be cut by `max_bytes`; with `min_one_message` the first never is. Raises
        OFFSET_OUT_OF_RANGE or KAFKA_STORAGE_ERROR.
        """
        self.check_online()
        # The end itself is in range: a consumer waits there for the next record.
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise self._out_of_range(start_offset)
        end_offset = self.log_end_offset
        upper = end_offset if upper_bound_offset is None else min(upper_bound_offset, end_offset)
        if start_offset >= upper:
            return self.segments.nothing(start_offset)
        # A reader that may see all of it needs no look into an index for where to stop.
        if upper == end_offset:
            upper_bound_offset = None
        try:
            found = self.segments.read(
                start_offset, max_bytes, upper_bound_offset, min_one_message=min_one_message
            )
        except (OSError, KafkaError, IndexCorruptError) as error:
            mend(self, error)
            # An index was made again: the same read finds its way now. All else has been raised.
            found = self.segments.read(
                start_offset, max_bytes, upper_bound_offset, min_one_message=min_one_message
            )
        if found.first_offset > start_offset and self.is_gapless:
            # What is missing here was acknowledged once.
            warn_once(
                self, "log.gap", found.first_offset, first_missing=start_offset, next_found=found.first_offset
            )
        return found

    def aborted_transactions(self, start_offset: int, upper_bound_offset: int) -> list[AbortedTxn]:
        """``collectAbortedTransactions``: those with records in the range, for read_committed consumers."""
        self.check_online()
        return looked_up(self, self.segments.aborted_transactions, start_offset, upper_bound_offset)

    # -- look-up by time -----------------------------------------------------------------------------

    def offset_for_timestamp(self, target_ms: int) -> Sliced[TimestampAndOffset | None]:
        """``fetchOffsetByTimestamp``: the first record at or after the time (ms since 1970)."""
        self.check_online()
        start_offset = next_offset = self.log_start_offset
        while (batch := looked_up(self, self.segments.batch_since, target_ms, next_offset)) is not None:
            found = yield from self._search(batch, target_ms, start_offset)
            if found is not None:
                return found
            # The record lies below the start of the log, or the header lies about its greatest timestamp.
            next_offset = parse_header(batch).next_offset
        return None

    def max_timestamp_offset(self) -> Sliced[TimestampAndOffset | None]:
        """The first record with the greatest timestamp (KIP-734); None for a log without one."""
        self.check_online()
        batch = looked_up(self, self.segments.latest_batch)
        if batch is None:
            return None
        return (yield from self._search(batch, parse_header(batch).max_timestamp, 0))

    def _search(self, batch: bytes, target_ms: int, start_offset: int) -> Sliced[TimestampAndOffset | None]:
        """What `search_batch` finds, in a child process where the batch would hold the event loop."""
        try:
            try:
                return search_batch(batch, target_ms, start_offset, at_once=True)
            except HeavyBatchError:
                run = self.resources.offload.run
                found: TimestampAndOffset | None = yield run(search_batch, batch, target_ms, start_offset)
                return found
        except KafkaError as error:
            mend(self, error)
            raise

    # -- truncation ----------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """``truncateTo``: cuts everything at and above the offset; False when there was nothing to cut."""
        return truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """``truncateFullyAndStartAt``: drops all records; the next append goes to the offset."""
        truncation.truncate_fully_and_start_at(self, offset, log_start_offset)

    # -- the start of the log ------------------------------------------------------------------------

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """``maybeIncrementLogStartOffset``: hides records below the offset; they go with the next clean-up.
        Raises OFFSET_OUT_OF_RANGE.
        """
        self.check_online()
        if offset > self._high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.tp} since it is larger"
                f" than the high watermark {self._high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        # The first epoch says durably where the log starts, before anything below it may be deleted.
        try:
            self.leader_epochs.truncate_from_start(offset)
        except OSError as error:
            raise self.refused(error) from error
        self.log_start_offset = offset
        self.producers.on_log_start(offset)
        self.high_watermark = self._high_watermark
        return True

    def drop_first_segments(self, count: int, now_ms: int) -> list[str]:
        """Retires the oldest segments; returns the renamed files, to be removed after a delay.

        The active segment may be among them: then the log rolls first. Raises OSError.
        """
        if count == len(self.segments):
            self.roll(now_ms)
        # The start moves first: a death in between leaves segments below it, and no reader sees them.
        self.maybe_increment_log_start_offset(self.segments[count].base_offset)
        return self.segments.retire_first(count)

    # -- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves the directory as a clean shutdown does: all synced, indexes cut, a snapshot at the end.

        Raises KAFKA_STORAGE_ERROR.
        """
        self.check_online()
        try:
            # The next start reads no batch: the snapshot at the end knows all producers.
            self.producers.map_end_offset = self.log_end_offset
            self.snapshots.take(self.producers)
            self.snapshots.sync()
            self.leader_epochs.settle()
            self.active.seal()
        except OSError as error:
            raise self.refused(error) from error
        # One that nothing was appended to is as durable as it was: a stop with thousands of idle partitions
        # would wait for six syncs each.
        if not self.recovery_point == self.log_end_offset == self.loaded_end_offset:
            self.flush()
        self.release()

    def relocate(self, moved: "Log") -> None:
        """Takes over the directory of `moved`, which has the same records, all of them synced.

        What is in flight for the old files has nothing left to promise, and cannot move the recovery point.
        """
        self.write_unwritten()
        assert moved.log_end_offset == self.log_end_offset, f"{moved!r} is no copy of {self!r}"
        # A scan that runs is of a segment that this log does not read from here on.
        self.rebuilding = {}
        for segment in self.segments:
            segment.forget_files()
        self.directory = moved.directory
        self.segments = moved.segments
        self.snapshots = moved.snapshots
        self.leader_epochs = moved.leader_epochs
        self.is_gapless = moved.is_gapless
        self.recovery_point = self.flush_bound = moved.recovery_point
        self.loaded_end_offset = -1

    def release(self) -> None:
        """Lets go of all files without touching the disk; no call is served from now on."""
        self.offline = True
        self.write_unwritten()  # refuses them
        for segment in self.segments:
            segment.forget_files()

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {offset} for partition {self.tp}, but we only have log segments in"
            f" the range {self.log_start_offset} to {self.log_end_offset}.",
        )

"""Moves of partitions between the log directories of this broker (``ReplicaAlterLogDirsManager``, KIP-113).

Theory of operation
-------------------
A move copies the current log into a future log (`log.future_logs`), 64 KiB at a time and a slice of the loop
at once, while clients write on. Epochs and offsets are copied with the batches. When nothing is left to copy,
the future log takes the place of the current one within one turn, in which nothing can be appended.

Where the current log is cut, the future log is cut as well before the next piece is copied. Cleaning of the
log rests until the move is over. ``num.replica.alter.log.dirs.threads`` partitions are copied side by side,
all together at most at the rate of ``replica.alter.log.dirs.io.max.bytes.per.second``.

A move that fails is tried again, as long as its future log is there: a start, and each LeaderAndIsr,
continues those that it finds.
"""

import os.path
from functools import partial
from typing import Final

from barnabas.core.chunks import FileSlice
from barnabas.core.clock import Clock
from barnabas.core.config import LONG_MAX
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.log.directory import LogDirectory
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.log.names import DIRECTORY_NAME_LENGTH_MAX, future_name
from barnabas.log.results import UnexpectedAppendOffsetError
from barnabas.replica.hosted import HostedPartitions
from barnabas.replica.partition import Partition
from barnabas.replica.quota import ReplicationQuotaManager

PIECE_BYTES: Final = 1 << 16
"""How much is copied without a look at the clock: the smallest batches make a thousand headers of it."""
LAST_SYNC_BYTES: Final = 1 << 20
"""What may be left to sync, in place, when the future log becomes the current one."""
SYNCS_MAX: Final = 5
"""After this number of syncs aside the rest is synced in place, however large it is:
producers may outrun the disk.
"""
WAIT_MS: Final = 100
"""How long a copy waits for its quota, or for the cleaner to let go of the log."""
RETRY_MS: Final = 1000

_UNIQUE: Final = "0" * 32

_log: Final = EventLog("replica.alter_log_dirs")


class ReplicaAlterLogDirsManager:
    """The moves of this broker."""

    __slots__ = (
        "_clock",
        "_closed",
        "_hosted",
        "_is_due",
        "_logs",
        "_quota",
        "_running",
        "_threads",
        "_waiting",
    )

    def __init__(
        self,
        logs: LogManager,
        hosted: HostedPartitions,
        quota: ReplicationQuotaManager,
        clock: Clock,
        threads: int | None,
    ) -> None:
        """As many partitions are copied at a time as there are `threads`, by default one a log directory."""
        self._logs = logs
        self._hosted = hosted
        self._quota = quota
        self._clock = clock
        self._threads = threads or len(logs.directories)
        self._waiting: dict[TopicPartition, None] = {}
        self._running: set[TopicPartition] = set()
        self._is_due = False
        """Whether a look at what waits comes in the next turn of the loop."""
        self._closed = False

    # --- what an operator asks for ------------------------------------------------------------------------

    def alter(self, tp: TopicPartition, path: str) -> ErrorCode:
        """``alterReplicaLogDirs``: begins to move a partition to the log directory of that absolute path."""
        try:
            self._begin(tp, path)
        except KafkaError as error:
            # Kafka keeps this code for clients that know no other of this request.
            is_unknown = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            code = ErrorCode.REPLICA_NOT_AVAILABLE if is_unknown else error.code
            _log.warning("log_dirs.not_altered", partition=tp, path=path, error=code.name, reason=error)
            return code
        return ErrorCode.NONE

    def _begin(self, tp: TopicPartition, path: str) -> None:
        if len(future_name(tp, _UNIQUE).encode()) > DIRECTORY_NAME_LENGTH_MAX:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        directory = self._directory(path)
        if self._hosted.is_offline(tp):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Partition {tp} is offline")
        future = self._logs.futures.get(tp)
        if future is not None and future.parent_dir != directory.path:
            self._logs.futures.delete(
                tp
            )  # another target, or back to where the partition is: the move is off
            future = None
        if tp not in self._hosted.online:
            self._logs.prefer(tp, directory.path)
        log = self._hosted.serve(tp).log
        if log is None:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"Partition {tp} has no log yet")
        if future is None and log.parent_dir != directory.path:
            self._logs.create_future(tp, directory.path)
            _log.info("move.begins", partition=tp, source=log.parent_dir, target=directory.path)
            self._enqueue(tp)

    def _directory(self, path: str) -> LogDirectory:
        for directory in self._logs.directories:
            # A name, nothing is looked up on the disk.
            if os.path.abspath(directory.path) == path:  # noqa: PTH100
                if directory.offline:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
                if directory.cordoned:
                    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log dir {path} is cordoned.")
                return directory
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log dir {path} is not found in the config.")

    def resume(self) -> None:
        """``maybeAddLogDirFetchers``: continues the moves of partitions that have a role now."""
        for tp in list(self._logs.futures.logs):
            if tp in self._hosted.online:
                self._enqueue(tp)

    def close(self) -> None:
        """Copies stop; what was copied stays for the next start."""
        self._closed = True
        self._waiting.clear()

    # --- moves --------------------------------------------------------------------------------------------

    def _enqueue(self, tp: TopicPartition) -> None:
        self._waiting[tp] = None
        self._start_soon()

    def _start_soon(self) -> None:
        """Has one more move begin, in a turn of its own: a small one is over at once, with all its syncs."""
        if not self._is_due:
            self._is_due = True
            self._clock.call_soon(self._start_next)

    def _start_next(self) -> None:
        self._is_due = False
        if len(self._running) >= self._threads:
            return  # the end of a move asks again
        tp = next((tp for tp in self._waiting if tp not in self._running), None)
        if tp is not None:
            del self._waiting[tp]
            self._running.add(tp)
            self._move(tp).when_done(partial(self._moved, tp))
            self._start_soon()

    def _moved(self, tp: TopicPartition, done: Pending[None]) -> None:
        self._running.discard(tp)
        if self._closed:
            return
        if done.error is not None:
            _log.warning("move.failed", partition=tp, error=done.error, retry=tp in self._logs.futures.logs)
            self._clock.call_later(RETRY_MS, self.resume)
        self._start_soon()

    @steps
    def _move(self, tp: TopicPartition) -> Steps[None]:
        """``ReplicaAlterLogDirsThread.doWork`` until the future log is the current one.
        Fails with KafkaError or OSError.
        """
        partition, future = self._hosted.online.get(tp), self._logs.futures.get(tp)
        if partition is None or future is None or partition.log is None:
            return
        log = partition.log
        self._logs.futures.forget_move(log)
        cut_to_common_end(log, future)
        slices, unsynced, syncs = Slices(self._clock), 0, 0
        while self._is_current(partition, log, future):
            if self._quota.is_exceeded():
                yield self._wait()
                continue
            size = self._copy_piece(log, future)
            if size:
                unsynced += size
                self._quota.record(size)
                if slices.over():
                    yield slices.next_turn()
            # Everything is copied. Most of it is synced aside, so that the change of logs holds the loop only
            # for the rest.
            elif unsynced > LAST_SYNC_BYTES and syncs < SYNCS_MAX:
                unsynced, syncs = 0, syncs + 1
                yield future.flush_soon()
            # The cleaner replaces segments of the current log: the change has to wait until it lets go.
            elif self._logs.is_cleaning(log):
                yield self._wait()
            else:
                self._logs.futures.replace_current(log, future)
                return

    def _is_current(self, partition: Partition, log: Log, future: Log) -> bool:
        """Whether the move is still to be made: by now it may be given up, or a disk have failed."""
        tp = partition.tp
        return (
            not (self._closed or log.offline or future.offline)
            and self._hosted.online.get(tp) is partition
            and partition.log is log
            and self._logs.futures.get(tp) is future
        )

    def _wait(self) -> Pending[None]:
        waited: Pending[None] = Pending()
        self._clock.call_later(WAIT_MS, lambda: waited.complete(None))
        return waited

    def _copy_piece(self, log: Log, future: Log) -> int:
        """Copies what comes next; the bytes of it, 0 when the future log has everything."""
        cut, log.lowest_cut = log.lowest_cut, LONG_MAX
        # The current log was truncated since the last piece (a new leader).
        if cut < future.log_end_offset:
            _log.info("move.cut", partition=log.tp, offset=cut)
            future.truncate_to(cut)
        # Retention has deleted what was to be copied next.
        if future.log_end_offset < log.log_start_offset:
            future.truncate_fully_and_start_at(log.log_start_offset)
        found = log.read(future.log_end_offset, PIECE_BYTES, min_one_message=True).records
        data = found.read() if isinstance(found, FileSlice) else found
        if not data:
            return 0
        try:
            future.append_as_follower(data, self._clock.time_ms())
        except UnexpectedAppendOffsetError as error:
            # The log starts in the middle of a batch, which comes whole: the copy begins with it.
            if future.log_start_offset != future.log_end_offset:
                raise
            future.truncate_fully_and_start_at(error.first_offset)
            future.append_as_follower(data, self._clock.time_ms())
        return len(data)


def cut_to_common_end(log: Log, future: Log) -> None:
    """Cuts a future log that was found at a start to where it is surely equal to the current log
    (KIP-101).
    """
    log.lowest_cut = LONG_MAX
    if future.log_end_offset == future.log_start_offset:
        return
    latest = future.leader_epochs.latest_epoch
    end = None if latest is None else log.leader_epochs.end_offset_for(latest, log.log_end_offset)
    # The epochs do not meet: nothing of the future log is known to be the same.
    if end is None or end.epoch != latest or future.log_start_offset > log.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset)
    else:
        future.truncate_to(end.end_offset)

"""All logs of a broker and the directories they live in (``LogManager``).

Theory of operation
-------------------
`start` locks each directory and loads its partitions. While the broker runs, the node's timers call the
maintenance verbs: checkpoints, retention, flushes by time, expiry of producers, a look after the files of
logs. `shutdown` closes every log and leaves the marker of a clean shutdown. Each of the parts below is a page
of its own:

===============  =======================================================================================
`table`          which logs there are, and the partitions whose logs are not served
`disk_errors`    what an error of a disk takes out of service: a log, a directory, or nothing
`checkpoints`    the files that say how far each log of a directory is synced, committed, deleted, cleaned
`cleaner`        `Cleanings`: which logs are being compacted
`creation`       a new log, and the directory it is made in
`retired_names`  `Retirement`: logs that are deleted or set aside get another name first
`removal`        what has such a name is removed later
`strays`         replicas that are no longer this broker's, which are kept for a while
`future_logs`    logs on their way to another directory
`start`          what the start finds in the directories, and `loading`, what is recovered of it
===============  =======================================================================================
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.offload import InPlace, Offload
from barnabas.core.pending import Pending
from barnabas.log.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, Checkpoints
from barnabas.log.cleaner.in_progress import Cleanings
from barnabas.log.config import LogConfig
from barnabas.log.creation import LogCreation
from barnabas.log.descriptors import DESCRIPTORS_MAX
from barnabas.log.directories import LogDirectories
from barnabas.log.directory import LogDirectory, MetaProperties
from barnabas.log.disk_errors import NOT_THE_FILE, DiskErrors
from barnabas.log.file_watch import FileWatch
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import GroupCommit, InPlaceSyncer, Syncer
from barnabas.log.future_logs import FutureLogs
from barnabas.log.loading import LogLoader
from barnabas.log.log import Log
from barnabas.log.removal import Removal
from barnabas.log.resources import LogListener, LogResources
from barnabas.log.retention import delete_old_segments
from barnabas.log.retired_names import Retirement
from barnabas.log.start import LogStart
from barnabas.log.strays import StrayLog, StrayLogs
from barnabas.log.table import LogTable

PRODUCER_EXPIRATION_MS: Final = 86_400_000

_events: Final = EventLog("log.manager")


class LogManager:
    """The logs by partition."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        filesystem: Filesystem,
        clock: Clock,
        offload: Offload,
        disk_thread: Offload | None = None,
        log_config: Callable[[str], LogConfig] = lambda _topic: LogConfig(),
        syncer: Syncer | None = None,
        on_offline: Callable[[str], object] = lambda _path: None,
        on_log_start: Callable[[TopicPartition], object] = lambda _tp: None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        descriptors: int = DESCRIPTORS_MAX * 8,
        recovery_threads: int = 1,
        stray_delete_delay_ms: int = -1,
    ) -> None:
        """`log_config` gives the configuration of a topic by name.

        `on_offline` is called with the path of a directory, or of one log, that is out of service;
        `on_log_start` when retention has moved the start of a log.

        `disk_thread` makes system calls that may take long and that nobody waits for; without one they are
        made in place.

        `descriptors` is how many the process may have, `recovery_threads` how many logs of a directory are
        recovered at the same time (``num.recovery.threads.per.data.dir``). Strays are deleted after
        `stray_delete_delay_ms`; -1: never.
        """
        elsewhere = disk_thread or InPlace()
        self._clock = clock
        self._log_config = log_config
        self._on_log_start = on_log_start
        self.producer_expiration_ms = producer_expiration_ms
        """How long an idle producer is remembered."""
        # Each part knows those above it.
        table = self._table = LogTable()
        self.logs: Mapping[TopicPartition, Log] = table.current
        directories = self._directories = LogDirectories(filesystem, paths)
        errors = self._errors = DiskErrors(
            filesystem, clock, directories, table, descriptors=descriptors, on_offline=on_offline
        )
        self._checkpoints = Checkpoints(directories, table, errors)
        self.cleanings = Cleanings(self._checkpoints)
        """Which logs a cleaner is at."""
        commits = GroupCommit(clock, syncer or InPlaceSyncer())
        listener = LogListener(failed=errors.failed, refused=errors.refused, cut=self.cleanings.cut)
        self._resources = LogResources(
            errors.sparing, errors.files, commits, listener, disk=filesystem, offload=offload
        )
        self._creation = LogCreation(
            filesystem, clock, directories, table, errors, self._checkpoints, self._resources, log_config
        )
        self._removal = Removal(filesystem, clock, elsewhere, errors.failed)
        self._strays = StrayLogs(filesystem, clock, self._removal, stray_delete_delay_ms)
        self._retirement = Retirement(
            filesystem,
            clock,
            directories,
            errors,
            commits=commits,
            checkpoints=self._checkpoints,
            removal=self._removal,
            strays=self._strays,
        )
        self.futures = FutureLogs(
            filesystem,
            self._resources,
            clock,
            table.future,
            errors,
            log_config=log_config,
            checkpoints=self._checkpoints,
            retirement=self._retirement,
            removal=self._removal,
        )
        """Logs on their way to another directory."""
        self._startup = LogStart(
            filesystem,
            clock,
            directories,
            table,
            errors,
            loader=LogLoader(filesystem, self._resources, clock, offload, log_config),
            futures=self.futures,
            removal=self._removal,
            strays=self._strays,
            log_config=log_config,
            recovery_threads=recovery_threads,
        )
        self._file_watch = FileWatch(table.current, filesystem, elsewhere)

    # -- look-up -------------------------------------------------------------------------------------

    def get(self, tp: TopicPartition) -> Log | None:
        return self.logs.get(tp)

    def __iter__(self) -> Iterator[Log]:
        return iter(self.logs.values())

    @property
    def strays(self) -> Iterable[StrayLog]:
        """Directories of replicas that are no longer this broker's."""
        return self._strays.listed()

    @property
    def directories(self) -> Sequence[LogDirectory]:
        """All that are configured, those out of service too."""
        return tuple(self._directories)

    @property
    def online_directories(self) -> list[str]:
        """The paths that serve."""
        return [directory.path for directory in self._directories.online()]

    def cordon(self, paths: Collection[str]) -> None:
        """These directories get no new logs from now on, and all others do (KIP-1066)."""
        cordoned = {path.rstrip("/") for path in paths}
        for directory in self._directories:
            directory.cordoned = directory.path in cordoned

    @property
    def offline_directories(self) -> list[str]:
        """The paths that a disk error took out of service."""
        return [directory.path for directory in self._directories.offline()]

    # -- start ---------------------------------------------------------------------------------------

    def open_directories(self) -> MetaProperties | None:
        """Locks the directories and returns whose they are; None when all are new.

        Raises ConfigError when one is locked, when they disagree, or when none is usable.
        """
        return self._directories.open(self._errors.not_opened)

    def start(self, *, broker_id: int, cluster_id: str) -> Pending[None]:
        """Locks, checks, recovers and loads everything.

        Fails with ConfigError for directories of another broker or cluster, or locked ones.
        """
        return self._startup.run(MetaProperties(cluster_id, broker_id))

    def is_cleaning(self, log: Log) -> bool:
        """Whether a cleaner reads or replaces segments of a log."""
        return self.cleanings.is_running(log)

    # -- creation and deletion -----------------------------------------------------------------------

    def get_or_create(self, tp: TopicPartition, topic_id: Uuid | None = None, *, is_new: bool = False) -> Log:
        """``getOrCreateLog``: the partition's log, made in the directory with the fewest logs if there is
        none.

        Raises KAFKA_STORAGE_ERROR when a directory is offline that may hold it (`is_new` says that no broker
        has ever had it), INCONSISTENT_TOPIC_ID when it is another topic's, REPLICA_NOT_AVAILABLE while there
        is no room or no descriptor for it.
        """
        log = self.logs.get(tp)
        if log is None:
            log = self._creation.create(tp, is_new=is_new)
        if topic_id is not None:
            try:
                log.assign_topic_id(topic_id)
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR and not log.offline:
                    raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, str(error)) from error
                raise
        return log

    def create_future(self, tp: TopicPartition, directory: str) -> Log:
        """Begins a future log for the current one in this log directory. Raises KAFKA_STORAGE_ERROR."""
        self._creation.check_all_online(tp)  # the partition may have a future log in another directory
        current = self.logs[tp]
        self.futures.forget_move(current)
        return self.futures.create(tp, directory, current.topic_id)

    def prefer(self, tp: TopicPartition, directory: str) -> None:
        """``maybeUpdatePreferredLogDir``: a log that does not exist yet is to be made in this directory."""
        self._creation.prefer(tp, directory)

    def delete(self, tp: TopicPartition) -> Pending[None]:
        """``asyncDelete``: removes a partition: renamed at once, removed from the disk after
        ``file.delete.delay.ms``.

        Done when a loss of power does not bring it back; partitions that are deleted together share that
        Pending. Raises, or fails with, KAFKA_STORAGE_ERROR.
        """
        self.futures.delete(tp)
        log = self._table.current.pop(tp, None)
        return Pending.of(None) if log is None else self._retirement.delete(log)

    def mark_stray(self, tp: TopicPartition) -> Pending[None]:
        """``asyncDelete`` of a stray: sets a replica aside that is no longer this broker's.

        Raises KAFKA_STORAGE_ERROR.
        """
        self.futures.delete(tp)
        log = self._table.current.pop(tp, None)
        return Pending.of(None) if log is None else self._retirement.mark_stray(log)

    # -- configuration -------------------------------------------------------------------------------

    def reconfigure(self, topic: str) -> None:
        """``updateTopicConfig``: gives the logs of a topic its new configuration."""
        config = self._log_config(topic)
        for log in self._table:
            if log.tp.topic == topic:
                log.config = config

    # -- maintenance, called by timers ---------------------------------------------------------------

    def checkpoint_recovery_points(self) -> None:
        """``checkpointLogRecoveryOffsets``: what is synced (``log.flush.offset.checkpoint.interval.ms``)."""
        self._checkpoints.write(RECOVERY_POINTS)

    def checkpoint_high_watermarks(self) -> None:
        """``checkpointHighWatermarks`` (``replica.high.watermark.checkpoint.interval.ms``)."""
        self._checkpoints.write(HIGH_WATERMARKS)

    def checkpoint_log_start_offsets(self) -> None:
        """Writes log starts that differ from the name of the first segment
        (``log.flush.start.offset.checkpoint.interval.ms``).
        """
        self._checkpoints.write(LOG_STARTS)

    def keep_log_starts(self) -> None:
        """The same before DeleteRecords is answered, so that a kill does not bring the records back.

        The event loop does not wait for the disk here; the next regular write does.
        """
        self._checkpoints.write(LOG_STARTS, sync=False)

    def checkpoint_cleaner_offsets(self, of: Log) -> None:
        """``updateCheckpoints``: writes up to where the logs in the directory of this one are cleaned."""
        self.cleanings.checkpoint(of)

    def clean_up(self) -> int:
        """``cleanupLogs``: deletes what retention allows (``log.retention.check.interval.ms``); returns the
        segments deleted.

        Compacted logs are left to the cleaner, which must not be reading what is deleted.
        """
        return sum(self.clean_up_log(log) for log in list(self.logs.values()) if not log.config.is_compacted)

    def clean_up_log(self, log: Log) -> int:
        """``deleteOldSegments``: the same for one log."""
        start_offset = log.log_start_offset
        try:
            count, files = delete_old_segments(log, self._clock.time_ms())
        except KafkaError as error:
            _events.warning("retention.failed", partition=log.tp, error=error)
            return 0
        self.remove_files_later(files, log.config.file_delete_delay_ms)
        if log.log_start_offset != start_offset:
            self._on_log_start(log.tp)
        return count

    def remove_files_later(self, paths: Sequence[str], delay_ms: float) -> None:
        """Removes files that no log has from now on, once readers have had the time to let go of them."""
        self._removal.files_later(paths, delay_ms)

    def flush_by_time(self) -> None:
        """``flushDirtyLogs``: syncs logs after ``flush.ms`` (``log.flush.scheduler.interval.ms``)."""
        now_ms = self._clock.time_ms()
        for log in list(self.logs.values()):
            if log.log_end_offset > log.recovery_point and now_ms - log.last_flush_ms >= log.config.flush_ms:
                log.last_flush_ms = now_ms
                log.flush_soon()

    def look_after_files(self) -> None:
        """Takes logs offline whose files were removed (``barnabas.log.files.check.interval.ms``)."""
        self._file_watch.look().when_done(Pending.result)

    def expire_producers(self) -> int:
        """Forgets silent producers (``producer.id.expiration.check.interval.ms``); returns how many."""
        now_ms = self._clock.time_ms()
        return sum(
            log.producers.remove_expired(now_ms, self.producer_expiration_ms) for log in self.logs.values()
        )

    # -- the end -------------------------------------------------------------------------------------

    def shutdown(self, *, clean: bool = True) -> None:
        """Closes all logs; with `clean`, directories without an error get checkpoints and the marker."""
        self._removal.close()
        for directory in self._directories.online():
            logs = self._table.in_directory(directory.path)
            if clean:
                self._close(directory, logs)
            for log in logs:
                log.release()
        self._table.clear()
        self._resources.files.clear()
        self._directories.close()

    def _close(self, directory: LogDirectory, logs: list[Log]) -> None:
        try:
            closed = [log for log in logs if self._close_log(log)]
            for what in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
                self._checkpoints.write_in(directory, what, closed)
            if self._table.unusable:
                # Without recovery points these are scanned from their beginning by the next start, if this
                # stop is not a clean one.
                _events.warning("shutdown.unclean", path=directory.path, damaged=sorted(self._table.unusable))
            else:
                directory.leave_clean_marker()
        except KafkaError as error:
            _events.error("shutdown.unclean", path=directory.path, error=error)
        except OSError as error:
            self._errors.directory_failed(directory, error)

    def _close_log(self, log: Log) -> bool:
        """Closes one log; False when its files are not what they were, which has its line and harms no other
        log.
        """
        try:
            log.close()
        except KafkaError:
            if log.tp not in self._table.unusable:
                raise
        except (FileNotFoundError, *NOT_THE_FILE) as error:
            if not self._errors.set_log_aside(log.directory, error):
                raise
        return log.tp not in self._table.unusable

"""All logs of a broker and the directories they live in (``LogManager``).

Theory of operation
-------------------
`start` locks each directory, checks whose it is, takes the marker of the clean shutdown away and loads the
partitions; what an unclean stop left is recovered first, through `Offload` when there is much of it. While
the broker runs, the node's timers call the maintenance verbs: checkpoints, retention, flushes by time,
expiry of producers, a look after the files of logs. What is renamed to be removed is handed to `Removal`,
strays to `StrayLogs`. `shutdown` closes every log and leaves the marker.

A disk error takes its directory offline: its logs answer KAFKA_STORAGE_ERROR, `on_offline` is called
once, the others go on. Without any directory left the broker cannot serve, which is the node's to decide.
Descriptors that run out, and a disk that is full, are no disk error: what needs some is refused until there are some again.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.descriptors import is_shortage
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.offload import InPlace, Offload
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.log.checkpoints import CLEANED, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, LogCheckpoint
from barnabas.log.config import LogConfig
from barnabas.log.descriptors import DESCRIPTORS_MAX, DescriptorCache, SparingFilesystem
from barnabas.log.directories import LogDirectories
from barnabas.log.directory import LogDirectory, MetaProperties
from barnabas.log.file_watch import FileWatch
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import GroupCommit, InPlaceSyncer, Syncer
from barnabas.log.future_logs import FutureLogPorts, FutureLogs, finish_moves
from barnabas.log.loader import create_log
from barnabas.log.loading import DAMAGE, NOT_THE_FILE, Loading, LogLoader
from barnabas.log.log import Log, LogResources
from barnabas.log.names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    directory_name,
    future_partition_of,
    partition_of,
    retired_name,
    unique_part,
)
from barnabas.log.removal import Removal
from barnabas.log.retention import delete_old_segments
from barnabas.log.retired_names import RetiredNames
from barnabas.log.shortage import is_full, is_passing
from barnabas.log.strays import StrayLog, StrayLogs

CHECKPOINT_AFTER_BYTES: Final = 1 << 28
"""While a start recovers, its recovery points are written whenever so much has been scanned."""
PRODUCER_EXPIRATION_MS: Final = 86_400_000
PREFERRED_MAX: Final = 100_000
"""For so many logs that do not exist yet a directory is remembered; the oldest is forgotten then."""
SHORTAGE_LINE_MS: Final = 60_000
"""How often the log says that descriptors have run out, or that a directory has no room."""

_events: Final = EventLog("log.manager")


class LogManager:
    """The logs by partition."""

    def __init__(
        self,
        directories: Sequence[str],
        *,
        filesystem: Filesystem,
        clock: Clock,
        offload: Offload,
        disk_thread: Offload | None = None,
        log_config: Callable[[str], LogConfig] = lambda _topic: LogConfig(),
        syncer: Syncer | None = None,
        on_offline: Callable[[str], object] = lambda _path: None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        descriptors: int = DESCRIPTORS_MAX * 8,
        recovery_threads: int = 1,
        stray_delete_delay_ms: int = -1,
    ) -> None:
        """`log_config` gives the configuration of a topic by name; `on_offline` is called with a directory's path.

        `disk_thread` makes system calls that may take long and that nobody waits for; without one they are
        made in place.

        `descriptors` is how many the process may have, `recovery_threads` how many logs of a directory are recovered at
        the same time (``num.recovery.threads.per.data.dir``). Strays are deleted after
        `stray_delete_delay_ms`; -1: never.
        """
        self._recovery_threads = recovery_threads
        self._filesystem = filesystem
        self._clock = clock
        self._log_config = log_config
        self._on_offline = on_offline
        self.producer_expiration_ms = producer_expiration_ms
        """How long an idle producer is remembered."""
        self._directories = LogDirectories(filesystem, directories)
        self._logs: dict[TopicPartition, Log] = {}
        self._started = False
        self._unique = 0
        self._next_line_ms: dict[str, float] = {}
        """When the log may say again that there are no descriptors, or that a directory has no room."""
        self._unusable: set[TopicPartition] = set()
        """Partitions whose directories are damaged beyond repair: an empty log must not take their place."""
        self._aside: list[Log] = []
        """Logs that were taken out of service alone: the checkpoints keep what they say of them."""
        self._vanished: dict[TopicPartition, str] = {}
        """Where a checkpoint names a partition with records, of which there is no directory any more."""
        commits = GroupCommit(clock, syncer or InPlaceSyncer())
        sparing = SparingFilesystem(filesystem, self._give_back_descriptors)
        self._resources = LogResources(
            sparing,
            # A part of the descriptors only: the rest is for connections, the store, and what is being sent.
            DescriptorCache(sparing, min(DESCRIPTORS_MAX, descriptors // 8), descriptors // 4),
            commits,
            self._failed,
            disk=filesystem,
            offload=offload,
            on_refused=self._refused,
        )
        self._resources.on_cut = self._cut
        self._loader = LogLoader(filesystem, self._resources, clock, offload, log_config)
        self._removal = Removal(filesystem, clock, disk_thread or InPlace(), self._failed)
        self._strays = StrayLogs(filesystem, clock, self._removal, stray_delete_delay_ms)
        self._file_watch = FileWatch(self._logs, filesystem, disk_thread or InPlace())
        self._names = {each.path: self._names_in(each) for each in self._directories}
        """New names of directories that were taken out of use, by log directory."""
        self.futures = FutureLogs(
            filesystem,
            self._resources,
            clock,
            FutureLogPorts(
                log_config,
                self._checkpoint_directory,
                self._retire_future,
                self._removal.tree_later,
                self._failed,
            ),
        )
        """Logs on their way to another directory."""
        self._preferred: dict[TopicPartition, str] = {}
        """Where logs are to be made that do not exist yet."""
        self.is_cleaning: Callable[[Log], bool] = lambda _log: False
        """Whether a cleaner reads or replaces segments of a log."""
        self.on_cut: Callable[[Log], object] = lambda _log: None
        """Called before records at the end of a log are cut off: the cleaner may be at it."""
        self.on_log_start: Callable[[TopicPartition], object] = lambda _tp: None
        """Called when retention has moved the start of a log."""

    # -- look-up -------------------------------------------------------------------------------------

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return self._logs

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

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

    @property
    def offline_directories(self) -> list[str]:
        """The paths that a disk error took out of service."""
        return [directory.path for directory in self._directories.offline()]

    # -- start ---------------------------------------------------------------------------------------

    def open_directories(self) -> MetaProperties | None:
        """Locks the directories and returns whose they are; None when all are new.

        Raises ConfigError when one is locked, when they disagree, or when none is usable.
        """
        return self._directories.open(self._not_started)

    @steps
    def start(self, *, broker_id: int, cluster_id: str) -> Steps[None]:
        """Locks, checks, recovers and loads everything.

        Fails with ConfigError for directories of another broker or cluster, or locked ones.
        """
        meta = self.open_directories()
        wanted = MetaProperties(cluster_id, broker_id)
        if meta is not None:
            meta.require(wanted)
        try:
            finish_moves(self._filesystem, [each.path for each in self._directories.online()], self._clock)
        except OSError as error:
            _events.error("moves.not_finished", error=error)  # the disk that fails is found by the load
        starts = yield gather([self._start_directory(each, wanted) for each in self._directories.online()])
        for started in starts:
            started.result()
        self._drop_needless_futures()
        self._directories.require_one()
        self._started = True

    @steps
    def _start_directory(self, directory: LogDirectory, wanted: MetaProperties) -> Steps[None]:
        """Makes one directory ready; one that fails goes offline. Fails with ConfigError."""
        try:
            if directory.read_meta() != wanted:
                directory.write_meta(wanted)
            directory.take_clean_marker()
            directory.ensure_checkpoints()
            yield self._load_directory(directory)
        except OSError as error:
            self._not_started(directory, error)

    def _not_started(self, directory: LogDirectory, error: OSError) -> None:
        """A directory that fails goes offline. Raises ConfigError where it is only that there are too few descriptors."""
        if is_shortage(error):
            raise ConfigError(
                f"the limit of open files is too low for the partitions in {directory.path}: raise it"
                f" (ulimit -n) and start again: {error}"
            ) from error
        self._fail(directory, error)

    @steps
    def _load_directory(self, directory: LogDirectory) -> Steps[None]:
        """Loads all its logs, as many at a time as it may use recovery threads. Fails with OSError or ConfigError."""
        loading = Loading(directory, self._clock)
        loading.begin(list(self._partitions_in(directory)))
        lanes = yield gather([self._load_in_turn(loading) for _ in range(self._recovery_threads)])
        for lane in lanes:
            lane.result()
        if loading.recovered_bytes:
            loading.keep_recovered()
        for tp, offset in loading.high_watermarks.items():
            if offset and tp not in self._logs and tp not in self.futures.logs:
                self._vanished[tp] = directory.path

    def _partitions_in(self, directory: LogDirectory) -> Iterator[tuple[str, TopicPartition]]:
        for name in self._filesystem.listdir(directory.path):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_DIRECTORY_SUFFIX):
                self._removal.tree_later(path, self._log_config("").file_delete_delay_ms)
                continue
            if name.endswith(STRAY_DIRECTORY_SUFFIX):
                self._strays.found(path)
                continue
            tp = future_partition_of(name) or partition_of(name)
            if tp is None:
                continue
            if self._filesystem.is_directory(path):
                yield path, tp

    @steps
    def _load_in_turn(self, loading: Loading) -> Steps[None]:
        """Loads one log after the other, until none is left that nothing has begun with."""
        try:
            while loading.waiting:
                path, tp = loading.waiting.popleft()
                try:
                    log = yield self._loader.load(loading, tp, path)
                except DAMAGE as error:
                    # One partition that cannot be read must not keep all the others from being served.
                    self._set_aside(tp, path, error)
                else:
                    self._take_loaded(loading, log)
                loading.one_done()
        except BaseException:
            loading.waiting.clear()  # the start fails: what runs beside this is the last
            raise

    def _take_loaded(self, loading: Loading, log: Log) -> None:
        tp = log.tp
        if log.directory.endswith(FUTURE_DIRECTORY_SUFFIX):
            self._take_future(loading, log)
            return
        if tp in self._logs:
            raise ConfigError(
                f"Duplicate log directories for {tp}: {self._logs[tp].directory} and {log.directory}"
            )
        self._take_high_watermark(log, loading.high_watermarks.get(tp, log.log_start_offset))
        log.first_dirty_offset = self._clean_part(log, loading.cleaned.get(tp, 0))
        self._logs[tp] = log
        loading.recovery_points[tp] = log.recovery_point
        if loading.recovered_bytes >= CHECKPOINT_AFTER_BYTES:
            loading.keep_recovered()

    def _take_future(self, loading: Loading, log: Log) -> None:
        if not loading.directory.clean:
            # Its beginning may be missing, too: only what was synced is surely a copy of the current log.
            log.truncate_to(loading.recovery_points.get(log.tp, 0))
        log.high_watermark = loading.high_watermarks.get(log.tp, log.log_start_offset)
        self.futures.delete(log.tp)  # of two, one is as good as the other
        self.futures.logs[log.tp] = log
        loading.recovery_points[log.tp] = log.recovery_point

    def _drop_needless_futures(self) -> None:
        """Gives up the future logs of partitions that are where they were to go: somebody has moved their directories."""
        for tp, future in list(self.futures.logs.items()):
            log = self._logs.get(tp)
            if log is None or self._parent(log) is not self._parent(future):
                continue
            _events.warning("move.needless", partition=tp, directory=log.directory, future=future.directory)
            with contextlib.suppress(KafkaError):  # then its directory is offline
                self.futures.delete(tp)

    def _parent(self, log: Log) -> LogDirectory | None:
        return self._directories.above(log.directory)

    def _take_high_watermark(self, log: Log, checkpoint: int) -> None:
        """Sets it, and says what is missing: records up to the high watermark had been acknowledged."""
        if checkpoint > log.log_end_offset:
            _events.warning(
                "log.lost_end",
                partition=log.tp,
                log_end_offset=log.log_end_offset,
                high_watermark=checkpoint,
                lost_offsets=checkpoint - log.log_end_offset,
            )
        log.high_watermark = checkpoint

    @staticmethod
    def _clean_part(log: Log, checkpoint: int) -> int:
        """Up to where the log is clean. A checkpoint beyond the end of the log does not count: it is of
        records that were lost, and others will have their offsets.
        """
        if checkpoint <= log.log_end_offset:
            return checkpoint
        _events.warning(
            "cleaner.checkpoint_invalid",
            partition=log.tp,
            first_dirty_offset=checkpoint,
            log_end_offset=log.log_end_offset,
        )
        return 0

    def _set_aside(self, tp: TopicPartition, path: str, error: Exception) -> None:
        """Takes this partition out of service; the others go on. Of a future log only what was copied is lost."""
        if path.endswith(FUTURE_DIRECTORY_SUFFIX):
            _events.warning("log.future_unusable", partition=tp, directory=path, error=error)
            self._removal.tree_later(path, 0)
            return
        _events.error(
            "log.unusable",
            partition=tp,
            directory=path,
            error=error,
            mend="restore the directory or move it away, then restart the broker",
        )
        self._unusable.add(tp)

    # -- creation and deletion -----------------------------------------------------------------------

    def get_or_create(self, tp: TopicPartition, topic_id: Uuid | None = None, *, is_new: bool = False) -> Log:
        """``getOrCreateLog``: the partition's log, made in the directory with the fewest logs if there is none.

        Raises KAFKA_STORAGE_ERROR when a directory is offline that may hold it (`is_new` says that no
        broker has ever had it), INCONSISTENT_TOPIC_ID when it is another topic's, REPLICA_NOT_AVAILABLE while there is
        no room or no descriptor for it.
        """
        log = self._logs.get(tp)
        if log is None:
            log = self._create(tp, is_new=is_new)
        if topic_id is not None:
            try:
                log.assign_topic_id(topic_id)
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR and not log.offline:
                    raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, str(error)) from error
                raise
        return log

    def _create(self, tp: TopicPartition, *, is_new: bool) -> Log:
        offline = self.offline_directories
        if offline and not is_new:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {tp} because log directories {','.join(offline)} are offline",
            )
        if tp in self._unusable:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory of {tp} is damaged")
        if (lost_from := self._vanished.pop(tp, None)) is not None and not is_new:
            _events.warning("log.vanished", partition=tp, directory=f"{lost_from}/{directory_name(tp)}")
        refused: OSError | None = None
        for directory in self._candidates(tp):
            path = f"{directory.path}/{directory_name(tp)}"
            was_there = self._filesystem.exists(path)
            try:
                log = create_log(tp, path, self._log_config(tp.topic), self._resources, self._clock.time_ms())
            except (*DAMAGE, FileExistsError) as error:
                self._set_aside(tp, path, error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot use {path}: {error}") from error
            except OSError as error:
                self._take_offline(directory, error)
                if not is_passing(error):
                    continue
                refused = error
                if is_shortage(error):
                    break
                if not was_there:
                    # Of two directories with the same partition the next start would load neither.
                    self._filesystem.remove_tree(path)
            else:
                self._logs[tp] = log
                self._preferred.pop(tp, None)
                if lost_from is not None:
                    self._checkpoint(CLEANED, only=lost_from)  # what has vanished was clean, this one is not
                return log
        if refused is not None:
            # Nothing is broken: the role is taken later.
            missing = "room" if is_full(refused) else "file descriptor"
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"No {missing} is left to create {tp}: {refused}"
            ) from refused
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"No log directories available. Tried {self.offline_directories}"
        )

    def prefer(self, tp: TopicPartition, directory: str) -> None:
        """``maybeUpdatePreferredLogDir``: a log that does not exist yet is to be made in this directory."""
        log = self._logs.get(tp)
        if log is None or _parent(log) != directory:
            self._preferred[tp] = directory
            if len(self._preferred) > PREFERRED_MAX:
                # Clients may name partitions that will never be here.
                del self._preferred[next(iter(self._preferred))]

    def _candidates(self, tp: TopicPartition) -> list[LogDirectory]:
        preferred = self._preferred.get(tp)
        if preferred is None:
            return self._by_load()
        return [directory for directory in self._directories.online() if directory.path == preferred]

    def create_future(self, tp: TopicPartition, directory: str) -> Log:
        """Begins a future log for the current one in this log directory. Raises KAFKA_STORAGE_ERROR."""
        if offline := self.offline_directories:
            # The partition may have a future log there (``getOrCreateLog``).
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {tp} because log directories {','.join(offline)} are offline",
            )
        current = self._logs[tp]
        self.futures.forget_move(current)
        return self.futures.create(tp, directory, current.topic_id, self._next_unique())

    def _by_load(self) -> list[LogDirectory]:
        online = self._directories.online()
        if len(online) == 1:
            return online  # thousands of partitions at once must not each count all the others
        counts = {directory.path: 0 for directory in online}
        for log in self._logs.values():
            counts[_parent(log)] += 1
        return sorted(online, key=lambda directory: counts[directory.path])

    def delete(self, tp: TopicPartition) -> Pending[None]:
        """``asyncDelete``: removes a partition: renamed at once, gone from the disk after ``file.delete.delay.ms``.

        Done when a loss of power does not bring it back; partitions that are deleted together share that
        Pending. Raises, or fails with, KAFKA_STORAGE_ERROR.
        """
        self.futures.delete(tp)
        return self._retire(tp, DELETE_DIRECTORY_SUFFIX)

    def mark_stray(self, tp: TopicPartition) -> Pending[None]:
        """``asyncDelete`` of a stray: sets a replica aside that is no longer this broker's.

        Raises KAFKA_STORAGE_ERROR.
        """
        self.futures.delete(tp)
        return self._retire(tp, STRAY_DIRECTORY_SUFFIX)

    def _retire(self, tp: TopicPartition, suffix: str) -> Pending[None]:
        log = self._logs.pop(tp, None)
        return Pending.of(None) if log is None else self._retire_log(log, suffix)

    def _retire_future(self, log: Log) -> None:
        self._retire_log(log, DELETE_DIRECTORY_SUFFIX)

    def _names_in(self, directory: LogDirectory) -> RetiredNames:
        return RetiredNames(
            directory,
            self._filesystem,
            forget_cleaned=lambda: self._checkpoint(CLEANED, only=directory.path),
            failed=self._failed,
        )

    def _retire_log(self, log: Log, suffix: str) -> Pending[None]:
        size = log.size
        log.release()
        tp, parent = log.tp, _parent(log)
        target = f"{parent}/{retired_name(tp, self._next_unique(), suffix)}"
        try:
            self._filesystem.rename(log.directory, target)
        except OSError as error:
            self._failed(log.directory, error)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot retire {log.directory}: {error}"
            ) from error
        if suffix == DELETE_DIRECTORY_SUFFIX:
            self._removal.tree_later(target, log.config.file_delete_delay_ms)
        else:
            self._strays.add(tp, target, size)
        return self._names[parent].durable(self._resources.commits, was_cleaned=log.first_dirty_offset > 0)

    def _next_unique(self) -> str:
        """The part of a directory's name that no other one has."""
        self._unique += 1
        return unique_part(self._clock.time_ms(), self._unique)

    # -- configuration -------------------------------------------------------------------------------

    def reconfigure(self, topic: str) -> None:
        """``updateTopicConfig``: gives the logs of a topic its new configuration."""
        config = self._log_config(topic)
        for logs in (self._logs, self.futures.logs):
            for tp, log in logs.items():
                if tp.topic == topic:
                    log.config = config

    # -- maintenance, called by timers ---------------------------------------------------------------

    def checkpoint_recovery_points(self) -> None:
        """``checkpointLogRecoveryOffsets``: what is synced (``log.flush.offset.checkpoint.interval.ms``)."""
        self._checkpoint(RECOVERY_POINTS)

    def checkpoint_high_watermarks(self) -> None:
        """``checkpointHighWatermarks`` (``replica.high.watermark.checkpoint.interval.ms``)."""
        self._checkpoint(HIGH_WATERMARKS)

    def checkpoint_log_start_offsets(self) -> None:
        """Writes log starts that differ from the name of the first segment (``log.flush.start.offset.checkpoint.interval.ms``)."""
        self._checkpoint(LOG_STARTS)

    def keep_log_starts(self) -> None:
        """The same before DeleteRecords is answered, so that a kill does not bring the records back.

        The event loop does not wait for the disk here; the next regular write does.
        """
        self._checkpoint(LOG_STARTS, sync=False)

    def _checkpoint(self, what: LogCheckpoint, *, only: str | None = None, sync: bool = True) -> None:
        for directory in self._directories.online():
            if only in (None, directory.path):
                try:
                    logs = [*self._logs_in(directory), *self._aside_in(directory)]
                    what.write(directory, logs, sync=sync)
                except OSError as error:
                    self._take_offline(directory, error)

    def _logs_in(self, directory: LogDirectory) -> list[Log]:
        """The current and the future logs in a directory (``logsInDir``)."""
        everything = (*self.futures.logs.values(), *self._logs.values())
        return [log for log in everything if _parent(log) == directory.path]

    def _aside_in(self, directory: LogDirectory) -> list[Log]:
        return [log for log in self._aside if _parent(log) == directory.path]

    def _checkpoint_directory(self, path: str) -> None:
        """Writes all checkpoints of one directory: a log has come to it, or gone."""
        for what in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED):
            self._checkpoint(what, only=path)

    def checkpoint_cleaner_offsets(self, of: Log) -> None:
        """``updateCheckpoints``: writes up to where the logs in the directory of this one are cleaned."""
        self._checkpoint(CLEANED, only=_parent(of))

    def clean_up(self) -> int:
        """``cleanupLogs``: deletes what retention allows (``log.retention.check.interval.ms``); returns the segments deleted.

        Compacted logs are left to the cleaner, which must not be reading what is deleted.
        """
        return sum(self.clean_up_log(log) for log in list(self._logs.values()) if not log.config.is_compacted)

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
            self.on_log_start(log.tp)
        return count

    def remove_files_later(self, paths: Sequence[str], delay_ms: float) -> None:
        """Removes files that are no log's any more, once readers have had the time to let go of them."""
        self._removal.files_later(paths, delay_ms)

    def flush_by_time(self) -> None:
        """``flushDirtyLogs``: syncs logs whose ``flush.ms`` has passed (``log.flush.scheduler.interval.ms``)."""
        now_ms = self._clock.time_ms()
        for log in list(self._logs.values()):
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
            log.producers.remove_expired(now_ms, self.producer_expiration_ms) for log in self._logs.values()
        )

    # -- the end -------------------------------------------------------------------------------------

    def shutdown(self, *, clean: bool = True) -> None:
        """Closes all logs; with `clean`, directories without an error get checkpoints and the marker."""
        self._removal.close()
        for directory in self._directories.online():
            logs = self._logs_in(directory)
            if clean:
                self._close(directory, logs)
            for log in logs:
                log.release()
        self._logs.clear()
        self.futures.logs.clear()
        self._resources.files.clear()
        self._directories.close()

    def _close(self, directory: LogDirectory, logs: list[Log]) -> None:
        try:
            logs = [log for log in logs if self._close_log(log)] + self._aside_in(directory)
            for what in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
                what.write(directory, logs)
            if self._unusable:
                # Without recovery points these are scanned from their beginning by the next start, if this stop is not a clean one.
                _events.warning("shutdown.unclean", path=directory.path, damaged=sorted(self._unusable))
            else:
                directory.leave_clean_marker()
        except KafkaError as error:
            _events.error("shutdown.unclean", path=directory.path, error=error)
        except OSError as error:
            self._take_offline(directory, error)

    def _close_log(self, log: Log) -> bool:
        """Closes one log; False when its files are not what they were, which has its line and harms no other log."""
        try:
            log.close()
        except KafkaError:
            if log.tp not in self._unusable:
                raise
        except (FileNotFoundError, *NOT_THE_FILE) as error:
            if not self._set_log_aside(log.directory, error):
                raise
        return log.tp not in self._unusable

    def _cut(self, log: Log, is_dirtier: bool) -> None:
        """``maybeTruncateCheckpoint``."""
        self.on_cut(log)
        if is_dirtier:
            self.checkpoint_cleaner_offsets(log)

    # -- disk errors ---------------------------------------------------------------------------------

    def _failed(self, path: str, error: OSError) -> None:
        """``handleLogDirFailure``: a log's disk failed, so its whole directory goes. A file that is missing takes only its own partition offline."""
        # An error without a number is our own: a file is shorter than it was. And a full disk has failed this log only.
        files = isinstance(error, (FileNotFoundError, *NOT_THE_FILE)) or error.errno is None or is_full(error)
        if files and self._set_log_aside(path, error):
            return
        directory = self._directories.above(path)
        if directory is not None:
            self._take_offline(directory, error)

    def _refused(self, path: str, error: OSError) -> None:
        """Something below this path was refused for want of descriptors or of room."""
        if is_shortage(error):
            self._give_back_descriptors(error)
            return
        directory = self._directories.above(path)
        full = directory.path if directory is not None else path
        if self._may_say(full):
            _events.error(
                "directory.full",
                path=full,
                error=error,
                meaning="new records are refused until there is room, what is there is served",
            )

    def _give_back_descriptors(self, error: OSError) -> None:
        """Closes all files that can be opened again; at most one line a while says so."""
        if self._may_say("descriptors"):
            _events.warning(
                "descriptors.short", error=error, mend="raise the limit of open files (ulimit -n)"
            )
        self._resources.files.clear()

    def _may_say(self, what: str) -> bool:
        """Whether the last line about it is a while ago."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_line_ms.get(what, now_ms):
            return False
        self._next_line_ms[what] = now_ms + SHORTAGE_LINE_MS
        return True

    def _set_log_aside(self, path: str, error: OSError) -> bool:
        """Takes the log in this directory out of service; False when there is none, or all of its disk is gone."""
        log = next((log for log in self._logs.values() if log.directory == path), None)
        if log is None or not self._filesystem.exists(_parent(log)):
            return False
        log.release()
        del self._logs[log.tp]
        self._aside.append(log)
        self._set_aside(log.tp, path, error)
        self._on_offline(path)
        return True

    def _take_offline(self, directory: LogDirectory, error: OSError) -> None:
        if is_passing(error):
            self._refused(directory.path, error)
        else:
            self._fail(directory, error)

    def _fail(self, directory: LogDirectory, error: OSError) -> None:
        directory.go_offline(error)
        if self._started or self._directories.online():  # else the start fails, and says why
            _events.error("directory.offline", path=directory.path, error=error)
        for logs in (self._logs, self.futures.logs):
            for tp, log in list(logs.items()):
                if _parent(log) == directory.path:
                    log.release()
                    del logs[tp]
        self._on_offline(directory.path)


def _parent(log: Log) -> str:
    return log.directory.rpartition("/")[0]

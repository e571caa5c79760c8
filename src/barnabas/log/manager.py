"""All logs of a broker and the directories they live in (``LogManager``).

Theory of operation
-------------------
`start` locks each directory, checks whose it is, takes the marker of the clean shutdown away and loads the
partitions; what an unclean stop left is recovered first, through `Offload` when there is much of it. While
the broker runs, the node's timers call the maintenance verbs: checkpoints, retention, flushes by time,
expiry of producers, removal of what was renamed. `shutdown` closes every log and leaves the marker.

A disk error takes its directory offline: its logs answer KAFKA_STORAGE_ERROR, `on_offline` is called
once, the others go on. Without any directory left the broker cannot serve, which is the node's to decide.
Descriptors that run out are no disk error: what needs one is refused until there are some again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from barnabas.core.clock import Clock
from barnabas.core.config import LONG_MAX
from barnabas.core.descriptors import is_shortage
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.offload import InPlace, Offload
from barnabas.core.pending import Pending, Steps, steps
from barnabas.log.checkpoint import CheckpointError, OffsetCheckpoint
from barnabas.log.config import LogConfig
from barnabas.log.descriptors import DESCRIPTORS_MAX, DescriptorCache, SparingFilesystem
from barnabas.log.directory import LogDirectory, MetaProperties
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import GroupCommit, InPlaceSyncer, Syncer
from barnabas.log.leftovers import tidy
from barnabas.log.loader import create_log, load_log
from barnabas.log.log import Log, LogResources
from barnabas.log.names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    directory_name,
    partition_of,
    retired_name,
)
from barnabas.log.partition_metadata import PartitionMetadataError
from barnabas.log.recovery import (
    base_offsets,
    bytes_of,
    drop_torn_files,
    recover_log,
    segments_to_recover,
)
from barnabas.log.retention import delete_old_segments
from barnabas.log.scan import IN_PLACE_SCAN_BYTES

CHECKPOINT_AFTER_BYTES: Final = 1 << 28
"""While a start recovers, its recovery points are written whenever so much has been scanned."""
PRODUCER_EXPIRATION_MS: Final = 86_400_000
SHORTAGE_LINE_MS: Final = 60_000
"""How often the log says that descriptors have run out."""

_NOT_THE_FILE: Final = (IsADirectoryError, NotADirectoryError, PermissionError)
"""What a file raises that is something else than it should be; a broken disk says EIO."""
_DAMAGE: Final = (KafkaError, CheckpointError, PartitionMetadataError, *_NOT_THE_FILE)
"""What files raise that hold something else than they should."""

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
        log_config: Callable[[str], LogConfig] = lambda _topic: LogConfig(),
        syncer: Syncer | None = None,
        on_offline: Callable[[str], object] = lambda _path: None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        descriptors: int = DESCRIPTORS_MAX * 8,
    ) -> None:
        """`log_config` gives the configuration of a topic by name; `on_offline` is called with a directory's path.

        `descriptors` is how many the process may have.
        """
        self._filesystem = filesystem
        self._clock = clock
        self._offload = offload
        self._log_config = log_config
        self._on_offline = on_offline
        self._producer_expiration_ms = producer_expiration_ms
        self._directories = [LogDirectory(filesystem, path.rstrip("/")) for path in directories]
        self._logs: dict[TopicPartition, Log] = {}
        self._started = False
        self._unique = 0
        self._shortage_line_ms = -float(SHORTAGE_LINE_MS)
        self._unusable: set[TopicPartition] = set()
        """Partitions whose directories are damaged beyond repair: an empty log must not take their place."""
        self._vanished: dict[TopicPartition, str] = {}
        """Where a checkpoint names a partition with records, of which there is no directory any more."""
        self._recovered_bytes = 0
        """Bytes that recovery has scanned since the recovery points were written."""
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
            on_shortage=self._give_back_descriptors,
        )

    # -- look-up -------------------------------------------------------------------------------------

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return self._logs

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    @property
    def online_directories(self) -> list[str]:
        """The paths that serve."""
        return [directory.path for directory in self._directories if not directory.offline]

    @property
    def offline_directories(self) -> list[str]:
        """The paths that a disk error took out of service."""
        return [directory.path for directory in self._directories if directory.offline]

    # -- start ---------------------------------------------------------------------------------------

    def open_directories(self) -> MetaProperties | None:
        """Locks the directories and returns whose they are; None when all are new.

        Raises ConfigError when one is locked, when they disagree, or when none is usable.
        """
        found: dict[MetaProperties, str] = {}
        for directory in self._online():
            try:
                directory.open()
                meta = directory.read_meta()
            except OSError as error:
                self._take_offline(directory, error)
            else:
                if meta is not None:
                    found[meta] = directory.path
        self._require_one()
        if len(found) > 1:
            raise ConfigError(f"The log dirs belong to different brokers or clusters: {found}")
        return next(iter(found), None)

    @steps
    def start(self, *, broker_id: int, cluster_id: str) -> Steps[None]:
        """Locks, checks, recovers and loads everything.

        Fails with ConfigError for directories of another broker or cluster, or locked ones.
        """
        meta = self.open_directories()
        wanted = MetaProperties(cluster_id, broker_id)
        if meta is not None:
            _check_identity(meta, wanted)
        for directory in self._online():
            try:
                if directory.read_meta() != wanted:
                    directory.write_meta(wanted)
                directory.take_clean_marker()
                directory.ensure_checkpoints()
                yield self._load_directory(directory)
            except OSError as error:
                if is_shortage(error):
                    raise ConfigError(
                        f"the limit of open files is too low for the partitions in {directory.path}: raise it"
                        f" (ulimit -n) and start again: {error}"
                    ) from error
                self._take_offline(directory, error)
        self._require_one()
        self._started = True

    def _require_one(self) -> None:
        """Raises ConfigError when no directory is left that could be used."""
        if self._online():
            return
        reasons = ", ".join(
            f"{directory.path} ({_reason(directory.failure)})" for directory in self._directories
        )
        raise ConfigError(
            f"Shutdown broker because none of the specified log dirs can be created or used: {reasons}: free space, give this user access, or name other "
            "directories in log.dirs"
        )

    @steps
    def _load_directory(self, directory: LogDirectory) -> Steps[None]:
        recovery_points = _read_checkpoint(directory.recovery_points)
        log_starts = _read_checkpoint(directory.log_start_offsets)
        high_watermarks = _read_checkpoint(directory.high_watermarks)
        for name in self._filesystem.listdir(directory.path):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_DIRECTORY_SUFFIX):
                self._remove_later(path, self._log_config("").file_delete_delay_ms)
                continue
            tp = partition_of(name)
            if tp is None or name.endswith((STRAY_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX)):
                continue
            if not self._filesystem.is_directory(path):
                continue
            log = yield self._load(
                directory, tp, recovery_point=recovery_points.get(tp, 0), log_start=log_starts.get(tp, 0)
            )
            if log is None:
                continue
            if tp in self._logs:
                raise ConfigError(
                    f"Duplicate log directories for {tp}: {self._logs[tp].directory} and {path}"
                )
            self._take_high_watermark(log, high_watermarks.get(tp, log.log_start_offset))
            self._logs[tp] = log
            recovery_points[tp] = log.recovery_point
            if self._recovered_bytes >= CHECKPOINT_AFTER_BYTES:
                self._keep_recovered(directory, recovery_points)
        if self._recovered_bytes:
            self._keep_recovered(directory, recovery_points)
        for tp, offset in high_watermarks.items():
            if offset and tp not in self._logs:
                self._vanished[tp] = directory.path

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

    def _keep_recovered(self, directory: LogDirectory, recovery_points: Mapping[TopicPartition, int]) -> None:
        """Writes what has been scanned and synced, so that no later start scans it again. Raises OSError.

        A broker that is killed over and over would else do all of it each time: the timer that writes these
        points comes half a minute after the start. Partitions that are not loaded yet keep what they had.
        """
        directory.recovery_points.write(recovery_points)
        self._recovered_bytes = 0

    @steps
    def _load(
        self, directory: LogDirectory, tp: TopicPartition, *, recovery_point: int, log_start: int
    ) -> Steps[Log | None]:
        """The partition's log, recovered if need be; None if it cannot be repaired."""
        path = f"{directory.path}/{directory_name(tp)}"
        config = self._log_config(tp.topic)
        try:
            tidy(self._filesystem, path)
            targets = segments_to_recover(
                self._filesystem, path, clean=directory.clean, recovery_point=recovery_point
            )
            if targets:
                yield self._recover(path, tp, targets, config, clean=directory.clean, log_start=log_start)
            if targets or directory.clean:
                recovery_point = LONG_MAX
            return self._load_log(tp, path, config, log_start=log_start, recovery_point=recovery_point)
        except _DAMAGE as error:
            # What was closed cleanly has been damaged since: nothing is taken on trust then.
            _events.warning("log.damaged", partition=tp, directory=path, error=error)
        try:
            drop_torn_files(self._filesystem, path)
            everything = base_offsets(self._filesystem, path)
            if everything:
                yield self._recover(path, tp, everything, config, clean=directory.clean, log_start=log_start)
            return self._load_log(tp, path, config, log_start=log_start, recovery_point=LONG_MAX)
        except _DAMAGE as error:
            # One partition that cannot be read must not keep all the others from being served.
            self._set_aside(tp, path, error)
        return None

    def _set_aside(self, tp: TopicPartition, path: str, error: Exception) -> None:
        """Takes this partition out of service; the others go on."""
        _events.error(
            "log.unusable",
            partition=tp,
            directory=path,
            error=error,
            mend="restore the directory or move it away, then restart the broker",
        )
        self._unusable.add(tp)

    def _load_log(
        self, tp: TopicPartition, path: str, config: LogConfig, *, log_start: int, recovery_point: int
    ) -> Log:
        return load_log(
            tp,
            path,
            config,
            self._resources,
            now_ms=self._clock.time_ms(),
            log_start_offset=log_start,
            recovery_point=recovery_point,
        )

    def _recover(
        self,
        path: str,
        tp: TopicPartition,
        targets: list[int],
        config: LogConfig,
        *,
        clean: bool,
        log_start: int,
    ) -> Pending[Any]:
        size = bytes_of(self._filesystem, path, targets)
        _events.info("log.recovering", partition=tp, segments=len(targets), size_bytes=size)
        self._recovered_bytes += max(1, size)
        run: Offload = self._offload if size > IN_PLACE_SCAN_BYTES else InPlace()
        return run.run(
            recover_log,
            self._filesystem,
            path,
            tp,
            targets=targets,
            clean=clean,
            index_interval_bytes=config.index_interval_bytes,
            log_start_offset=log_start,
        )

    # -- creation and deletion -----------------------------------------------------------------------

    def get_or_create(self, tp: TopicPartition, topic_id: Uuid | None = None, *, is_new: bool = False) -> Log:
        """``getOrCreateLog``: the partition's log, made in the directory with the fewest logs if there is none.

        Raises KAFKA_STORAGE_ERROR when a directory is offline that may hold it (`is_new` says that no
        broker has ever had it), INCONSISTENT_TOPIC_ID when it is another topic's.
        """
        log = self._logs.get(tp)
        if log is None:
            log = self._create(tp, is_new=is_new)
        if topic_id is not None:
            log.assign_topic_id(topic_id)
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
        for directory in self._by_load():
            path = f"{directory.path}/{directory_name(tp)}"
            try:
                log = create_log(tp, path, self._log_config(tp.topic), self._resources, self._clock.time_ms())
            except (*_DAMAGE, FileExistsError) as error:
                self._set_aside(tp, path, error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot use {path}: {error}") from error
            except OSError as error:
                if is_shortage(error):
                    # Nothing is broken: the role is taken later.
                    raise KafkaError(
                        ErrorCode.REPLICA_NOT_AVAILABLE,
                        f"No file descriptor is left to create {path}: {error}",
                    ) from error
                self._take_offline(directory, error)
            else:
                self._logs[tp] = log
                return log
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"No log directories available. Tried {self.offline_directories}"
        )

    def _by_load(self) -> list[LogDirectory]:
        online = list(self._online())
        if len(online) == 1:
            return online  # thousands of partitions at once must not each count all the others
        counts = {directory.path: 0 for directory in online}
        for log in self._logs.values():
            counts[_parent(log)] += 1
        return sorted(online, key=lambda directory: counts[directory.path])

    def delete(self, tp: TopicPartition) -> None:
        """``asyncDelete``: removes a partition: renamed at once, gone from the disk after ``file.delete.delay.ms``.

        Raises KAFKA_STORAGE_ERROR.
        """
        self._retire(tp, DELETE_DIRECTORY_SUFFIX)

    def mark_stray(self, tp: TopicPartition) -> None:
        """``addStrayLog``: sets a partition aside that no topic owns; it is kept under ``-stray`` for the operator."""
        self._retire(tp, STRAY_DIRECTORY_SUFFIX)

    def _retire(self, tp: TopicPartition, suffix: str) -> None:
        log = self._logs.pop(tp, None)
        if log is None:
            return
        log.release()
        parent = _parent(log)
        self._unique += 1
        unique = f"{self._clock.time_ms():016x}{self._unique:016x}"
        target = f"{parent}/{retired_name(tp, unique, suffix)}"
        try:
            self._filesystem.rename(log.directory, target)
            self._resources.filesystem.sync_directory(parent)
        except OSError as error:
            self._failed(log.directory, error)
            # Without a descriptor the new name is there but not durable: a loss of power may bring a stray back.
            if not is_shortage(error):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot retire {log.directory}: {error}"
                ) from error
        if suffix == DELETE_DIRECTORY_SUFFIX:
            self._remove_later(target, log.config.file_delete_delay_ms)

    def _remove_later(self, path: str, delay_ms: float) -> None:
        self._clock.call_later(delay_ms, lambda: self._remove(path))

    def _remove(self, path: str) -> None:
        try:
            self._resources.filesystem.remove_tree(path)
        except OSError as error:
            if is_shortage(error):
                self._remove_later(path, SHORTAGE_LINE_MS)
            else:
                self._failed(path, error)

    # -- configuration -------------------------------------------------------------------------------

    def reconfigure(self, topic: str) -> None:
        """``updateTopicConfig``: gives the logs of a topic its new configuration."""
        config = self._log_config(topic)
        for tp, log in self._logs.items():
            if tp.topic == topic:
                log.config = config

    # -- maintenance, called by timers ---------------------------------------------------------------

    def checkpoint_recovery_points(self) -> None:
        """``checkpointLogRecoveryOffsets``: what is synced (``log.flush.offset.checkpoint.interval.ms``)."""
        self._checkpoint(lambda directory: directory.recovery_points, lambda log: log.recovery_point)

    def checkpoint_high_watermarks(self) -> None:
        """``checkpointHighWatermarks`` (``replica.high.watermark.checkpoint.interval.ms``)."""
        self._checkpoint(lambda directory: directory.high_watermarks, lambda log: log.high_watermark)

    def checkpoint_log_start_offsets(self) -> None:
        """Writes log starts that differ from the name of the first segment (``log.flush.start.offset.checkpoint.interval.ms``)."""

        def hidden(log: Log) -> int | None:
            start = log.log_start_offset
            return start if start > log.segments[0].base_offset else None

        self._checkpoint(lambda directory: directory.log_start_offsets, hidden)

    def _checkpoint(
        self, file_of: Callable[[LogDirectory], OffsetCheckpoint], value_of: Callable[[Log], int | None]
    ) -> None:
        for directory in self._online():
            values = {tp: value_of(log) for tp, log in self._logs.items() if _parent(log) == directory.path}
            try:
                file_of(directory).write({tp: value for tp, value in values.items() if value is not None})
            except OSError as error:
                self._take_offline(directory, error)

    def clean_up(self) -> int:
        """``cleanupLogs``: deletes what retention allows (``log.retention.check.interval.ms``); returns the segments deleted."""
        deleted = 0
        for log in list(self._logs.values()):
            if not log.config.is_compacted or log.config.deletes:
                deleted += self._clean_up_log(log)
        return deleted

    def _clean_up_log(self, log: Log) -> int:
        try:
            count, files = delete_old_segments(log, self._clock.time_ms())
        except KafkaError as error:
            _events.warning("retention.failed", partition=log.tp, error=error)
            return 0
        if files:
            self._clock.call_later(log.config.file_delete_delay_ms, lambda: self._remove_files(files))
        return count

    def _remove_files(self, paths: Sequence[str]) -> None:
        for path in paths:
            try:
                self._filesystem.remove(path)
            except OSError as error:
                self._failed(path, error)
                return

    def flush_by_time(self) -> None:
        """``flushDirtyLogs``: syncs logs whose ``flush.ms`` has passed (``log.flush.scheduler.interval.ms``)."""
        now_ms = self._clock.time_ms()
        for log in list(self._logs.values()):
            if log.log_end_offset > log.recovery_point and now_ms - log.last_flush_ms >= log.config.flush_ms:
                log.last_flush_ms = now_ms
                log.flush_soon()

    def expire_producers(self) -> int:
        """Forgets silent producers (``producer.id.expiration.check.interval.ms``); returns how many."""
        now_ms = self._clock.time_ms()
        return sum(
            log.producers.remove_expired(now_ms, self._producer_expiration_ms) for log in self._logs.values()
        )

    # -- the end -------------------------------------------------------------------------------------

    def shutdown(self, *, clean: bool = True) -> None:
        """Closes all logs; with `clean`, directories without an error get checkpoints and the marker."""
        for directory in self._online():
            logs = [log for log in self._logs.values() if _parent(log) == directory.path]
            if clean:
                self._close(directory, logs)
            for log in logs:
                log.release()
        self._logs.clear()
        self._resources.files.clear()
        for directory in self._directories:
            directory.close()

    def _close(self, directory: LogDirectory, logs: list[Log]) -> None:
        try:
            logs = [log for log in logs if self._close_log(log)]
            directory.recovery_points.write({log.tp: log.recovery_point for log in logs})
            directory.high_watermarks.write({log.tp: log.high_watermark for log in logs})
            hidden = [log for log in logs if log.log_start_offset > log.segments[0].base_offset]
            directory.log_start_offsets.write({log.tp: log.log_start_offset for log in hidden})
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
        except (FileNotFoundError, *_NOT_THE_FILE) as error:
            if not self._set_log_aside(log.directory, error):
                raise
        return log.tp not in self._unusable

    # -- disk errors ---------------------------------------------------------------------------------

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if not directory.offline]

    def _failed(self, path: str, error: OSError) -> None:
        """``handleLogDirFailure``: a log's disk failed, so its whole directory goes. A file that is missing takes only its own partition offline."""
        # An error without a number is our own: a file is shorter than it was.
        files = isinstance(error, (FileNotFoundError, *_NOT_THE_FILE)) or error.errno is None
        if files and self._set_log_aside(path, error):
            return
        for directory in self._online():
            if path == directory.path or path.startswith(f"{directory.path}/"):
                self._take_offline(directory, error)

    def _give_back_descriptors(self, error: OSError) -> None:
        """Closes all files that can be opened again; at most one line a while says so."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._shortage_line_ms >= SHORTAGE_LINE_MS:
            self._shortage_line_ms = now_ms
            _events.warning(
                "descriptors.short", error=error, mend="raise the limit of open files (ulimit -n)"
            )
        self._resources.files.clear()

    def _set_log_aside(self, path: str, error: OSError) -> bool:
        """Takes the log in this directory out of service; False when there is none, or all of its disk is gone."""
        log = next((log for log in self._logs.values() if log.directory == path), None)
        if log is None or not self._filesystem.exists(_parent(log)):
            return False
        log.release()
        del self._logs[log.tp]
        self._set_aside(log.tp, path, error)
        self._on_offline(path)
        return True

    def _take_offline(self, directory: LogDirectory, error: OSError) -> None:
        if is_shortage(error):
            self._give_back_descriptors(error)
            return
        directory.go_offline(error)
        if self._started or self._online():  # else the start fails, and says why
            _events.error("directory.offline", path=directory.path, error=error)
        for tp, log in list(self._logs.items()):
            if _parent(log) == directory.path:
                log.release()
                del self._logs[tp]
        self._on_offline(directory.path)


def _parent(log: Log) -> str:
    return log.directory.rpartition("/")[0]


def _reason(error: OSError | None) -> str:
    """What the system said, without the file where the directory is named anyway."""
    return error.strerror or str(error) if error is not None else "offline"


def _read_checkpoint(checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
    """The offsets; an unreadable file counts as none, which costs a longer recovery (LogManager.loadLogs)."""
    try:
        return checkpoint.read()
    except CheckpointError as error:
        _events.warning("checkpoint.unreadable", error=error)
        return {}


def _check_identity(found: MetaProperties, wanted: MetaProperties) -> None:
    if found.cluster_id is not None and found.cluster_id != wanted.cluster_id:
        raise ConfigError(
            f"The Cluster ID {wanted.cluster_id} doesn't match stored clusterId {found.cluster_id} in"
            " meta.properties. The broker is trying to join the wrong cluster. Configured zookeeper.connect may"
            " be wrong."
        )
    if found.broker_id is not None and found.broker_id != wanted.broker_id:
        raise ConfigError(
            f"Configured broker.id {wanted.broker_id} doesn't match stored broker.id {found.broker_id} in"
            " meta.properties. If you moved your data, make sure your configured broker.id matches. If you intend"
            " to create a new broker, you should remove all data in your data directories (log.dirs)."
        )

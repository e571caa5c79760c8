"""Logs on their way to another log directory of the same broker (``LogManager.futureLogs``, KIP-113).

Theory of operation
-------------------
A *future log* is a copy that grows in ``<topic>-<partition>.<uuid>-future`` of the new directory, while the
current log serves. Once it holds everything, it takes the place of the current one (`replace_current`). Each
step is durable before the next begins, so that a broker that dies between any two finds exactly one current
log:

1. the checkpoints of the new directory name the partition;
2. the old directory gets the file ``moved-to`` with the new path;
3. all of the future log is synced, and its directory renamed to ``<topic>-<partition>``;
4. the old directory is renamed to ``…-delete``, and ``moved-to`` with it.

A death before 3 leaves a future log, which the next start continues to fill. Between 3 and 4 both directories
have the current name: the next start sees by ``moved-to`` that the new one holds everything (`finish_moves`).
Apache Kafka refuses to start then.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid, java_hash
from barnabas.log.checkpoints import Checkpoints
from barnabas.log.config import LogConfig
from barnabas.log.disk_errors import DiskErrors
from barnabas.log.filesystem import Filesystem
from barnabas.log.loader import create_log, load_log
from barnabas.log.log import Log
from barnabas.log.names import (
    DELETE_DIRECTORY_SUFFIX,
    directory_name,
    future_name,
    partition_of,
    retired_name,
    unique_part,
)
from barnabas.log.removal import Removal
from barnabas.log.resources import LogResources
from barnabas.log.retired_names import Retirement

MOVED_TO: Final = "moved-to"
"""The file in a partition's directory that says where its log is from now on."""

_UINT_MAX: Final = 0xFFFFFFFF

_events: Final = EventLog("log.future_logs")


@dataclass(eq=False, repr=False)
class FutureLogs:
    """The future logs by partition."""

    filesystem: Filesystem
    resources: LogResources
    clock: Clock
    logs: dict[TopicPartition, Log]
    errors: DiskErrors
    log_config: Callable[[str], LogConfig]
    checkpoints: Checkpoints
    retirement: Retirement
    removal: Removal
    _unwritten: set[str] = field(default_factory=set)
    """Log directories whose checkpoints do not know of a future log yet."""

    def get(self, tp: TopicPartition) -> Log | None:
        return self.logs.get(tp)

    def create(self, tp: TopicPartition, directory: str, topic_id: Uuid | None) -> Log:
        """An empty future log in this log directory. Raises KAFKA_STORAGE_ERROR."""
        path = f"{directory}/{future_name(tp, self.retirement.next_unique())}"
        try:
            log = create_log(tp, path, self.log_config(tp.topic), self.resources, self.clock.time_ms())
        except OSError as error:
            self.errors.failed(path, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot create {path}: {error}") from error
        if topic_id is not None:
            log.assign_topic_id(topic_id)
        self.logs[tp] = log
        # An earlier move may have left a recovery point here, which would vouch for what was never synced.
        self._checkpoint_soon(directory)
        return log

    def _checkpoint_soon(self, directory: str) -> None:
        """Writes a directory's checkpoints in the next turn: one for all moves that begin in this one, and
        before any of them copies a record.
        """
        if directory not in self._unwritten:
            self._unwritten.add(directory)
            self.clock.call_soon(lambda: self._checkpoint(directory))

    def _checkpoint(self, directory: str) -> None:
        self._unwritten.discard(directory)
        self.checkpoints.write_all(directory)

    def delete(self, tp: TopicPartition) -> None:
        """``asyncDelete(isFuture = true)``: gives up what was copied. Raises KAFKA_STORAGE_ERROR."""
        log = self.logs.pop(tp, None)
        if log is not None:
            self.retirement.delete(log)

    def replace_current(self, log: Log, future: Log) -> None:
        """``replaceCurrentWithFutureLog``: from now on `log` is in the directory of `future`, which has all
        of its records.

        `log` stays the same object, so that those who read it or wait for it notice nothing. What is not
        synced yet is synced here and now. Raises KAFKA_STORAGE_ERROR; then the log is where it was, and the
        future log is given up.
        """
        parent = future.parent_dir
        target = f"{parent}/{directory_name(log.tp)}"
        source = log.directory
        future.high_watermark = log.high_watermark
        future.maybe_increment_log_start_offset(min(log.log_start_offset, future.high_watermark))
        future.first_dirty_offset = log.first_dirty_offset
        try:
            self.checkpoints.write_all(parent)
            self.filesystem.write_atomic(f"{source}/{MOVED_TO}", target.encode())
            self.resources.filesystem.sync_directory(source)
        except OSError as error:
            raise log.refused(error) from error
        try:
            # Compaction, or a start of the log that moved, may have left batches out of what was copied that
            # the current log remembers. A snapshot of the copy would know less.
            future.producers.adopt(log.producers)
            future.snapshots.remove(log.log_end_offset)
            if future.log_end_offset < log.log_end_offset:
                # Compaction left nothing of the last records; the end of the log is where it was.
                future.roll(self.clock.time_ms(), log.log_end_offset)
            future.close()
            self.filesystem.rename(future.directory, target)
            self.resources.filesystem.sync_directory(parent)
            moved = self._loaded(log, target)
        except (OSError, BarnabasError) as error:
            self._stay(log, future, target, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot move to {target}: {error}") from error
        del self.logs[log.tp]
        log.relocate(moved)
        self._retire_source(log, source)
        _events.info("log.moved", partition=log.tp, source=source, target=target)

    def _loaded(self, log: Log, target: str) -> Log:
        # As in Kafka the epochs are those of the records that were copied: one without a record is forgotten.
        return load_log(
            log.tp,
            target,
            log.config,
            self.resources,
            now_ms=self.clock.time_ms(),
            log_start_offset=log.log_start_offset,
        )

    def _stay(self, log: Log, future: Log, target: str, error: Exception) -> None:
        """The move failed half-way: the current log stays in service, and no file says that it has moved."""
        _events.error("log.not_moved", partition=log.tp, target=target, error=error)
        self.logs.pop(log.tp, None)
        future.release()
        try:
            self.filesystem.remove(f"{log.directory}/{MOVED_TO}")
            self.resources.filesystem.sync_directory(log.directory)
        except OSError as failure:
            log.storage_failed(failure)
        for path in (target, future.directory):
            try:
                if self.filesystem.exists(path):
                    self.filesystem.rename(path, _deleted_path(path, log.tp, self.clock))
            except OSError as failure:
                self.errors.failed(path, failure)
        if isinstance(error, OSError):
            self.errors.failed(target, error)

    def _retire_source(self, log: Log, source: str) -> None:
        retired = _deleted_path(source, log.tp, self.clock)
        parent = source.rpartition("/")[0]
        try:
            self.filesystem.rename(source, retired)
            self.resources.filesystem.sync_directory(parent)
        except OSError as error:
            self.errors.failed(source, error)
            return
        self.checkpoints.write_all(parent)
        self.checkpoints.write_all(log.parent_dir)
        self.removal.tree_later(retired, log.config.file_delete_delay_ms)

    def forget_move(self, log: Log) -> None:
        """Takes ``moved-to`` away, which a start may find where the move itself did not happen. Raises
        KAFKA_STORAGE_ERROR.
        """
        path = f"{log.directory}/{MOVED_TO}"
        try:
            if self.filesystem.exists(path):
                self.filesystem.remove(path)
                self.resources.filesystem.sync_directory(log.directory)
        except OSError as error:
            raise log.refused(error) from error


def finish_moves(filesystem: Filesystem, directories: Sequence[str], clock: Clock) -> None:
    """Before anything is loaded: takes the old directory of each partition away that a death left in two.
    Raises OSError.
    """
    for path, tp in _in_several(filesystem, directories):
        marker = f"{path}/{MOVED_TO}"
        if not filesystem.exists(marker):
            continue
        target = filesystem.read(marker).decode("utf-8", "replace")
        if target.rpartition("/")[0] in directories and target != path and filesystem.exists(target):
            filesystem.rename(path, _deleted_path(path, tp, clock))
            filesystem.sync_directory(path.rpartition("/")[0])
            _events.info("log.moved", partition=tp, source=path, target=target)


def _in_several(filesystem: Filesystem, directories: Sequence[str]) -> Iterable[tuple[str, TopicPartition]]:
    """The directories of partitions that have more than one."""
    found: dict[TopicPartition, list[str]] = {}
    for directory in directories:
        for name in filesystem.listdir(directory):
            tp = partition_of(name)
            if tp is not None:
                found.setdefault(tp, []).append(f"{directory}/{name}")
    return [(path, tp) for tp, paths in found.items() if len(paths) > 1 for path in paths]


def _deleted_path(path: str, tp: TopicPartition, clock: Clock) -> str:
    parent, _, name = path.rpartition("/")
    # Two of one partition in one directory differ in what they were before.
    unique = unique_part(clock.time_ms(), java_hash(name) & _UINT_MAX)
    return f"{parent}/{retired_name(tp, unique, DELETE_DIRECTORY_SUFFIX)}"

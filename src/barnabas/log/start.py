"""The start of the logs: what is in each log directory is loaded, one log after the other
(``LogManager.loadLogs``).

Theory of operation
-------------------
The directories are made ready side by side, and in each as many logs are loaded side by side as it may use
threads for recovery. A log that cannot be read is set aside, and the others are served. A directory whose
disk fails goes offline with what was loaded of it. What was in use when the broker stopped is told apart by
the name of its directory:

===================  ==================================================================
``orders-0``         the log of a partition
``….<uuid>-future``  its copy on the way to another directory; the move continues
``….<uuid>-delete``  nothing needs it; it is removed after ``file.delete.delay.ms``
``….<uuid>-stray``   a replica that is no longer this broker's; `StrayLogs` keeps it
===================  ==================================================================
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.errors import ConfigError, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, gather, steps
from barnabas.log.config import LogConfig
from barnabas.log.directories import LogDirectories
from barnabas.log.directory import LogDirectory, MetaProperties
from barnabas.log.disk_errors import DiskErrors
from barnabas.log.filesystem import Filesystem
from barnabas.log.future_logs import FutureLogs, finish_moves
from barnabas.log.loading import DAMAGE, Loading, LogLoader
from barnabas.log.log import Log
from barnabas.log.names import (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    future_partition_of,
    partition_of,
)
from barnabas.log.removal import Removal
from barnabas.log.strays import StrayLogs
from barnabas.log.table import LogTable

CHECKPOINT_AFTER_BYTES: Final = 1 << 28
"""While a start recovers, its recovery points are written each time this number of bytes has been scanned."""

_events: Final = EventLog("log.manager")


@dataclass(eq=False, repr=False)
class LogStart:
    """Loads everything into the table of logs, once."""

    filesystem: Filesystem
    clock: Clock
    directories: LogDirectories
    logs: LogTable
    errors: DiskErrors
    loader: LogLoader
    futures: FutureLogs
    removal: Removal
    strays: StrayLogs
    log_config: Callable[[str], LogConfig]
    recovery_threads: int

    @steps
    def run(self, wanted: MetaProperties) -> Steps[None]:
        """Locks, checks, recovers and loads. Fails with ConfigError for directories of another broker or
        cluster, or locked ones.
        """
        meta = self.directories.open(self.errors.not_opened)
        if meta is not None:
            meta.require(wanted)
        # A death in the middle of a move may have left one partition in two directories: before any log is
        # loaded.
        try:
            finish_moves(self.filesystem, [each.path for each in self.directories.online()], self.clock)
        except OSError as error:
            _events.error("moves.not_finished", error=error)  # the disk that fails is found by the load
        starts = yield gather([self._start_directory(each, wanted) for each in self.directories.online()])
        for started in starts:
            started.result()
        # Only now are the logs of all directories known, and with them which future log has nowhere to go.
        self._drop_needless_futures()
        self.directories.require_one()
        self.errors.is_starting = False

    @steps
    def _start_directory(self, directory: LogDirectory, wanted: MetaProperties) -> Steps[None]:
        """Makes one directory ready; one that fails goes offline. Fails with ConfigError."""
        try:
            if directory.read_meta() != wanted:
                directory.write_meta(wanted)
            # From here on a stop is an unclean one until `LogManager.shutdown` has closed every log.
            directory.take_clean_marker()
            directory.ensure_checkpoints()
            yield self._load_directory(directory)
        except OSError as error:
            self.errors.not_opened(directory, error)

    @steps
    def _load_directory(self, directory: LogDirectory) -> Steps[None]:
        """Loads all its logs, as many at a time as it may use recovery threads. Fails with OSError or
        ConfigError.
        """
        loading = Loading(directory, self.clock)
        loading.begin(list(self._partitions_in(directory)))
        lanes = yield gather([self._load_in_turn(loading) for _ in range(self.recovery_threads)])
        for lane in lanes:
            lane.result()
        if loading.recovered_bytes:
            loading.keep_recovered()
        # A partition with records that has no directory: somebody has removed it. It is logged when the
        # partition is made again, because only the controller knows whether this broker still has a replica
        # of it.
        for tp, offset in loading.high_watermarks.items():
            if offset and tp not in self.logs.current and tp not in self.logs.future:
                self.logs.vanished[tp] = directory.path

    def _partitions_in(self, directory: LogDirectory) -> Iterator[tuple[str, TopicPartition]]:
        for name in self.filesystem.listdir(directory.path):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_DIRECTORY_SUFFIX):
                self.removal.tree_later(path, self.log_config("").file_delete_delay_ms)
                continue
            if name.endswith(STRAY_DIRECTORY_SUFFIX):
                self.strays.found(path)
                continue
            tp = future_partition_of(name) or partition_of(name)
            if tp is not None and self.filesystem.is_directory(path):
                yield path, tp

    @steps
    def _load_in_turn(self, loading: Loading) -> Steps[None]:
        """Loads one log after the other, until the load of each has begun."""
        try:
            while loading.waiting:
                path, tp = loading.waiting.popleft()
                try:
                    log = yield self.loader.load(loading, tp, path)
                except DAMAGE as error:
                    # One partition that cannot be read must not keep all the others from being served.
                    self._set_aside(tp, path, error)
                else:
                    self._take(loading, log)
                loading.one_done()
        except BaseException:
            loading.waiting.clear()  # the start fails: what runs beside this is the last
            raise

    def _set_aside(self, tp: TopicPartition, path: str, error: Exception) -> None:
        if path.endswith(FUTURE_DIRECTORY_SUFFIX):
            # Only what was copied is lost: the current log is served, and the move begins again.
            _events.warning("log.future_unusable", partition=tp, directory=path, error=error)
            self.removal.tree_later(path, 0)
        else:
            self.logs.set_aside(tp, path, error)

    def _take(self, loading: Loading, log: Log) -> None:
        """A log is loaded: it gets what the checkpoints say of it, and its place in the table."""
        tp = log.tp
        if log.directory.endswith(FUTURE_DIRECTORY_SUFFIX):
            self._take_future(loading, log)
            return
        if tp in self.logs.current:
            raise ConfigError(
                f"Duplicate log directories for {tp}: {self.logs.current[tp].directory} and {log.directory}"
            )
        _take_high_watermark(log, loading.high_watermarks.get(tp, log.log_start_offset))
        log.first_dirty_offset = _clean_part(log, loading.cleaned.get(tp, 0))
        self.logs.current[tp] = log
        loading.recovery_points[tp] = log.recovery_point
        # A broker that is killed over and over while it recovers must not begin from nothing each time.
        if loading.recovered_bytes >= CHECKPOINT_AFTER_BYTES:
            loading.keep_recovered()

    def _take_future(self, loading: Loading, log: Log) -> None:
        if not loading.directory.clean:
            # Its beginning may be missing, too: only what was synced is surely a copy of the current log.
            log.truncate_to(loading.recovery_points.get(log.tp, 0))
        log.high_watermark = loading.high_watermarks.get(log.tp, log.log_start_offset)
        self.futures.delete(log.tp)  # of two, one is as good as the other
        self.logs.future[log.tp] = log
        loading.recovery_points[log.tp] = log.recovery_point

    def _drop_needless_futures(self) -> None:
        """Gives up the future logs of partitions that are where they were to go: somebody has moved their
        directories.
        """
        for tp, future in list(self.logs.future.items()):
            log = self.logs.current.get(tp)
            if log is None or self._holder(log) is not self._holder(future):
                continue
            _events.warning("move.needless", partition=tp, directory=log.directory, future=future.directory)
            with contextlib.suppress(KafkaError):  # then its directory is offline
                self.futures.delete(tp)

    def _holder(self, log: Log) -> LogDirectory | None:
        return self.directories.above(log.directory)


def _take_high_watermark(log: Log, checkpoint: int) -> None:
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

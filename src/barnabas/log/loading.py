"""Loading the logs of a directory (``LogManager.loadLogs``): its checkpoints, what is left to do, and each
log itself.

The log of events says at the start how many logs there are, about once a second how many are left, and in the
end how long it took: after an unclean stop that may be minutes.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.errors import KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.offload import InPlace, Offload
from barnabas.core.pending import Steps, steps
from barnabas.log.checkpoint import CheckpointError, OffsetCheckpoint
from barnabas.log.config import LogConfig
from barnabas.log.directory import LogDirectory
from barnabas.log.disk_errors import NOT_THE_FILE
from barnabas.log.filesystem import Filesystem
from barnabas.log.leftovers import tidy
from barnabas.log.loader import load_log
from barnabas.log.log import Log
from barnabas.log.partition_metadata import PartitionMetadataError
from barnabas.log.recovery import base_offsets, bytes_of, drop_torn_files, recover_log, segments_to_recover
from barnabas.log.resources import LogResources
from barnabas.log.scan import IN_PLACE_SCAN_BYTES

PROGRESS_MS: Final = 1000
DAMAGE: Final = (KafkaError, CheckpointError, PartitionMetadataError, *NOT_THE_FILE)
"""What files raise that hold something else than they should."""

_events: Final = EventLog("log.manager")


class Loading:
    """The logs of one directory, on their way into memory."""

    def __init__(self, directory: LogDirectory, clock: Clock) -> None:
        self.directory = directory
        self.recovery_points = _read(directory.recovery_points)
        self.log_starts = _read(directory.log_start_offsets)
        self.high_watermarks = _read(directory.high_watermarks)
        self.cleaned = _read(directory.cleaner_offsets)
        self.waiting: deque[tuple[str, TopicPartition]] = deque()
        """The partitions' directories that nothing has begun with."""
        self.recovered_bytes = 0
        """Bytes that recovery has scanned since the recovery points were written."""
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._next_line_ms = self._began_ms + PROGRESS_MS
        self._total = self._left = 0

    def begin(self, found: Iterable[tuple[str, TopicPartition]]) -> None:
        """Takes the directories that have to be loaded."""
        self.waiting.extend(found)
        self._total = self._left = len(self.waiting)
        if self._total:
            _events.info(
                "logs.loading", path=self.directory.path, logs=self._total, clean=self.directory.clean
            )

    def one_done(self) -> None:
        """One log is loaded, or set aside."""
        self._left -= 1
        now_ms = self._clock.monotonic_ms()
        if not self._left:
            took_ms = round(now_ms - self._began_ms)
            _events.info("logs.loaded", path=self.directory.path, logs=self._total, ms=took_ms)
        elif now_ms >= self._next_line_ms:
            self._next_line_ms = now_ms + PROGRESS_MS
            _events.info("logs.left", path=self.directory.path, left=self._left, of=self._total)

    def keep_recovered(self) -> None:
        """Writes what has been scanned and synced, so that no later start scans it again. Raises OSError.

        A broker that is killed over and over would else do all of it each time: the timer that writes these
        points comes half a minute after the start. Partitions that are not loaded yet keep what they had.
        """
        self.directory.recovery_points.write(self.recovery_points)
        self.recovered_bytes = 0

    def __repr__(self) -> str:
        return f"<Loading {self.directory.path} left={self._left} of={self._total}>"


class LogLoader:
    """Loads logs, and recovers first what an unclean stop left:
    through `Offload` when there is much of it.
    """

    def __init__(
        self,
        filesystem: Filesystem,
        resources: LogResources,
        clock: Clock,
        offload: Offload,
        log_config: Callable[[str], LogConfig],
    ) -> None:
        self._filesystem = filesystem
        self._resources = resources
        self._clock = clock
        self._offload = offload
        self._log_config = log_config

    @steps
    def load(self, loading: Loading, tp: TopicPartition, path: str) -> Steps[Log]:
        """The partition's log. Fails with one of DAMAGE if it cannot be repaired, with OSError if the disk is
        broken.
        """
        clean = loading.directory.clean
        recovery_point = loading.recovery_points.get(tp, 0)
        try:
            tidy(self._filesystem, path)
            targets = segments_to_recover(self._filesystem, path, clean=clean, recovery_point=recovery_point)
            if targets:
                yield self._recover(loading, tp, path, targets)
            return self._load(loading, tp, path)
        except DAMAGE as error:
            # What was closed cleanly has been damaged since: nothing is taken on trust then.
            _events.warning("log.damaged", partition=tp, directory=path, error=error)
        drop_torn_files(self._filesystem, path)
        everything = base_offsets(self._filesystem, path)
        if everything:
            yield self._recover(loading, tp, path, everything)
        return self._load(loading, tp, path)

    def _load(self, loading: Loading, tp: TopicPartition, path: str) -> Log:
        return load_log(
            tp,
            path,
            self._log_config(tp.topic),
            self._resources,
            now_ms=self._clock.time_ms(),
            log_start_offset=loading.log_starts.get(tp),
        )

    @steps
    def _recover(self, loading: Loading, tp: TopicPartition, path: str, targets: list[int]) -> Steps[None]:
        size = bytes_of(self._filesystem, path, targets)
        _events.info("log.recovering", partition=tp, segments=len(targets), size_bytes=size)
        config = self._log_config(tp.topic)
        run: Offload = self._offload if size > IN_PLACE_SCAN_BYTES else InPlace()
        yield run.run(
            recover_log,
            self._filesystem,
            path,
            tp,
            targets=targets,
            clean=loading.directory.clean,
            index_interval_bytes=config.index_interval_bytes,
            recovery_point=loading.recovery_points.get(tp, 0),
        )
        loading.recovered_bytes += max(1, size)


def _read(checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
    """The offsets; an unreadable file counts as none, which costs a longer recovery (LogManager.loadLogs)."""
    try:
        return checkpoint.read()
    except CheckpointError as error:
        _events.warning("checkpoint.unreadable", error=error)
        return {}

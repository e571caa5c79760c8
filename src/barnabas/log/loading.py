"""What is known of a directory while its logs are loaded (``LogManager.loadLogs``): its checkpoints, what is left to do.

The log of events says at the start how many logs there are, about once a second how many are left, and in the end how long
it took: after an unclean stop that may be minutes.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.log.checkpoint import CheckpointError, OffsetCheckpoint
from barnabas.log.directory import LogDirectory

PROGRESS_MS: Final = 1000

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


def _read(checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
    """The offsets; an unreadable file counts as none, which costs a longer recovery (LogManager.loadLogs)."""
    try:
        return checkpoint.read()
    except CheckpointError as error:
        _events.warning("checkpoint.unreadable", error=error)
        return {}

"""The checkpoint files of a log directory, and what each has of the logs in it."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from barnabas.log.checkpoint import OffsetCheckpoint
from barnabas.log.directory import LogDirectory
from barnabas.log.log import Log


class LogCheckpoint(NamedTuple):
    """One kind of checkpoint."""

    file: Callable[[LogDirectory], OffsetCheckpoint]
    offset: Callable[[Log], int | None]
    """What it has of a log; nothing where that is None."""

    def write(self, directory: LogDirectory, logs: Iterable[Log], *, sync: bool = True) -> None:
        """Replaces the directory's file by the offsets of the logs in it; see `OffsetCheckpoint.write`.

        Raises OSError.
        """
        offsets = {log.tp: self.offset(log) for log in logs}
        known = {tp: offset for tp, offset in offsets.items() if offset is not None}
        self.file(directory).write(known, sync=sync)


def _hidden_start(log: Log) -> int | None:
    """Where the log starts, if the name of its first segment does not say so."""
    start = log.log_start_offset
    return start if start != log.segments[0].base_offset else None


RECOVERY_POINTS: Final = LogCheckpoint(attrgetter("recovery_points"), lambda log: log.recovery_point)
HIGH_WATERMARKS: Final = LogCheckpoint(attrgetter("high_watermarks"), lambda log: log.high_watermark)
LOG_STARTS: Final = LogCheckpoint(attrgetter("log_start_offsets"), _hidden_start)
CLEANED: Final = LogCheckpoint(attrgetter("cleaner_offsets"), lambda log: log.first_dirty_offset or None)

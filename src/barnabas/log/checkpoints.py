"""The checkpoint files of log directories, and what each has of the logs in it."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from barnabas.log.checkpoint import OffsetCheckpoint
from barnabas.log.directories import LogDirectories
from barnabas.log.directory import LogDirectory
from barnabas.log.disk_errors import DiskErrors
from barnabas.log.log import Log
from barnabas.log.table import LogTable


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


class Checkpoints:
    """The checkpoint files of all directories; one that cannot be written takes its directory offline."""

    __slots__ = ("_directories", "_errors", "_logs")

    def __init__(self, directories: LogDirectories, logs: LogTable, errors: DiskErrors) -> None:
        self._directories = directories
        self._logs = logs
        self._errors = errors

    def write(self, what: LogCheckpoint, *, only: str | None = None, sync: bool = True) -> None:
        """Writes one kind in every directory that serves, or in the one of this path."""
        for directory in self._directories.online():
            if only in (None, directory.path):
                try:
                    self.write_in(directory, what, self._logs.in_directory(directory.path), sync=sync)
                except OSError as error:
                    self._errors.directory_failed(directory, error)

    def write_all(self, path: str) -> None:
        """Writes all kinds in one directory: a log has come to it, or was moved away."""
        for what in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED):
            self.write(what, only=path)

    def write_in(
        self, directory: LogDirectory, what: LogCheckpoint, logs: Iterable[Log], *, sync: bool = True
    ) -> None:
        """Writes one kind for these logs, and what it says of those that were set aside. Raises OSError."""
        what.write(directory, [*logs, *self._logs.aside_in(directory.path)], sync=sync)

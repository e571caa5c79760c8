"""What an error of a disk takes out of service: a log, a whole log directory, or nothing
(``handleLogDirFailure``).

Theory of operation
-------------------
Every part of the broker that uses a log directory hands its errors to `DiskErrors`, with the path that it
used.

=================================  ==========================================================================
no descriptors left                nothing: what can be opened again is closed, the caller tries again
a full disk, found by an append    nothing: the append is refused, and so are others until there is room
a file of a log is missing, is     this log: it is set aside until the broker starts again, its neighbours are
something else, or lacks bytes     served; so is the log whose records a full disk may have dropped at a sync
any other error                    the log directory, with all of its logs
=================================  ==========================================================================

Without any directory left the broker cannot serve, which is the node's to decide: it is told by `on_offline`.
"""

from collections.abc import Callable
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.descriptors import is_shortage
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.log.descriptors import DESCRIPTORS_MAX, DescriptorCache, SparingFilesystem
from barnabas.log.directories import LogDirectories
from barnabas.log.directory import LogDirectory
from barnabas.log.filesystem import Filesystem
from barnabas.log.shortage import is_full, is_passing
from barnabas.log.table import LogTable

NOT_THE_FILE: Final = (IsADirectoryError, NotADirectoryError, PermissionError)
"""What a file raises that is something else than it should be; a broken disk says EIO."""
SHORTAGE_LINE_MS: Final = 60_000
"""How often the log says that descriptors have run out, or that a directory has no room."""

_events: Final = EventLog("log.manager")


class DiskErrors:
    """Judges errors, and takes out of service what they name."""

    def __init__(
        self,
        filesystem: Filesystem,
        clock: Clock,
        directories: LogDirectories,
        logs: LogTable,
        *,
        descriptors: int,
        on_offline: Callable[[str], object],
    ) -> None:
        """`descriptors` is how many the process may have; `on_offline` is called with a path that is lost."""
        self._filesystem = filesystem
        self._clock = clock
        self._directories = directories
        self._logs = logs
        self._on_offline = on_offline
        self.is_starting = True
        """While the start loads the logs, the loss of the last directory is the start's to report."""
        self._next_line_ms: dict[str, float] = {}
        """When the log may say again that there are no descriptors, or that a directory has no room."""
        self.sparing = SparingFilesystem(filesystem, self.give_back_descriptors)
        """The disk, with a second attempt for what needs a descriptor."""
        # A part of the descriptors only: the rest is for connections, the store, and what is being sent.
        self.files = DescriptorCache(self.sparing, min(DESCRIPTORS_MAX, descriptors // 8), descriptors // 4)
        """The open files that are given back when descriptors run out."""

    def failed(self, path: str, error: OSError) -> None:
        """``handleLogDirFailure``: something at or below this path failed."""
        # A file that is missing or replaced takes only its own partition offline. An error without a number
        # is our own: a file is shorter than it was. And a full disk has failed the log only whose records it
        # dropped.
        files = isinstance(error, (FileNotFoundError, *NOT_THE_FILE)) or error.errno is None or is_full(error)
        if files and self.set_log_aside(path, error):
            return
        directory = self._directories.above(path)
        if directory is not None:
            self.directory_failed(directory, error)

    def refused(self, path: str, error: OSError) -> None:
        """Something below this path was refused for want of descriptors or of room."""
        if is_shortage(error):
            self.give_back_descriptors(error)
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

    def give_back_descriptors(self, error: OSError) -> None:
        """Closes all files that can be opened again; at most one line a while says so."""
        if self._may_say("descriptors"):
            _events.warning(
                "descriptors.short", error=error, mend="raise the limit of open files (ulimit -n)"
            )
        self.files.clear()

    def _may_say(self, what: str) -> bool:
        """Whether the last line about it is a while ago."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_line_ms.get(what, now_ms):
            return False
        self._next_line_ms[what] = now_ms + SHORTAGE_LINE_MS
        return True

    def set_log_aside(self, path: str, error: OSError) -> bool:
        """Takes the log in this directory out of service; False when there is none, or the whole log
        directory is missing.
        """
        log = self._logs.in_path(path)
        if log is None or not self._filesystem.exists(log.parent_dir):
            return False
        log.release()
        del self._logs.current[log.tp]
        self._logs.aside.append(log)
        self._logs.set_aside(log.tp, path, error)
        self._on_offline(path)
        return True

    def directory_failed(self, directory: LogDirectory, error: OSError) -> None:
        """An operation on the directory itself failed: it goes offline, unless only room or descriptors were
        wanting.
        """
        if is_passing(error):
            self.refused(directory.path, error)
        else:
            self._take_offline(directory, error)

    def not_opened(self, directory: LogDirectory, error: OSError) -> None:
        """The start cannot use a directory, which goes offline; a full disk is no use to it either.

        Raises ConfigError where there are only too few descriptors.
        """
        if is_shortage(error):
            raise ConfigError(
                f"the limit of open files is too low for the partitions in {directory.path}: raise it"
                f" (ulimit -n) and start again: {error}"
            ) from error
        self._take_offline(directory, error)

    def _take_offline(self, directory: LogDirectory, error: OSError) -> None:
        directory.go_offline(error)
        if not self.is_starting or self._directories.online():  # else the start fails, and says why
            _events.error("directory.offline", path=directory.path, error=error)
        self._logs.release_all_in(directory.path)
        self._on_offline(directory.path)

"""Files and directories that are no log's any more: gone from the disk after ``file.delete.delay.ms``."""

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.descriptors import is_shortage
from barnabas.log.filesystem import Filesystem
from barnabas.log.log import Log

AGAIN_MS: Final = 60_000
"""How long a removal waits for descriptors."""


class Removal:
    """Removes what has been renamed, once readers have had the time to let go of it."""

    def __init__(
        self, filesystem: Filesystem, clock: Clock, failed: Callable[[str, OSError], object]
    ) -> None:
        """`failed` is called with a path that could not be removed."""
        self._filesystem = filesystem
        self._clock = clock
        self._failed = failed

    def tree_later(self, path: str, delay_ms: float) -> None:
        """Removes a directory with all that is in it."""
        self._clock.call_later(delay_ms, lambda: self.tree(path))

    def tree(self, path: str) -> None:
        """Removes it now, or once there are descriptors for it."""
        try:
            self._filesystem.remove_tree(path)
        except OSError as error:
            if is_shortage(error):
                self.tree_later(path, AGAIN_MS)
            else:
                self._failed(path, error)

    def files_later(self, log: Log, paths: Sequence[str]) -> None:
        """Removes files of segments that a log does not read any more."""
        if paths:
            self._clock.call_later(log.config.file_delete_delay_ms, lambda: self._files(log, paths))

    def _files(self, log: Log, paths: Sequence[str]) -> None:
        try:
            log.remove_files(paths)
        except OSError as error:
            self._failed(paths[0], error)

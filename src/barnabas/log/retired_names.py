"""Makes the new names of directories that were taken out of use durable: elsewhere, and many with one sync.

A deleted topic may have thousands of partitions in one log directory, and each is renamed. One sync of the
log directory makes all of these names durable, so they share it, as appends share one in a group commit.
"""

from collections.abc import Callable, Sequence
from typing import Final

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.log.directory import LogDirectory
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import GroupCommit, Syncable
from barnabas.log.shortage import is_passing

_NO_OFFSET: Final = 0


class RetiredNames:
    """The names in one log directory; a `log.flush.Flushable`."""

    __slots__ = ("_directory", "_disk", "_failed", "_forget_cleaned", "_is_cleaned_stale")

    def __init__(
        self,
        directory: LogDirectory,
        disk: Filesystem,
        *,
        forget_cleaned: Callable[[], object],
        failed: Callable[[str, OSError], object],
    ) -> None:
        """`disk` is used where syncs are made.

        `forget_cleaned` writes up to where the logs that are left are cleaned.
        """
        self._directory = directory
        self._disk = disk
        self._forget_cleaned = forget_cleaned
        self._failed = failed
        self._is_cleaned_stale = False

    def durable(self, commits: GroupCommit, *, was_cleaned: bool) -> Pending[None]:
        """Done when all names given so far survive a loss of power; fails with KAFKA_STORAGE_ERROR.

        `was_cleaned` says that the cleaner's checkpoint has the log, too: a topic of the same name begins
        dirty.
        """
        self._is_cleaned_stale = self._is_cleaned_stale or was_cleaned
        return commits.request(self)

    @property
    def offline(self) -> bool:
        return self._directory.offline

    def begin_flush(self) -> tuple[int, Sequence[Syncable]]:
        if self._is_cleaned_stale:
            self._is_cleaned_stale = False
            self._forget_cleaned()
        return _NO_OFFSET, [_NamesSync(self._disk, self._directory.path)]

    def end_flush(self, end_offset: int) -> None:
        """Names have no end that anybody asks for."""

    def refused(self, error: OSError) -> Exception:
        return self.sync_failed(error)

    def sync_failed(self, error: OSError) -> Exception:
        path = self._directory.path
        self._failed(path, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot sync the names in {path}: {error}")

    def __repr__(self) -> str:
        return f"<RetiredNames in {self._directory.path}>"


class _NamesSync:
    """Makes the names in a log directory durable."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: Filesystem, path: str) -> None:
        self._disk = disk
        self._path = path

    def sync(self) -> None:
        """As `Syncable.sync`. Without a descriptor or room the new names are there but not durable: a loss of
        power may bring a partition back that was deleted, which harms nobody.
        """
        try:
            self._disk.sync_directory(self._path)
        except OSError as error:
            if not is_passing(error):
                raise

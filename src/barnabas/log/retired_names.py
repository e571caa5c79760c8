"""Takes the directories of logs out of use, and makes their new names durable: elsewhere, many with one sync.

A deleted topic may have thousands of partitions in one log directory, and each is renamed. One sync of the
log directory makes all of these names durable, so they share it, as appends share one in a group commit.
"""

from collections.abc import Sequence
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.log.checkpoints import CLEANED, Checkpoints
from barnabas.log.directories import LogDirectories
from barnabas.log.directory import LogDirectory
from barnabas.log.disk_errors import DiskErrors
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import GroupCommit, Syncable
from barnabas.log.log import Log
from barnabas.log.names import DELETE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, retired_name, unique_part
from barnabas.log.removal import Removal
from barnabas.log.shortage import is_passing
from barnabas.log.strays import StrayLogs

_NO_OFFSET: Final = 0


class RetiredNames:
    """The names in one log directory; a `log.flush.Flushable`."""

    __slots__ = ("_checkpoints", "_directory", "_disk", "_errors", "_is_cleaned_stale")

    def __init__(
        self, directory: LogDirectory, disk: Filesystem, checkpoints: Checkpoints, errors: DiskErrors
    ) -> None:
        """`disk` is used where syncs are made."""
        self._directory = directory
        self._disk = disk
        self._checkpoints = checkpoints
        self._errors = errors
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
            self._checkpoints.write(CLEANED, only=self._directory.path)
        return _NO_OFFSET, [_NamesSync(self._disk, self._directory.path)]

    def end_flush(self, end_offset: int) -> None:
        """Names have no end that anybody asks for."""

    def refused(self, error: OSError) -> Exception:
        return self.sync_failed(error)

    def sync_failed(self, error: OSError) -> Exception:
        path = self._directory.path
        self._errors.failed(path, error)
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


class Retirement:
    """Takes the directories of logs out of use: renamed at once, removed or kept aside later
    (``asyncDelete``).
    """

    def __init__(
        self,
        filesystem: Filesystem,
        clock: Clock,
        directories: LogDirectories,
        errors: DiskErrors,
        *,
        commits: GroupCommit,
        checkpoints: Checkpoints,
        removal: Removal,
        strays: StrayLogs,
    ) -> None:
        self._filesystem = filesystem
        self._clock = clock
        self._errors = errors
        self._commits = commits
        self._removal = removal
        self._strays = strays
        self._unique = 0
        self._names = {each.path: RetiredNames(each, filesystem, checkpoints, errors) for each in directories}

    def delete(self, log: Log) -> Pending[None]:
        """Takes a log out of service: its files are removed after ``file.delete.delay.ms``.

        Done when a loss of power does not bring it back; logs that are deleted together share that Pending.
        Raises, or fails with, KAFKA_STORAGE_ERROR.
        """
        target = self._rename(log, DELETE_DIRECTORY_SUFFIX)
        self._removal.tree_later(target, log.config.file_delete_delay_ms)
        return self._durable(log)

    def mark_stray(self, log: Log) -> Pending[None]:
        """As `delete`, but its files are those of a stray from now on."""
        size = log.size
        self._strays.add(log.tp, self._rename(log, STRAY_DIRECTORY_SUFFIX), size)
        return self._durable(log)

    def _rename(self, log: Log, suffix: str) -> str:
        log.release()
        target = f"{log.parent_dir}/{retired_name(log.tp, self.next_unique(), suffix)}"
        try:
            self._filesystem.rename(log.directory, target)
        except OSError as error:
            self._errors.failed(log.directory, error)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot retire {log.directory}: {error}"
            ) from error
        return target

    def _durable(self, log: Log) -> Pending[None]:
        return self._names[log.parent_dir].durable(self._commits, was_cleaned=log.first_dirty_offset > 0)

    def next_unique(self) -> str:
        """The part of a directory's name that no other one has."""
        self._unique += 1
        return unique_part(self._clock.time_ms(), self._unique)

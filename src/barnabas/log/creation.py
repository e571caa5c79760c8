"""A new log: in which directory it is made, and when a partition must not get one
(``LogManager.getOrCreateLog``).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.descriptors import is_shortage
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.log.checkpoints import CLEANED, Checkpoints
from barnabas.log.config import LogConfig
from barnabas.log.directories import LogDirectories
from barnabas.log.directory import LogDirectory
from barnabas.log.disk_errors import DiskErrors
from barnabas.log.filesystem import Filesystem
from barnabas.log.loader import create_log
from barnabas.log.loading import DAMAGE
from barnabas.log.log import Log
from barnabas.log.names import DIRECTORY_NAME_LENGTH_MAX, directory_name
from barnabas.log.resources import LogResources
from barnabas.log.shortage import is_full, is_passing
from barnabas.log.table import LogTable

PREFERRED_MAX: Final = 100_000
"""The number of logs that do not exist yet for which a directory is remembered; the oldest is forgotten
first.
"""

_events: Final = EventLog("log.manager")


@dataclass(eq=False, repr=False)
class LogCreation:
    """Makes the logs of partitions that are new to this broker."""

    filesystem: Filesystem
    clock: Clock
    directories: LogDirectories
    logs: LogTable
    errors: DiskErrors
    checkpoints: Checkpoints
    resources: LogResources
    log_config: Callable[[str], LogConfig]
    _preferred: dict[TopicPartition, str] = field(default_factory=dict)
    """Where logs are to be made that do not exist yet."""

    def prefer(self, tp: TopicPartition, directory: str) -> None:
        """``maybeUpdatePreferredLogDir``: a log that does not exist yet is to be made in this directory."""
        log = self.logs.current.get(tp)
        if log is None or log.parent_dir != directory:
            self._preferred[tp] = directory
            if len(self._preferred) > PREFERRED_MAX:
                # Clients may name partitions that will never be here.
                del self._preferred[next(iter(self._preferred))]

    def check_all_online(self, tp: TopicPartition) -> None:
        """Raises KAFKA_STORAGE_ERROR when a directory is offline: the partition may have its log there."""
        if offline := [each.path for each in self.directories.offline()]:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {tp} because log directories {','.join(offline)} are offline",
            )

    def create(self, tp: TopicPartition, *, is_new: bool) -> Log:
        """An empty log; `is_new` says that no broker has ever had the partition. Raises as
        `LogManager.get_or_create`.
        """
        if not is_new:
            self.check_all_online(tp)
        # No disk has room for such a name; none is broken, so no directory goes offline for it.
        if len(directory_name(tp).encode()) > DIRECTORY_NAME_LENGTH_MAX:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The directory of {tp} would have a name of more than {DIRECTORY_NAME_LENGTH_MAX} bytes",
            )
        # What is there is damaged, and an empty log in its place would have followers delete what they have.
        if tp in self.logs.unusable:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory of {tp} is damaged")
        lost_from = self.logs.vanished.pop(tp, None)
        if lost_from is not None and not is_new:
            _events.warning("log.vanished", partition=tp, directory=f"{lost_from}/{directory_name(tp)}")
        refused: OSError | None = None
        for directory in self._candidates(tp):
            path = f"{directory.path}/{directory_name(tp)}"
            was_there = self.filesystem.exists(path)
            try:
                log = create_log(tp, path, self.log_config(tp.topic), self.resources, self.clock.time_ms())
            except (*DAMAGE, FileExistsError) as error:
                self.logs.set_aside(tp, path, error)
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Cannot use {path}: {error}") from error
            except OSError as error:
                self.errors.directory_failed(directory, error)
                # The disk is broken, and its directory offline: the next candidate.
                if not is_passing(error):
                    continue
                refused = error
                # Descriptors are the process's: another directory has no more of them.
                if is_shortage(error):
                    break
                # This disk is full, another may have room. Of two directories with the same partition the
                # next start would load neither.
                if not was_there:
                    self.filesystem.remove_tree(path)
            else:
                self.logs.current[tp] = log
                self._preferred.pop(tp, None)
                # The log that has vanished was clean up to somewhere, this one is not.
                if lost_from is not None:
                    self.checkpoints.write(CLEANED, only=lost_from)
                return log
        if refused is not None:
            # Nothing is broken: the role is taken later.
            missing = "room" if is_full(refused) else "file descriptor"
            raise KafkaError(
                ErrorCode.REPLICA_NOT_AVAILABLE, f"No {missing} is left to create {tp}: {refused}"
            ) from refused
        tried = [each.path for each in self.directories.offline()]
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"No log directories available. Tried {tried}")

    def _candidates(self, tp: TopicPartition) -> list[LogDirectory]:
        """``nextLogDirs``: the directory that somebody has asked for, or all, the one with the fewest logs
        first.
        """
        online = self.directories.online()
        preferred = self._preferred.get(tp)
        if preferred is not None:
            return [directory for directory in online if directory.path == preferred]
        # Where all are cordoned, the controller has placed the replica before it knew: it gets a log.
        online = [directory for directory in online if not directory.cordoned] or online
        if len(online) == 1:
            return online  # thousands of partitions at once must not each count all the others
        counts = {directory.path: 0 for directory in online}
        for log in self.logs.current.values():
            counts[log.parent_dir] += 1
        return sorted(online, key=lambda directory: counts[directory.path])

"""Directories of replicas that are no longer this broker's, kept as ``-stray`` for a while (``strayLogs``).

Kafka 3.9 renames them and keeps them until somebody removes them by hand. Here they are removed after a
delay, which counts from the time in their name, so that restarts do not begin it again. A directory that
Kafka has renamed has no time in its name, and is kept.
"""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.log.filesystem import Filesystem
from barnabas.log.names import LOG_SUFFIX, STRAY_DIRECTORY_SUFFIX, retired_at_ms, retired_partition_of
from barnabas.log.removal import Removal

_events = EventLog("log.manager")


class StrayLog(NamedTuple):
    """One such directory."""

    tp: TopicPartition
    path: str
    size: int
    """Bytes of its segments."""


class StrayLogs:
    """All that are in the log directories."""

    def __init__(self, filesystem: Filesystem, clock: Clock, removal: Removal, delete_delay_ms: int) -> None:
        """They are removed `delete_delay_ms` after they were renamed; never with -1."""
        self._filesystem = filesystem
        self._clock = clock
        self._removal = removal
        self._delete_delay_ms = delete_delay_ms
        self._logs: dict[str, StrayLog] = {}

    def listed(self) -> Iterable[StrayLog]:
        """Those that are still there."""
        for path in [path for path in self._logs if not self._filesystem.exists(path)]:
            del self._logs[path]
        return list(self._logs.values())

    def found(self, path: str) -> None:
        """The start has found a directory with such a name."""
        tp = retired_partition_of(path.rpartition("/")[2], STRAY_DIRECTORY_SUFFIX)
        if tp is None or not self._filesystem.is_directory(path):
            return
        names = self._filesystem.listdir(path)
        size = sum(self._filesystem.size(f"{path}/{name}") for name in names if name.endswith(LOG_SUFFIX))
        self.add(tp, path, size)

    def add(self, tp: TopicPartition, path: str, size: int) -> None:
        """A directory has such a name now."""
        self._logs[path] = StrayLog(tp, path, size)
        renamed_ms, now_ms = retired_at_ms(path, STRAY_DIRECTORY_SUFFIX), self._clock.time_ms()
        if self._delete_delay_ms < 0 or renamed_ms is None or renamed_ms > now_ms:
            _events.info("stray.kept", partition=tp, directory=path)
            return
        left_ms = max(0, renamed_ms + self._delete_delay_ms - now_ms)
        _events.info("stray.deleted_later", partition=tp, directory=path, in_ms=left_ms)
        self._removal.tree_later(path, left_ms)

    def __repr__(self) -> str:
        return f"<StrayLogs {len(self._logs)}>"

"""The logs of a broker by partition, and the partitions whose logs are not served."""

from collections.abc import Iterator

from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.log.log import Log

_events = EventLog("log.manager")


class LogTable:
    """Which logs there are; what happens to them is decided elsewhere."""

    def __init__(self) -> None:
        self.current: dict[TopicPartition, Log] = {}
        """The logs that are served (``currentLogs``)."""
        self.future: dict[TopicPartition, Log] = {}
        """Copies on their way to another directory (``futureLogs``)."""
        self.aside: list[Log] = []
        """Logs that were taken out of service alone: the checkpoints keep what they say of them."""
        self.unusable: set[TopicPartition] = set()
        """Partitions whose directories are damaged beyond repair: an empty log must not take their place."""
        self.vanished: dict[TopicPartition, str] = {}
        """Where a checkpoint names a partition with records, of which the directory is missing."""

    def __iter__(self) -> Iterator[Log]:
        """The future logs and the current ones."""
        return iter((*self.future.values(), *self.current.values()))

    def in_directory(self, path: str) -> list[Log]:
        """The current and the future logs in a log directory (``logsInDir``)."""
        return [log for log in self if log.parent_dir == path]

    def aside_in(self, path: str) -> list[Log]:
        """The logs of a log directory that were taken out of service alone."""
        return [log for log in self.aside if log.parent_dir == path]

    def in_path(self, path: str) -> Log | None:
        """The current log whose own directory this is."""
        return next((log for log in self.current.values() if log.directory == path), None)

    def release_all_in(self, path: str) -> None:
        """Takes all logs of a log directory out of service."""
        for logs in (self.current, self.future):
            for tp, log in list(logs.items()):
                if log.parent_dir == path:
                    log.release()
                    del logs[tp]

    def clear(self) -> None:
        self.current.clear()
        self.future.clear()

    def set_aside(self, tp: TopicPartition, path: str, error: Exception) -> None:
        """From now on this partition has no log that can be served, until the broker starts again."""
        _events.error(
            "log.unusable",
            partition=tp,
            directory=path,
            error=error,
            mend="restore the directory or move it away, then restart the broker",
        )
        self.unusable.add(tp)

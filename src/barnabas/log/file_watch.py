"""Notices that the files of a log were removed while the broker runs.

Theory of operation
-------------------
A file that is removed while it is open loses only its name. Appends to it succeed and are acknowledged, and
are lost when the process ends. An append does not check this, because that would cost a system call each.
Instead each log that was appended to since its last check is checked every
``barnabas.log.files.check.interval.ms``: does the file of its active segment still exist? So at most the
appends of one interval are acknowledged in vain. The checks are made elsewhere, because a slow disk may take
its time.

A closed segment that was removed is missed by its first reader. In both cases the log refuses all that
follows with KAFKA_STORAGE_ERROR, as after a disk error, and another replica leads. The other logs of the
directory are served.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.offload import Offload
from barnabas.core.pending import Steps, steps
from barnabas.log.filesystem import Filesystem
from barnabas.log.log import Log

PORTION: Final = 256
"""How many logs are looked at in one go."""

_events: Final = EventLog("log.file_watch")


class FileWatch:
    """Looks after the files of all logs of a broker."""

    def __init__(
        self, logs: Mapping[TopicPartition, Log], filesystem: Filesystem, elsewhere: Offload
    ) -> None:
        self._logs = logs
        self._filesystem = filesystem
        self._elsewhere = elsewhere
        self._is_looking = False

    @steps
    def look(self) -> Steps[None]:
        """Takes each log offline whose active segment was removed; does nothing while another look runs."""
        if self._is_looking:
            return
        self._is_looking = True
        try:
            appended = [log for log in self._logs.values() if log.log_end_offset != log.watched_end_offset]
            for start in range(0, len(appended), PORTION):
                portion = appended[start : start + PORTION]
                ends = [log.log_end_offset for log in portion]
                paths = [log.active.path for log in portion]
                gone = yield self._elsewhere.run(missing, self._filesystem, paths)
                if not self._logs:
                    return  # the broker has stopped
                for log, end_offset, path in zip(portion, ends, paths, strict=True):
                    if path in gone and self._is_gone(log, path):
                        self._take_offline(log, path)
                    else:
                        log.watched_end_offset = end_offset
        finally:
            self._is_looking = False

    def _is_gone(self, log: Log, path: str) -> bool:
        """Whether the log has lost this file: by now it may have rolled, or been moved or deleted."""
        return self._logs.get(log.tp) is log and log.active.path == path and not self._filesystem.exists(path)

    def _take_offline(self, log: Log, path: str) -> None:
        _events.error(
            "log.files_removed",
            partition=log.tp,
            file=path,
            in_doubt_from=log.watched_end_offset,
            log_end_offset=log.log_end_offset,
            meaning="what was appended meanwhile is only in a file without a name",
        )
        log.storage_failed(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path))


def missing(filesystem: Filesystem, paths: Sequence[str]) -> set[str]:
    """Those of the paths where nothing is."""
    return {path for path in paths if not filesystem.exists(path)}

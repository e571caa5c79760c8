"""Notices that the files of a log were removed, replaced or cut while the broker runs.

Theory of operation
-------------------
A file that is removed while it is open loses only its name. Appends to it succeed and are acknowledged, and
are lost when the process ends. The same happens to a file that a copy takes the place of. A file that is cut
(``logrotate`` with ``copytruncate``, or ``> FILE`` to make room) has a hole up to the next append, and a
start cuts the log off there.

An append does not check this, because that would cost a system call each. Instead each log that was appended
to since its last check is checked every ``barnabas.log.files.check.interval.ms``: is its active segment there
by name, with all its bytes, and does it begin with a batch? (One that is cut further behind and appended to
before the check is found by its readers.) So at most the appends of one interval are acknowledged in vain.
The checks are made elsewhere, because a slow disk may take its time.

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
LENGTH: Final = slice(8, 12)
"""Where a batch of any version has its length, which is never 0."""

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
                segments = [(log.active.path, log.active.size) for log in portion]
                found = yield self._elsewhere.run(damages, self._filesystem, segments)
                if not self._logs:
                    return  # the broker has stopped
                for log, end_offset, (path, _), damage in zip(portion, ends, segments, found, strict=True):
                    if damage and self._is_lost(log, path):
                        self._take_offline(log, path, damage)
                    else:
                        log.watched_end_offset = end_offset
        finally:
            self._is_looking = False

    def _is_lost(self, log: Log, path: str) -> bool:
        """Whether it is still the log's:
        meanwhile it may have rolled, been truncated, or been moved or deleted.
        """
        if self._logs.get(log.tp) is not log or log.active.path != path:
            return False
        return bool(damage_of(self._filesystem, path, log.active.size))

    def _take_offline(self, log: Log, path: str, damage: str) -> None:
        _events.error(
            "log.files_removed",
            partition=log.tp,
            file=path,
            in_doubt_from=log.watched_end_offset,
            log_end_offset=log.log_end_offset,
            meaning=damage,
        )
        log.storage_failed(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path))


def damages(filesystem: Filesystem, segments: Sequence[tuple[str, int]]) -> list[str]:
    """What is wrong with each of the files, which should have the size that stands beside it;
    "" for those that are as they should be.
    """
    return [damage_of(filesystem, path, size) for path, size in segments]


def damage_of(filesystem: Filesystem, path: str, size: int) -> str:
    """What is wrong with the file of an active segment of `size` bytes, or ""."""
    if not filesystem.exists(path):
        return "it was removed: what was appended meanwhile is only in a file without a name"
    try:
        if filesystem.size(path) < size:
            return "it was cut or replaced: it lacks bytes that the log has written"
        if size and not any(filesystem.open(path).pread(LENGTH.stop, 0)[LENGTH]):
            return "it was cut: there is a hole in front of what was appended meanwhile"
    except OSError:
        return ""  # descriptors have run out, or the disk fails: the next append says so
    return ""

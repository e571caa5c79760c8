"""Group commit: all appends of one turn of the loop share one sync of the disk.

Theory of operation
-------------------
With ``flush.messages=1`` a produce is answered after its bytes are on stable storage. A sync takes
milliseconds, so it is not made per append: the first request of a turn asks the clock for the next turn, and
everything that was appended to the log by then is covered by one sync. While a sync of a log runs, further
requests for it wait for the next one, because bytes written after a sync began are not promised by it.

Who syncs is a port: in place for tools and simulation, a thread in a broker (``fdatasync`` releases the
interpreter, so the loop is not held up).
"""

import contextlib
from collections.abc import Sequence
from typing import Protocol

from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.log.filesystem import Filesystem


class Syncable(Protocol):
    """Anything with a disk under it."""

    def sync(self) -> None:
        """Returns when its bytes are durable; raises OSError."""


class SyncByPath:
    """A closed file that is opened only while it is synced; `disk` must be usable where that happens."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Filesystem, path: str) -> None:
        self._disk = disk
        self.path = path

    def sync(self) -> None:
        """As `Syncable.sync`; a file that was retired meanwhile has nothing left to promise."""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return
        file.sync()

    def __repr__(self) -> str:
        return f"<SyncByPath {self.path}>"


class DirectorySync:
    """Makes the names in a partition's directory durable, and its own."""

    __slots__ = ("_directory", "_disk")

    def __init__(self, disk: Filesystem, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def sync(self) -> None:
        """As `Syncable.sync`; a partition that was deleted meanwhile has nothing left to promise."""
        with contextlib.suppress(FileNotFoundError):
            self._disk.sync_directory(self._directory)
        self._disk.sync_directory(self._directory.rpartition("/")[0])


class Syncer(Protocol):
    """Syncs files somewhere where waiting does no harm."""

    def sync(self, files: Sequence[Syncable]) -> Pending[None]:
        """Done when all are durable; fails with OSError."""


class InPlaceSyncer:
    """Syncs here and now."""

    def sync(self, files: Sequence[Syncable]) -> Pending[None]:
        try:
            for file in files:
                file.sync()
        except OSError as error:
            return Pending.failed(error)
        return Pending.of(None)


class Flushable(Protocol):
    """What a log offers to the group commit."""

    @property
    def offline(self) -> bool:
        """Whether it is closed, deleted or broken: then no sync can be promised."""

    def begin_flush(self) -> tuple[int, Sequence[Syncable]]:
        """The end of the log now, and the files that make everything below it durable."""

    def end_flush(self, end_offset: int) -> None:
        """Everything below the offset is durable."""

    def refused(self, error: OSError) -> Exception:
        """What is needed for a sync could not be had; returns what waiting requests fail with."""

    def sync_failed(self, error: OSError) -> Exception:
        """A sync failed; returns what waiting requests fail with."""


class GroupCommit:
    """The syncs of all logs of a broker."""

    __slots__ = ("_clock", "_running", "_syncer", "_waiting")

    def __init__(self, clock: Clock, syncer: Syncer) -> None:
        self._clock = clock
        self._syncer = syncer
        self._waiting: dict[Flushable, Pending[None]] = {}
        self._running: set[Flushable] = set()

    def request(self, log: Flushable) -> Pending[None]:
        """Done when everything that the log holds now is durable."""
        waiting = self._waiting.get(log)
        if waiting is None:
            waiting = self._waiting[log] = Pending()
            if log not in self._running:
                self._clock.call_soon(lambda: self._start(log))
        return waiting

    def _start(self, log: Flushable) -> None:
        answer = self._waiting.pop(log, None)
        if answer is None:
            return
        if log.offline:
            answer.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
            return
        try:
            end_offset, files = log.begin_flush()
        except OSError as error:
            answer.fail(log.refused(error))
            return
        self._running.add(log)
        self._syncer.sync(files).when_done(lambda done: self._finish(log, end_offset, answer, done))

    def _finish(self, log: Flushable, end_offset: int, answer: Pending[None], done: Pending[None]) -> None:
        self._running.discard(log)
        if log in self._waiting:
            self._start(log)
        if isinstance(done.error, OSError):
            answer.fail(log.sync_failed(done.error))
        elif done.error is not None:
            answer.fail(done.error)
        else:
            log.end_flush(end_offset)
            answer.complete(None)

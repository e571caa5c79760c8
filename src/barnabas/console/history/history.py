"""`ClusterHistory`: what is remembered of one cluster, and what becomes of it when the disk is full.

Samples are written on a thread of their own: an hour or a day that is over is made a file of Parquet, which
takes seconds, and the looks at the cluster go on meanwhile. What waits is bounded; the oldest sample goes
first.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from barnabas.console.history.change_store import SHOWN_MAX, ChangeStore
from barnabas.console.history.samples import Points, SampleStore
from barnabas.console.questions import NotAnsweredError
from barnabas.console.snapshot import ClusterChange
from barnabas.core.eventlog import EventLog

K = TypeVar("K")
_log = EventLog("console")

KEEP_DAYS: Final = 90
_PENDING_MAX: Final = 20_000
_WAITING_MAX: Final = 60
"""Samples that wait for the thread: an hour of them."""
_SETTLE_S: Final = 10.0
_KEYS_AT_ONCE: Final = 5
"""Of a long look: a series has up to 43,200 samples in a month, each of some 150 bytes in memory."""


class ClusterHistory:
    """Samples and changes of a cluster, in a folder of its own. Nothing but `study` raises: what cannot be
    written is a `problem` that pages show, and is tried again with the next sample.
    """

    def __init__(self, folder: Path, name: str, *, days: int = KEEP_DAYS, every_ms: int = 60_000) -> None:
        self.folder = folder / quote(name, safe="")
        self.every_ms = every_ms
        self.problem: str | None = None
        self._samples = SampleStore(self.folder / "samples", days)
        self._changes = ChangeStore(self.folder / "changes", days)
        self._pending: list[ClusterChange] = []
        self._opened = False
        self._last_ms = 0
        self._waiting: deque[tuple[int, Mapping[str, float], Sequence[ClusterChange]]] = deque()
        self._turn = threading.Condition()
        self._writing = False
        """Whether the thread is there; it ends when nothing waits."""
        self._studying = threading.Lock()

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time for a sample; a clock that was set back does not end them."""
        return not 0 <= now_ms - self._last_ms < self.every_ms

    def remember(
        self, now_ms: int, samples: Mapping[str, float], changes: Sequence[ClusterChange] = ()
    ) -> None:
        """Has a thread `add` them, and does not wait."""
        self._last_ms = now_ms
        with self._turn:
            if len(self._waiting) >= _WAITING_MAX:
                _, _, older = self._waiting.popleft()
                changes = [*older, *changes]
            self._waiting.append((now_ms, samples, changes))
            if not self._writing:
                self._writing = True
                threading.Thread(target=self._write, name="barnabas-console-history", daemon=True).start()

    def _write(self) -> None:
        while True:
            with self._turn:
                if not self._waiting:
                    self._writing = False
                    self._turn.notify_all()
                    return
                now_ms, samples, changes = self._waiting.popleft()
            try:
                self.add(now_ms, samples, changes)
            except Exception as error:  # a bug of ours must not end what is remembered
                self.problem = f"a sample was not written: {error!r}"
                _log.error("console.history", folder=str(self.folder), error=repr(error))

    def settle(self, timeout_s: float = _SETTLE_S) -> bool:
        """Waits until all that was remembered is written; whether it is."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._writing, timeout_s)

    def add(self, now_ms: int, samples: Mapping[str, float], changes: Sequence[ClusterChange] = ()) -> None:
        """Writes; one caller at a time."""
        self._pending = [*self._pending, *changes][-_PENDING_MAX:]
        self._last_ms = now_ms
        begun = time.monotonic()
        try:
            if not self._opened:
                self._samples.open(now_ms)
                self._changes.open(now_ms)
                self._opened = True
            if self._pending:
                self._changes.add(self._pending)
                self._pending = []
            taken = self._samples.add(now_ms, samples)
        except OSError as error:
            if self.problem is None:
                _log.warning("console.history", folder=str(self.folder), error=error)
            self.problem = f"the history cannot be written to {self.folder}: {error.strerror or error}"
            return
        took_ms = (time.monotonic() - begun) * 1000
        if took_ms > 1000:
            _log.info("console.history_slow", took_ms=round(took_ms))
        self.problem = None if taken else "the clock was set back: samples begin again when it has caught up"

    def points(self, series: str, start_ms: int, end_ms: int) -> Points:
        """The samples of a series."""
        return self.points_of([series], start_ms, end_ms)[series]

    def points_of(self, series: Iterable[str], start_ms: int, end_ms: int) -> dict[str, Points]:
        """The samples of each series; the files are read once for all of them."""
        wanted = list(series)
        try:
            return self._samples.read_all(wanted, start_ms, end_ms)
        except OSError as error:
            _log.warning("console.history", folder=str(self.folder), error=error)
            return {one: [] for one in wanted}

    @contextmanager
    def study(self) -> Iterator[None]:
        """For a look at many series over a long time, which takes seconds of a processor: one at a time.
        Raises NotAnsweredError while there is another.
        """
        if not self._studying.acquire(blocking=False):
            raise NotAnsweredError(
                "the history is looked through for somebody else: try again in some seconds"
            )
        try:
            yield
        finally:
            self._studying.release()

    def points_by(
        self, series: Mapping[K, Sequence[str]], start_ms: int, end_ms: int
    ) -> Iterator[tuple[K, list[Points]]]:
        """The samples of the series of each key, in turn; those of few keys are in memory at once."""
        keys = list(series)
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[begin : begin + _KEYS_AT_ONCE]
            points = self.points_of([one for key in some for one in series[key]], start_ms, end_ms)
            for key in some:
                yield key, [points[one] for one in series[key]]

    def series(self) -> list[str]:
        """The series that there are now."""
        return self._samples.series()

    def changes(self, start_ms: int, end_ms: int, count: int = SHOWN_MAX) -> list[ClusterChange]:
        """What has changed, the newest first, at most `count` of what is in the files."""
        try:
            found = self._changes.read(start_ms, end_ms, count)
        except OSError as error:
            _log.warning("console.history", folder=str(self.folder), error=error)
            found = []
        waiting = [one for one in reversed(self._pending) if start_ms <= one.at_ms <= end_ms]
        return [*waiting, *found]

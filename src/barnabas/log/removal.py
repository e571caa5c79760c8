"""Removes files and directories that no log uses, ``file.delete.delay.ms`` after they were renamed.

Theory of operation
-------------------
To remove a directory takes a millisecond, and much longer on a slow disk; a topic may have thousands. So it
is done elsewhere (by a thread of the broker, `core.offload.Offload`), one portion after the other, in the
order in which they are due. One timer serves all that wait.

Nobody waits for a removal. The new name is one that no log gets again, so the partition may be made again
before the old directory is removed. What a kill leaves half removed is found by the next start under that
name.
"""

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from barnabas.core.clock import Clock, Timer
from barnabas.core.descriptors import is_shortage
from barnabas.core.offload import Offload
from barnabas.core.pending import Pending
from barnabas.log.filesystem import Filesystem

AGAIN_MS: Final = 60_000
"""How long a removal waits for descriptors."""
PORTION: Final = 16
"""How many are removed in one go: a stop of the broker waits for them."""


class _Item(NamedTuple):
    """Something to remove."""

    due_ms: float
    number: int
    """Of two that are due at the same time, the first that was asked for goes first."""
    path: str
    is_tree: bool


class Removal:
    """Removes what has been renamed, once readers have had the time to let go of it."""

    def __init__(
        self,
        filesystem: Filesystem,
        clock: Clock,
        elsewhere: Offload,
        failed: Callable[[str, OSError], object],
    ) -> None:
        """`filesystem` is used `elsewhere`; `failed` is called here with a path that could not be removed."""
        self._filesystem = filesystem
        self._clock = clock
        self._elsewhere = elsewhere
        self._failed = failed
        self._waiting: list[_Item] = []
        """A heap: what is due next is the first."""
        self._numbers = itertools.count()
        self._timer: Timer | None = None
        self._timer_ms = 0.0
        self._is_busy = False
        self._is_closed = False

    def tree_later(self, path: str, delay_ms: float) -> None:
        """Removes a directory with all that is in it."""
        self._add(path, delay_ms, is_tree=True)

    def files_later(self, paths: Sequence[str], delay_ms: float) -> None:
        """Removes single files."""
        for path in paths:
            self._add(path, delay_ms, is_tree=False)

    def close(self) -> None:
        """Begins no further removal: what waits is left to the next start."""
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _add(self, path: str, delay_ms: float, *, is_tree: bool) -> None:
        if self._is_closed:
            return
        due_ms = self._clock.monotonic_ms() + delay_ms
        heapq.heappush(self._waiting, _Item(due_ms, next(self._numbers), path, is_tree))
        self._wait()

    def _wait(self) -> None:
        """Sets the timer for what is due next, unless it is set for that or earlier."""
        if self._is_busy or not self._waiting:
            return
        due_ms = self._waiting[0].due_ms
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._clock.call_later(max(0.0, due_ms - self._clock.monotonic_ms()), self._begin)

    def _begin(self) -> None:
        """Has the next portion removed of what is due when the timer ends."""
        self._timer = None
        portion: list[_Item] = []
        while self._waiting and self._waiting[0].due_ms <= self._timer_ms and len(portion) < PORTION:
            portion.append(heapq.heappop(self._waiting))
        if portion:
            self._is_busy = True
            self._elsewhere.run(remove_all, self._filesystem, portion).when_done(self._ended)

    def _ended(self, removed: Pending[list[tuple[_Item, OSError]]]) -> None:
        self._is_busy = False
        for item, error in removed.result():
            self._failed(item.path, error)
            if is_shortage(error):
                self._add(item.path, AGAIN_MS, is_tree=item.is_tree)
        self._wait()


def remove_all(filesystem: Filesystem, portion: Sequence[_Item]) -> list[tuple[_Item, OSError]]:
    """Removes each; those that could not be removed, with the reason."""
    failures = []
    for item in portion:
        try:
            if item.is_tree:
                filesystem.remove_tree(item.path)
            else:
                filesystem.remove(item.path)
        except OSError as error:
            failures.append((item, error))
    return failures

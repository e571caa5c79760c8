"""Waits with epoll and calls the function of each ready descriptor directly, instead of through asyncio's
handles.

Theory of operation
-------------------
`network.event_loop` puts a poller under asyncio. Connections and listeners stand in it with a function each;
what asyncio watches for its own purposes is one more descriptor, and `poll` says when something is ready
there. Each `poll` waits once and calls everything that it found, so asyncio looks at its timers and at what
was scheduled after each wait, as it would with its own selector.

A client with one small request in flight sends the next one right after the answer. A loop that blocks in
between is woken by the system, and on a virtual machine going to sleep and waking up takes longer than the
request itself. So where a wait found the same descriptor alone as the one before, at most `CONVERSATION_S`
after it, and this `REPEATS_MIN` times in a row, the next wait polls for `window_s` before it blocks. What it
costs is bounded twice. Waits in vain spend a budget that grows by `VAIN_SHARE` of the time. Waits that pay
take at most `window_s` each, and only where requests follow each other closely. docs/decisions/0007 has the
figures.
"""

import contextlib
import select
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

CONVERSATION_S: Final = 0.000_5
"""Only a request that comes this soon after the one before makes the next wait an awake one."""
REPEATS_MIN: Final = 3
"""So many wake-ups in a row for the descriptor of the one before, and it alone, are a conversation."""
VAIN_SHARE: Final = 0.02
"""Of a core: what waits in vain may take."""
VAIN_S_MAX: Final = 0.002
"""What may be saved up for them."""

_NOT_READ: Final[int] = ~select.EPOLLIN
_NOT_WRITE: Final[int] = ~select.EPOLLOUT
_READ: Final[int] = select.EPOLLIN
_WRITE: Final[int] = select.EPOLLOUT


class FailureHandler(Protocol):
    """What is done about a function that raised."""

    def __call__(self, error: BaseException, callback: object, /) -> None: ...


class Poller:
    """The descriptors of one event loop."""

    __slots__ = (
        "_awake",
        "_budget_s",
        "_descriptor",
        "_epoll",
        "_failed",
        "_masks",
        "_others",
        "_readers",
        "_removed",
        "_repeats",
        "_window_s",
        "_woken_s",
        "_writers",
    )

    def __init__(self, others: int, window_s: float, failed: FailureHandler) -> None:
        self._epoll = select.epoll()
        self._epoll.register(others, _READ)
        self._others = others
        """The descriptor that is readable when one that is not in here is ready."""
        self._failed = failed
        self._readers: dict[int, Callable[[], object]] = {}
        self._writers: dict[int, Callable[[], object]] = {}
        self._masks: dict[int, int] = {}
        """What the system is asked to watch for each of them."""
        self._removed: set[int] = set()
        """Those taken off since the last wait:
        the events that it found are not for who has the number now.
        """
        self._window_s = window_s
        self._descriptor = -1
        """The one that the last wake-up was for; -1 if there were several."""
        self._repeats = 0
        """Wake-ups in a row, close to each other, for it alone."""
        self._woken_s = 0.0
        self._budget_s = VAIN_S_MAX

    def poll(self, timeout_s: float) -> bool:
        """Waits for at most so long (without end if negative) and calls what is ready;
        whether others are ready.
        """
        self._removed.clear()
        events = self._wait(timeout_s)
        others = False
        for descriptor, mask in events:
            if descriptor == self._others:
                others = True
                continue
            # Errors and a hang-up are the business of both. Either may have been taken off by what was called
            # before, and a new connection may have got the number.
            if mask & _NOT_WRITE and descriptor not in self._removed:
                self._call(self._readers.get(descriptor))
            if mask & _NOT_READ and descriptor not in self._removed:
                self._call(self._writers.get(descriptor))
        return others

    def _call(self, callback: Callable[[], object] | None) -> None:
        if callback is not None:
            try:
                # Only these two end the loop, as where asyncio calls: a CancelledError is one callback's own.
                callback()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self._failed(error, callback)

    def _wait(self, timeout_s: float) -> list[tuple[int, int]]:
        poll = self._epoll.poll
        if self._repeats < REPEATS_MIN or timeout_s == 0.0 or self._budget_s <= 0.0 or not self._window_s:
            events = poll(timeout_s)
            if events:
                self._woken(events, monotonic())
            return events
        started_s = monotonic()
        until_s = started_s + (min(self._window_s, timeout_s) if timeout_s > 0.0 else self._window_s)
        while True:
            events = poll(0.0)
            now_s = monotonic()
            if events:
                self._woken(events, now_s)
                return events
            if now_s >= until_s:
                # In vain. asyncio looks at its timers now, and its next wait blocks.
                self._repeats = 0
                self._budget_s -= now_s - started_s
                return events

    def _woken(self, events: list[tuple[int, int]], now_s: float) -> None:
        passed_s = now_s - self._woken_s
        self._woken_s = now_s
        self._budget_s = min(self._budget_s + VAIN_SHARE * passed_s, VAIN_S_MAX)
        alone = events[0][0] if len(events) == 1 else -1
        if alone >= 0 and alone == self._descriptor and passed_s <= CONVERSATION_S:
            self._repeats += 1
        else:
            self._descriptor = alone
            self._repeats = 0

    def set_reader(self, descriptor: int, callback: Callable[[], object]) -> None:
        """Calls it when the descriptor is readable, has failed or was hung up; in place of one that was set
        before.

        Remove it before the descriptor is closed: the system forgets a closed one, and would not watch its
        next owner. Raises OSError where the system cannot watch the descriptor.
        """
        self._watch(descriptor, self._masks.get(descriptor, 0) | _READ)
        self._readers[descriptor] = callback

    def set_writer(self, descriptor: int, callback: Callable[[], object]) -> None:
        """As `set_reader`, when the descriptor is writable."""
        self._watch(descriptor, self._masks.get(descriptor, 0) | _WRITE)
        self._writers[descriptor] = callback

    def remove_reader(self, descriptor: int) -> bool:
        """Whether there was one."""
        if self._readers.pop(descriptor, None) is None:
            return False
        self._watch(descriptor, self._masks[descriptor] & _NOT_READ)
        return True

    def remove_writer(self, descriptor: int) -> bool:
        """Whether there was one."""
        if self._writers.pop(descriptor, None) is None:
            return False
        self._watch(descriptor, self._masks[descriptor] & _NOT_WRITE)
        return True

    def _watch(self, descriptor: int, mask: int) -> None:
        before = self._masks.get(descriptor, 0)
        if mask == before:
            return
        if not mask:
            del self._masks[descriptor]
            self._removed.add(descriptor)
            # The system forgets a descriptor by itself when it is closed.
            with contextlib.suppress(OSError):
                self._epoll.unregister(descriptor)
            return
        if before:
            self._epoll.modify(descriptor, mask)
        else:
            self._epoll.register(descriptor, mask)
        self._masks[descriptor] = mask

    def close(self) -> None:
        """Forgets everything."""
        self._readers.clear()
        self._writers.clear()
        self._masks.clear()
        self._epoll.close()

    def __repr__(self) -> str:
        return f"<Poller readers={len(self._readers)} writers={len(self._writers)}>"

"""`VirtualClock`: time that jumps from timer to timer, and `ProcessClock`, one process's share of it.

No event loop: coordinators and model members are plain callbacks, so a heap of timers is all that a history
of groups needs, and a thousand virtual seconds take milliseconds.
"""

import heapq
from collections.abc import Callable
from typing import Final

EPOCH_MS: Final = 1_700_000_000_000
"""Where the wall clock of every history begins."""


class VirtualTimer:
    """A callback that waits for its virtual time."""

    __slots__ = ("_owner", "callback", "when_ms")

    def __init__(
        self, when_ms: float, callback: Callable[[], object], owner: "set[VirtualTimer] | None" = None
    ) -> None:
        self.when_ms = when_ms
        self.callback: Callable[[], object] | None = callback
        self._owner = owner
        if owner is not None:
            owner.add(self)

    def cancel(self) -> None:
        """Forgets the callback; harmless when it has already run."""
        self._take()

    def run(self) -> None:
        """Runs the callback, unless it was cancelled."""
        callback = self._take()
        if callback is not None:
            callback()

    def _take(self) -> Callable[[], object] | None:
        callback, self.callback = self.callback, None
        if callback is not None and self._owner is not None:
            self._owner.discard(self)
        return callback

    def __repr__(self) -> str:
        # By name: the address of an object is another one in every process.
        waits_for = getattr(self.callback, "__qualname__", type(self.callback).__name__)
        return f"<VirtualTimer at {self.when_ms:.3f} ms {waits_for}>"


class VirtualClock:
    """The time of a whole history; callbacks of one moment run in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._count = 0

    def time_s(self) -> float:
        """Virtual seconds since the history began."""
        return self.now_ms / 1000

    def time_ms(self) -> int:
        """The virtual wall clock: milliseconds since 1970."""
        return EPOCH_MS + int(self.now_ms)

    def monotonic_ms(self) -> float:
        """Virtual milliseconds since the history began."""
        return self.now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> VirtualTimer:
        """Runs the callback after `delay_ms` of virtual time."""
        return self.add(VirtualTimer(self.now_ms + max(0.0, delay_ms), callback))

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Runs the callback after what is already due."""
        self.call_later(0.0, callback)

    def add(self, timer: VirtualTimer) -> VirtualTimer:
        """Arms a timer."""
        self._count += 1
        heapq.heappush(self._timers, (timer.when_ms, self._count, timer))
        return timer

    def run_until(self, end_ms: float) -> None:
        """Lets the time pass until then."""
        timers = self._timers
        while timers and timers[0][0] <= end_ms:
            self.now_ms, _, timer = heapq.heappop(timers)
            timer.run()
        self.now_ms = max(self.now_ms, end_ms)

    def __repr__(self) -> str:
        return f"<VirtualClock {self.now_ms:.3f} ms timers={len(self._timers)}>"


class ProcessTimer(VirtualTimer):
    """A timer of one process: it waits while the process is stopped, and never runs once it is dead."""

    __slots__ = ("_process",)

    def __init__(self, when_ms: float, callback: Callable[[], object], process: "ProcessClock") -> None:
        super().__init__(when_ms, callback, process.armed)
        self._process = process

    def run(self) -> None:
        """Runs the callback, unless it was cancelled; of a stopped process when it runs again."""
        if self._process.late is None:
            super().run()
        else:
            self._process.late.append(self)


class ProcessClock:
    """The `Clock` of one process: it can be counted what it has armed, and its timers die with it."""

    def __init__(self, world: VirtualClock) -> None:
        self._world = world
        self.armed: set[VirtualTimer] = set()
        self.late: list[ProcessTimer] | None = None
        """What came due while the process is stopped; None while it runs."""
        self.ahead_ms = 0
        """How far its wall clock is ahead of the others."""
        self.monotonic_ms = world.monotonic_ms
        self._dead = False

    def time_ms(self) -> int:
        """The wall clock of this process: milliseconds since 1970."""
        return self._world.time_ms() + self.ahead_ms

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> VirtualTimer:
        """Runs the callback after `delay_ms` of virtual time, if the process lives then."""
        timer = ProcessTimer(self._world.now_ms + max(0.0, delay_ms), callback, self)
        if self._dead:
            timer.cancel()
            return timer
        return self._world.add(timer)

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Runs the callback after what is already due."""
        self.call_later(0.0, callback)

    def stop(self) -> None:
        """Nothing of the process runs until `go_on` (SIGSTOP)."""
        if self.late is None:
            self.late = []

    def go_on(self) -> None:
        """All that came due meanwhile runs now, in its order (SIGCONT)."""
        late, self.late = self.late or [], None
        for timer in late:
            timer.when_ms = self._world.now_ms
            self._world.add(timer)

    def arrive(self, callback: Callable[[], object]) -> None:
        """Something reaches the process from outside: now, or when it runs again."""
        if self.late is None:
            callback()
        else:
            self.call_soon(callback)

    def die(self) -> None:
        """None of its timers will ever run."""
        self._dead = True
        for timer in list(self.armed):
            timer.cancel()

    def __repr__(self) -> str:
        stopped = "" if self.late is None else " stopped"
        return f"<ProcessClock armed={len(self.armed)}{stopped}>"

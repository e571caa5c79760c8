"""The clock port: time and timers as constructor arguments.

Nothing below the edge reads the wall clock or starts a timer by itself; it is handed a `Clock`. The real
one stands on the event loop (`barnabas.node`), the virtual one in `barnabas.testing`.
"""

from collections.abc import Callable
from typing import Protocol

from barnabas.core.eventlog import EventLog

_log = EventLog("core.clock")


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Forgets the callback; harmless when it has already run."""


class Clock(Protocol):
    """Time in milliseconds, and callbacks on the thread that owns the broker's state."""

    def time_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock; may jump."""

    def monotonic_ms(self) -> float:
        """Milliseconds of a clock that never goes backwards; for durations and deadlines."""

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Runs the callback once, not earlier than after the delay."""

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Runs the callback in the next turn of the loop, after what is already waiting."""


class _Repeating:
    """Work on a timer that begins again each time."""

    __slots__ = ("_clock", "_interval_ms", "_name", "_timer", "_work")

    def __init__(
        self, clock: Clock, name: str, interval_ms: float, work: Callable[[], object], delay_ms: float
    ) -> None:
        self._clock = clock
        self._name = name
        self._interval_ms = interval_ms
        self._work = work
        self._timer = clock.call_later(delay_ms, self._run)

    def _run(self) -> None:
        self._timer = self._clock.call_later(self._interval_ms, self._run)
        try:
            self._work()
        except Exception:
            _log.error("timer.failed", work=self._name, exc_info=True)

    def cancel(self) -> None:
        self._timer.cancel()


def every(
    clock: Clock,
    name: str,
    interval_ms: float,
    work: Callable[[], object],
    *,
    delay_ms: float | None = None,
) -> Timer:
    """Runs the work after the delay (else after one interval), and then once an interval
    (``KafkaScheduler``).

    Work that fails is logged, and runs again at its next time. To cancel the timer is to end it.
    """
    return _Repeating(clock, name, interval_ms, work, interval_ms if delay_ms is None else delay_ms)

"""The time of the brokers of a test: it runs as ever, and a test may move it on."""

import asyncio
import itertools
import time
from collections.abc import Callable

from barnabas.core.clock import Timer


class MovableClock:
    """`core.clock.Clock` on an event loop, ahead of the machine's time by what `advance` was given.

    Belongs to the thread of its loop; a test goes through `Kafka.advance`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead_ms = 0.0
        self._numbers = itertools.count()
        self._waiting: dict[int, _Waiting] = {}
        """Timers in the order in which they were made."""

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000 + int(self._ahead_ms)

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000 + self._ahead_ms

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        timer = _Waiting(self, next(self._numbers), self.monotonic_ms() + delay_ms, callback)
        self._waiting[timer.number] = timer
        timer.handle = self._loop.call_later(delay_ms / 1000, timer.run)
        return timer

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._loop.call_soon(callback)

    def advance(self, ms: float) -> None:
        """Moves the time on: what was to happen meanwhile happens in the next turns of the loop, in its
        order.
        """
        if ms < 0:
            raise ValueError(f"time cannot be moved back, by {ms} ms")
        self._ahead_ms += ms
        now = self.monotonic_ms()
        for timer in sorted(self._waiting.values(), key=lambda each: (each.due_ms, each.number)):
            timer.handle.cancel()
            timer.handle = self._loop.call_later(max(0.0, timer.due_ms - now) / 1000, timer.run)

    def forget(self, number: int) -> None:
        """A timer has run, or was cancelled."""
        self._waiting.pop(number, None)

    def __repr__(self) -> str:
        return f"<MovableClock {self._ahead_ms / 1000:g} s ahead, {len(self._waiting)} timers>"


class _Waiting:
    """A timer."""

    __slots__ = ("_callback", "_clock", "due_ms", "handle", "number")

    handle: asyncio.TimerHandle

    def __init__(
        self, clock: MovableClock, number: int, due_ms: float, callback: Callable[[], object]
    ) -> None:
        self._clock = clock
        self._callback = callback
        self.number = number
        self.due_ms = due_ms

    def run(self) -> None:
        self._clock.forget(self.number)
        self._callback()

    def cancel(self) -> None:
        self.handle.cancel()
        self._clock.forget(self.number)

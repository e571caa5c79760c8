"""A clock that stands until a test moves it; shared by the tests that need no event loop."""

import heapq
import itertools

BOOT_MS = 1_699_999_000_000
"""Where the monotonic clock began: a time of it is none of the wall clock, so that to mix them is seen."""


class Clock:
    """Time that passes only when told to."""

    def __init__(self):
        self.now_ms = 1_700_000_000_000
        self._timers = []
        self._numbers = itertools.count()

    def time_ms(self):
        return int(self.now_ms)  # a timer may have been set for a fraction

    def monotonic_ms(self):
        return float(self.now_ms - BOOT_MS)

    def call_later(self, delay_ms, callback):
        timer = Timer(callback)
        heapq.heappush(self._timers, (self.now_ms + delay_ms, next(self._numbers), timer))
        return timer

    def call_soon(self, callback):
        self.call_later(0, callback)

    @property
    def waiting(self):
        return sum(timer.callback is not None for _, _, timer in self._timers)

    def advance(self, by_ms=0):
        until = self.now_ms + by_ms
        while self._timers and self._timers[0][0] <= until:
            self.now_ms, _, timer = heapq.heappop(self._timers)
            timer.run()
        self.now_ms = until


class TickingClock(Clock):
    """Half a millisecond passes with each look at it; counts the turns of the loop that slices ask for."""

    def __init__(self):
        super().__init__()
        self.passed_ms = 0.0
        self.turns = 0

    def monotonic_ms(self):
        self.passed_ms += 0.5
        return super().monotonic_ms() + self.passed_ms

    def call_soon(self, callback):
        self.turns += 1
        super().call_soon(callback)


class Timer:
    def __init__(self, callback):
        self.callback = callback

    def cancel(self):
        self.callback = None

    def run(self):
        callback, self.callback = self.callback, None
        if callback:
            callback()


class Time:
    """A time that is asked for by calling it, and stands at `now_ms`."""

    def __init__(self, now_ms=0.0):
        self.now_ms = now_ms

    def __call__(self):
        return self.now_ms

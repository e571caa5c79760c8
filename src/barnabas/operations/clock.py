"""The wall clock and the one of durations, in Kafka's unit."""

import time
from typing import Final

# With the time that a machine sleeps, where the system counts it: a session must not outlast a closed lid.
_SINCE_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """``System.currentTimeMillis``."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds of a clock that nobody sets: for how long something lasts within this process."""
    return time.clock_gettime_ns(_SINCE_BOOT) // 1_000_000

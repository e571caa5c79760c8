"""The wall clock, in Kafka's unit."""

import time


def now_ms() -> int:
    """``System.currentTimeMillis``."""
    return time.time_ns() // 1_000_000

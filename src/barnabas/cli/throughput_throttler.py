"""``ThroughputThrottler``: holds a sender to a number of records a second."""

import asyncio
from typing import Final

_SLEEP_MIN_S: Final = 0.002


class ThroughputThrottler:
    """Counts from `start_ms` on. A negative target is none; with 0 nothing follows the first record."""

    def __init__(self, target_per_s: float, start_ms: int) -> None:
        self._target = target_per_s
        self._start_ms = start_ms
        self._deficit_s = 0.0

    def should_throttle(self, amount_so_far: int, now_ms: int) -> bool:
        """Whether the amount is above what the time since the start allows."""
        elapsed_s = (now_ms - self._start_ms) / 1000
        return self._target >= 0 and elapsed_s > 0 and amount_so_far / elapsed_s > self._target

    async def throttle(self) -> None:
        """Pauses for the time of one record. Pauses too short for a timer are saved up for a later call."""
        if self._target == 0:
            await asyncio.get_running_loop().create_future()  # until the caller is cancelled
        self._deficit_s += 1 / self._target
        if self._deficit_s >= _SLEEP_MIN_S:
            pause_s, self._deficit_s = self._deficit_s, 0.0
            await asyncio.sleep(pause_s)

"""Trying again: a moment until which something may take, and the pauses between the attempts before it."""

import asyncio
import math
import time

from barnabas.core.errors import KafkaError
from barnabas.network.backoff import ExponentialBackoff
from barnabas.network.errors import DisconnectedError


class Deadline:
    """A moment until which something may take."""

    __slots__ = ("_at", "total_ms")

    def __init__(self, total_ms: float) -> None:
        """Raises TypeError for what is no number of milliseconds."""
        self.total_ms = total_ms
        try:
            self._at = time.monotonic() + total_ms / 1000
            is_number = not math.isnan(self._at)
        except (TypeError, OverflowError):
            is_number = False
        if not is_number:
            raise TypeError(f"a time-out is a number of milliseconds, not {total_ms!r:.80}")

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self._at - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._at


class Attempts:
    """Counts the failed attempts at one thing, and waits between them;
    without a deadline there is no last one.
    """

    __slots__ = ("_backoff", "_deadline", "failed")

    def __init__(self, backoff: ExponentialBackoff, deadline: Deadline | None = None) -> None:
        self.failed = 0
        self._backoff = backoff
        self._deadline = deadline

    async def another(self) -> bool:
        """An attempt failed: waits before the next one.
        False, at once, where the deadline leaves no time for it.
        """
        pause_s = self._backoff.after(self.failed) / 1000
        if self._deadline is not None and pause_s >= self._deadline.left_s:
            return False
        self.failed += 1
        await asyncio.sleep(pause_s)
        return True


def is_retriable(error: BaseException) -> bool:
    """Whether the same may succeed a little later."""
    if isinstance(error, KafkaError):
        return error.retriable
    return isinstance(error, DisconnectedError | OSError)

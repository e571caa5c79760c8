"""`Throttler`: holds a child process to a number of bytes a second
(``org.apache.kafka.storage.internals.utils.Throttler``).
"""

import time
from collections.abc import Callable
from typing import Final

SLEEP_S_MAX: Final = 0.3
"""The longest sleep before the waiting one looks again whether its work is still wanted."""


class Throttler:
    """Begins to count with its first call; can be sent to a child process."""

    __slots__ = ("_began_s", "_bytes", "_bytes_per_second")

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._bytes = 0
        self._began_s = 0.0

    def __call__(self, size: int, check: Callable[[], None]) -> None:
        """Sleeps until this many more bytes are due;
        `check` raises when there is no reason to wait for that.
        """
        if not self._bytes:
            self._began_s = time.monotonic()
        self._bytes += size
        due_s = self._began_s + self._bytes / self._bytes_per_second
        while (wait_s := due_s - time.monotonic()) > 0:
            time.sleep(min(wait_s, SLEEP_S_MAX))
            check()

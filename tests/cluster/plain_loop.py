"""A loop without asyncio."""

import queue
import time
from collections.abc import Callable

from barnabas.core.pending import Pending


class Loop:
    """Runs what is handed to `call_soon`, from whatever thread, on the thread of the test."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._queue.put(callback)

    def run(self) -> None:
        """Everything that waits by now, and what that makes wait."""
        while not self._queue.empty():
            self._queue.get_nowait()()

    def until(self, condition: Callable[[], bool], timeout_s: float = 20) -> None:
        """Runs until the condition holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            try:
                self._queue.get(timeout=max(0.0, deadline - time.monotonic()))()
            except queue.Empty:
                raise TimeoutError("the condition did not come true") from None

    def wait(self, pending: Pending):
        """The value of a Pending."""
        self.until(lambda: pending.done)
        return pending.result()

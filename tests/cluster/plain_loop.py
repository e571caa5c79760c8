"""A loop without asyncio."""

import contextlib
import queue
import time
from collections.abc import Callable

from barnabas.core.pending import Pending

_LOOK_AGAIN_S = 0.02


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
        """Runs until the condition holds. A thread may make it true without a callback, so it looks again."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            with contextlib.suppress(queue.Empty):
                self._queue.get(timeout=_LOOK_AGAIN_S)()
            if time.monotonic() > deadline:
                raise TimeoutError("the condition did not come true")

    def wait(self, pending: Pending):
        """The value of a Pending."""
        self.until(lambda: pending.done)
        return pending.result()

"""`Wakeup`: ends a poll from another thread (``KafkaConsumer.wakeup``).

The poll's task is cancelled, as by a time-out, and the cancellation becomes a `WakeupError`. Where no poll is
under way, the next one raises it.
"""

import asyncio
from types import TracebackType
from typing import Self

from barnabas.client.errors import ClientClosedError, WakeupError


class Wakeup:
    """That of one consumer; a context manager around each of its polls."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[object] | None = None
        self._asked = False
        self._cancelled = False

    def ask(self) -> None:
        """Ends the poll that is under way, or else the next one; from any thread, or a signal handler."""
        self._asked = True
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._asked and self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelled = False
        if self._asked:
            self._asked = False
            self._task = None
            raise WakeupError
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._cancelled and task is not None:
            self._asked = False
            # Whoever else has cancelled the task meanwhile wins.
            if task.uncancel() <= 0 and kind is asyncio.CancelledError:
                raise WakeupError from error
        elif kind is asyncio.CancelledError and task is not None and not task.cancelling():
            # Nobody cancelled the poll itself: `close` of another task ended what it waits for.
            raise ClientClosedError("The consumer was closed") from error

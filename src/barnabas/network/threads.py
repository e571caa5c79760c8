"""Work that waits in system calls, on a thread of its own: the loop does not wait for it."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from barnabas.core.pending import Pending

T = TypeVar("T")


def in_thread(name: str, work: Callable[[], T]) -> Pending[T]:
    """What the work gives, or raises; handed over on the loop that runs now.

    Nobody waits for the thread at the end of the process. The work itself says how long it takes at most.
    """
    loop = asyncio.get_running_loop()
    outcome: Pending[T] = Pending()

    def run() -> None:
        try:
            value = work()
        except Exception as error:
            hand_over(outcome.fail, error)
        else:
            hand_over(outcome.complete, value)

    def hand_over(end: Callable[[T], bool] | Callable[[BaseException], bool], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it
            loop.call_soon_threadsafe(end, what)  # type: ignore[arg-type]

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome

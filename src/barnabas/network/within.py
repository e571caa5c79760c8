"""A time for the whole of a call that blocks.

The time-out of a socket is that of each read, so an answer that comes byte by byte has no end.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, ask: Callable[[], T]) -> T:
    """What `ask` gives or raises, on a thread of its own, which goes with the process. Raises TimeoutError
    where it takes longer; the thread is left to itself then.
    """
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except BaseException as error:  # for the one that waits
            answer.set_exception(error)

    threading.Thread(target=run, name="within", daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError as error:
        raise TimeoutError(str(error) or f"no whole answer in {seconds:g} seconds") from None

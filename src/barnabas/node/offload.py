"""CPU-bound Python in a child process, so that the event loop keeps the interpreter to itself."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from barnabas.core.pending import Pending

P = ParamSpec("P")
T = TypeVar("T")


class ProcessOffload:
    """`core.offload.Offload` on child processes that start with the first piece of work.

    A spawned child shares nothing with the broker: forking a process that holds sockets, locks and an event
    loop would share all of them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, processes: int = 1) -> None:
        self._loop = loop
        self._processes = processes
        self._executor: Executor | None = None

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """The value of a module-level function, computed in a child; a dead child is a failure."""
        if self._executor is None:
            self._executor = _children(self._processes)
        outcome: Pending[T] = Pending()
        future = self._executor.submit(function, *args, **kwargs)
        future.add_done_callback(lambda done: self._loop.call_soon_threadsafe(_hand_over, done, outcome))
        return outcome

    def close(self) -> None:
        """Ends the children after what they are at; work that has not begun fails."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None


def _children(processes: int) -> Executor:
    # Most brokers start after a clean stop and never need these modules.
    import multiprocessing  # noqa: PLC0415
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415

    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=end_with_the_parent)


def end_with_the_parent() -> None:
    """Ends this child when its parent is gone: one that was killed cannot say so, and a child that waits for
    work holds both ends of the pipe that the work would come through.
    """
    import multiprocessing  # noqa: PLC0415

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _hand_over(future: "Future[Any]", outcome: Pending[Any]) -> None:
    if future.cancelled():
        outcome.fail(RuntimeError("the broker stopped before this work began"))
    elif error := future.exception():
        outcome.fail(error)
    else:
        outcome.complete(future.result())

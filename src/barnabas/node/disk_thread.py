"""A thread for system calls that wait for the disk: they release the interpreter, so the loop runs on."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from barnabas.core.pending import Pending
from barnabas.log.flush import Syncable

P = ParamSpec("P")
T = TypeVar("T")


class DiskThread:
    """`core.offload.Offload` on one thread, which starts with its first work: one after the other.

    For what hardly runs Python: a thread that computes would keep the interpreter from the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """What the function gives, or raises; handed over on the loop."""
        outcome: Pending[T] = Pending()
        self._executor.submit(self._work, partial(function, *args, **kwargs), outcome)
        return outcome

    def _work(self, work: Callable[[], Any], outcome: Pending[Any]) -> None:
        try:
            value = work()
        except Exception as error:
            self._loop.call_soon_threadsafe(outcome.fail, error)
        else:
            self._loop.call_soon_threadsafe(outcome.complete, value)

    def close(self) -> None:
        """Waits for all that was given to it."""
        self._executor.shutdown(wait=True)


class ThreadSyncer:
    """`log.flush.Syncer` on a thread of its own: ``fdatasync`` does not hold up the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._thread = DiskThread(loop, "log-flusher")

    def sync(self, files: Sequence[Syncable]) -> Pending[None]:
        """Done, on the loop, when all files are durable; fails with OSError."""
        return self._thread.run(_sync, list(files))

    def close(self) -> None:
        """Waits for the syncs that were asked for."""
        self._thread.close()


def _sync(files: Sequence[Syncable]) -> None:
    for file in files:
        file.sync()

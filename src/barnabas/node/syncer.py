"""Syncs files on a thread: ``fdatasync`` releases the interpreter, so the event loop goes on meanwhile."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from barnabas.core.pending import Pending
from barnabas.log.flush import Syncable


class ThreadSyncer:
    """`log.flush.Syncer` on one thread, which starts with the first sync."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="log-flusher")

    def sync(self, files: Sequence[Syncable]) -> Pending[None]:
        """Done, on the loop, when all files are durable; fails with OSError."""
        outcome: Pending[None] = Pending()
        self._executor.submit(self._sync, list(files), outcome)
        return outcome

    def _sync(self, files: Sequence[Syncable], outcome: Pending[None]) -> None:
        try:
            for file in files:
                file.sync()
        except OSError as error:
            self._loop.call_soon_threadsafe(outcome.fail, error)
        else:
            self._loop.call_soon_threadsafe(outcome.complete, None)

    def close(self) -> None:
        """Waits for the sync that runs."""
        self._executor.shutdown(wait=True)

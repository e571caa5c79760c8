"""Syncs files on a thread: ``fdatasync`` releases the interpreter, so the event loop is not held up."""

import asyncio
from collections.abc import Sequence

from barnabas.core.pending import Pending
from barnabas.log.flush import Syncable
from barnabas.node.disk_thread import DiskThread


class ThreadSyncer:
    """`log.flush.Syncer` on a thread of its own."""

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

"""The disk of a broker in a test, which is the machine's own until the test says that it is full.

A full disk refuses what would take room: records, indexes, checkpoints, new files and folders. What is there
can be read, renamed, cut and removed, as on a real one. The metadata store is not on it.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from barnabas.core.chunks import Buffer
from barnabas.log.filesystem import OsFile, OsFilesystem
from barnabas.testing.kafka.planted import WAIT_S, FaultTimeoutError


class _File(OsFile):
    """A file on a disk that may be full."""

    __slots__ = ("_take_room",)

    def __init__(self, path: str, take_room: "Callable[[str], None]", *, create: bool) -> None:
        self._take_room = take_room
        super().__init__(path, create=create)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._take_room(self.path)
        super().pwrite(data, position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self._take_room(self.path)
        super().pwritev(buffers, position)

    def truncate(self, size: int) -> None:
        if size > self.size():
            self._take_room(self.path)
        super().truncate(size)


class FillableDisk(OsFilesystem):
    """A `log.filesystem.Filesystem` that a test fills, on its own thread, and frees."""

    __slots__ = ("_changed", "_full", "_refused")

    def __init__(self, *, full: bool = False) -> None:
        self._changed = threading.Condition()
        self._full = full
        self._refused = 0

    @property
    def full(self) -> bool:
        return self._full

    def fill(self) -> None:
        """From now on there is no room."""
        with self._changed:
            self._full, self._refused = True, 0

    def free(self) -> None:
        """There is room again. Harmless when there was."""
        self._full = False

    def refused(self) -> int:
        """How many writes found no room since it was filled."""
        with self._changed:
            return self._refused

    def wait(self, refused: int, timeout_s: float) -> None:
        """Returns when so many writes found no room. Raises FaultTimeoutError when they did not in time."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._refused < refused:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise FaultTimeoutError(
                        f"{self._refused} of {refused} writes found no room within {timeout_s:g} s"
                    )
                self._changed.wait(left)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        if create and not self.exists(path):
            self._take_room(path)
        return _File(path, self._take_room, create=create)

    def mkdir(self, path: str) -> None:
        if not self.is_directory(path):
            self._take_room(path)
        super().mkdir(path)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._take_room(path)
        super().write_atomic(path, data, sync=sync)

    def space(self, path: str) -> tuple[int, int]:
        whole, free = super().space(path)
        return whole, 0 if self._full else free

    def _take_room(self, path: str) -> None:
        if not self._full:
            return
        with self._changed:
            self._refused += 1
            self._changed.notify_all()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def __reduce__(self) -> tuple[Any, ...]:
        """A child process that recovers logs gets it as it is now."""
        return _as_it_was, (self._full,)

    def __repr__(self) -> str:
        return f"<FillableDisk {'full' if self._full else 'with room'}>"


def _as_it_was(full: bool) -> FillableDisk:
    return FillableDisk(full=full)


class FullDisk:
    """A broker's disk that a test has filled. Made by `Kafka.fill_disk`; the end of a with block frees it."""

    def __init__(self, broker: int, disk: FillableDisk) -> None:
        self.broker: Final = broker
        self._disk = disk

    def fired(self) -> int:
        """How many writes found no room since it was filled."""
        return self._disk.refused()

    def wait(self, hits: int = 1, timeout_s: float = WAIT_S) -> None:
        """Returns when so many writes found no room. Raises FaultTimeoutError when they did not in time."""
        self._disk.wait(hits, timeout_s)

    def remove(self) -> None:
        """There is room again; harmless when there was."""
        self._disk.free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<FullDisk of broker {self.broker} {self._disk!r} hits={self.fired()}>"

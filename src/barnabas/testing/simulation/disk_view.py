"""`ProcessFilesystem`: a machine's disk as one process sees it, which may die between two operations.

A broker may be killed at any moment, and the moments that matter are those between two changes of the disk:
an index written and its log not, a file renamed and its directory not synced. `die_after` picks one of them.
A write that is under way at that moment reaches the disk in part. Locks go with the process; a dead process
reaches nothing.
"""

import errno
import random
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from barnabas.core.chunks import Buffer
from barnabas.log.filesystem import Lock
from barnabas.testing.disk import SimulatedFile, SimulatedFilesystem, write_atomic
from barnabas.testing.simulation.loop import Process
from barnabas.testing.simulation.trace import Trace
from barnabas.testing.sometimes import sometimes

_PARTLY: Final = 0.5
_PAGE_BYTES: Final = 4096


class ProcessDied(BaseException):
    """Unwinds the stack of a process that was killed in the middle of an operation;
    no error of the program.
    """


class ProcessFile:
    """An open file of one process."""

    __slots__ = ("_file", "_view", "path")

    def __init__(self, view: "ProcessFilesystem", file: SimulatedFile, path: str) -> None:
        self._view = view
        self._file = file
        self.path = path

    def fileno(self) -> int:
        """There is no descriptor."""
        return -1

    def pread(self, size: int, position: int) -> bytes:
        self._view.check_alive()
        return self._file.pread(size, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        view = self._view
        if view.dies_now(f"write {self.path} {position} {len(data)} {crc32(data):08x}"):
            if view.rng.random() < _PARTLY:
                self._file.pwrite(bytes(data)[: view.rng.randrange(len(data) + 1)], position)
            view.die()
        self._file.pwrite(data, position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(buffers), position)

    def truncate(self, size: int) -> None:
        self._view.step(f"truncate {self.path} {size}")
        self._file.truncate(size)

    def size(self) -> int:
        self._view.check_alive()
        return self._file.size()

    def sync(self) -> None:
        self._view.step(f"sync {self.path}")
        self._file.sync()

    def __repr__(self) -> str:
        return f"<ProcessFile {self.path}>"


class ProcessFilesystem:
    """A `Filesystem` for one process on a machine."""

    def __init__(
        self,
        disk: SimulatedFilesystem,
        process: Process,
        rng: random.Random,
        trace: Trace,
    ) -> None:
        self.rng = rng
        self.die_after: int | None = None
        """How many changes of the disk the process still lives through; None: no limit."""
        self.die_after_roll: int | None = None
        """The same, counted from the next segment that the process makes."""
        self._disk = disk
        self._process = process
        self._trace = trace
        self._locks: list[Lock] = []
        process.on_death.append(self._release_locks)

    def check_alive(self) -> None:
        """The dead reach nothing."""
        if not self._process.alive:
            raise OSError(errno.EIO, f"{self._process.name} is dead")

    def dies_now(self, what: str) -> bool:
        """Counts and notes one change of the disk; whether the process dies at it."""
        self.check_alive()
        self._trace(f"disk {what}")
        if self.die_after is None:
            return False
        self.die_after -= 1
        return self.die_after < 0

    def die(self) -> None:
        """Ends the process here and now."""
        self._trace(f"disk {self._process.name} dies at it")
        self._process.die()
        raise ProcessDied

    def step(self, what: str) -> None:
        """One change of the disk, before which the process may die."""
        if self.dies_now(what):
            self.die()

    def _release_locks(self) -> None:
        for lock in self._locks:
            lock.release()

    # The port.

    def open(self, path: str, *, create: bool = False) -> ProcessFile:
        if create and not self._disk.exists(path):
            self.step(f"create {path}")
            if path.endswith(".log"):
                if self.die_after_roll is not None:
                    self.die_after, self.die_after_roll = self.die_after_roll, None
                if self._disk.capacity is not None and self._disk.capacity - self._disk.used < _PAGE_BYTES:
                    sometimes("a log rolls on a full disk")
        self.check_alive()
        return ProcessFile(self, self._disk.open(path, create=create), path)

    def exists(self, path: str) -> bool:
        self.check_alive()
        return self._disk.exists(path)

    def is_directory(self, path: str) -> bool:
        self.check_alive()
        return self._disk.is_directory(path)

    def size(self, path: str) -> int:
        self.check_alive()
        return self._disk.size(path)

    def modified_ms(self, path: str) -> int:
        self.check_alive()
        return self._disk.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.check_alive()
        self._disk.set_modified_ms(path, modified_ms)

    def space(self, path: str) -> tuple[int, int]:
        self.check_alive()
        return self._disk.space(path)

    def listdir(self, path: str) -> list[str]:
        self.check_alive()
        return self._disk.listdir(path)

    def mkdir(self, path: str) -> None:
        self.step(f"mkdir {path}")
        self._disk.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self.step(f"rename {source} {target}")
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self.step(f"remove {path}")
        self._disk.remove(path)

    def remove_tree(self, path: str) -> None:
        self.step(f"remove_tree {path}")
        self._disk.remove_tree(path)

    def read(self, path: str) -> bytes:
        self.check_alive()
        return self._disk.read(path)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """As `Filesystem.write_atomic`, in steps between which the process may die."""
        write_atomic(self, path, data, sync=sync)

    def sync_directory(self, path: str) -> None:
        self.step(f"sync_directory {path}")
        self._disk.sync_directory(path)

    def lock(self, path: str) -> Lock:
        self.step(f"lock {path}")
        lock = self._disk.lock(path)
        self._locks.append(lock)
        return lock

    def __repr__(self) -> str:
        return f"<ProcessFilesystem of {self._process.name}>"

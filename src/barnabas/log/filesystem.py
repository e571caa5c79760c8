"""The filesystem port: everything that the log does to a disk.

The real one is `OsFilesystem`; `barnabas.testing.disk` has one that tears writes, loses what was not
synced, fills up and fails. Both pass one contract test. Paths are plain strings. Every method may raise
OSError; what a full or broken disk means is decided by the log, not here.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.core.chunks import Buffer
from barnabas.core.synchronise import synchronise

IOV_MAX: Final = 1024
"""Buffers that `File.pwritev` takes at once (``limits.h``)."""


def _sync_data(descriptor: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)  # macOS


class File(Protocol):
    """An open file. It closes itself when the last reference goes, so a reader of a range holds it open."""

    def fileno(self) -> int:
        """The descriptor; -1 on a simulated disk."""

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Writes all of `data` at `position`, or raises OSError having written any part of it."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """As `pwrite`, for several buffers one behind the other; at most IOV_MAX of them."""

    def truncate(self, size: int) -> None:
        """Cuts the file to `size` bytes, or extends it with a hole."""

    def size(self) -> int:
        """Bytes in the file now."""

    def sync(self) -> None:
        """Returns when what was written is on stable storage (``fdatasync``)."""


class Lock(Protocol):
    """A lock on a directory that ends with the process."""

    def release(self) -> None:
        """Gives the lock up."""


class LockedError(OSError):
    """Another process, or another broker in this one, holds the lock."""


class Filesystem(Protocol):
    """What a disk can do."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Opens for reading and writing; FileNotFoundError unless it exists or `create` is given."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory of this name."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory of this name."""

    def size(self, path: str) -> int:
        """Bytes in a file."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written, milliseconds since 1970."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Has the file say that it was last written at this time."""

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def mkdir(self, path: str) -> None:
        """Makes the directory and its parents; a directory that exists is left as it is."""

    def rename(self, source: str, target: str) -> None:
        """Renames atomically, replacing a file that has the new name."""

    def remove(self, path: str) -> None:
        """Removes a file, if it exists."""

    def remove_tree(self, path: str) -> None:
        """Removes a directory with everything in it, if it exists."""

    def read(self, path: str) -> bytes:
        """The whole file."""

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replaces the file by way of ``path.tmp`` and a rename; with `sync` it survives a loss of power."""

    def sync_directory(self, path: str) -> None:
        """Makes names in the directory durable."""

    def space(self, path: str) -> tuple[int, int]:
        """Bytes of the whole disk that a directory is on, and those that are still free for this user."""

    def lock(self, path: str) -> Lock:
        """Takes the lock file; raises LockedError while another process holds it."""


class OsFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, *, create: bool = False) -> None:
        self._descriptor = -1
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        self._descriptor = os.open(path, flags, 0o644)

    def fileno(self) -> int:
        """The descriptor, valid as long as this object."""
        return self._descriptor

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        # The kernel may return less than there is, e.g. 2 GiB at most: ask again until the end.
        pieces = [data]
        done = len(data)
        while done < size and (more := os.pread(self._descriptor, size - done, position + done)):
            pieces.append(more)
            done += len(more)
        return b"".join(pieces)

    def pwrite(self, data: Buffer, position: int) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written == len(data):
            return
        with memoryview(data) as view:
            while written < len(view):
                written += os.pwrite(self._descriptor, view[written:], position + written)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        written = os.pwritev(self._descriptor, buffers, position)
        if written < sum(map(len, buffers)):
            # Rare, as on a disk that gets full: the rest says why, or goes through.
            self.pwrite(b"".join(buffers)[written:], position + written)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        _sync_data(self._descriptor)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __repr__(self) -> str:
        return f"<OsFile {self.path}>"


class OsLock:
    """A lock that a JVM broker (record lock) and a broker in this process (flock) both respect."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _keep_others_out(self._descriptor)
        except OSError as error:
            self.release()
            if isinstance(error, BlockingIOError | PermissionError):
                raise LockedError(f"{path} is locked by another process") from error
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _keep_others_out(descriptor: int) -> None:
    """Takes a lock file away from other users: who can read it can lock it, and keep the broker from
    starting.

    An older version or a JVM broker makes it readable for everybody.
    """
    found = os.fstat(descriptor)
    if found.st_mode & 0o007 and found.st_uid == os.geteuid():
        os.fchmod(descriptor, found.st_mode & 0o770)


class OsFilesystem:
    """The disk of the operating system. Holds no state, so it can be sent to a child process."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        return OsFile(path, create=create)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110  # paths are strings here, and this is hot at start-up

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112

    def size(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)  # noqa: PTH103

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)  # noqa: PTH105

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)  # noqa: PTH108
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = f"{path}.tmp"
        try:
            with open(temporary, "wb") as file:  # noqa: PTH123
                file.write(data)
                if sync:
                    file.flush()
                    _sync_data(file.fileno())
            os.replace(temporary, path)  # noqa: PTH105
        except OSError:
            # A disk without room keeps none of it.
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
            raise
        if sync:
            self.sync_directory(os.path.dirname(path))  # noqa: PTH120

    def sync_directory(self, path: str) -> None:
        synchronise(path)

    def space(self, path: str) -> tuple[int, int]:
        disk = os.statvfs(path)
        return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize

    def lock(self, path: str) -> OsLock:
        return OsLock(path)

"""A disk in memory that behaves as badly as real ones may: torn writes, lost data, full, failing.

Theory of operation
-------------------
Every file has the bytes that processes see and the bytes that survive a loss of power. `sync` makes them
equal for one file; names become durable with `sync_directory`. `crash` goes back to what is durable, and lets
chance (a seeded generator) keep any prefix of what was written since, cut within a write if it likes: that is
what a journaling file system promises, and no more. `capacity` bounds all bytes, a hole costs nothing,
`descriptors` bounds the files that are open at once, and `fail` makes operations on some paths raise.

Process death without loss of power keeps everything: simply use the filesystem again.
"""

import contextlib
import errno
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Final

from barnabas.core.chunks import Buffer
from barnabas.core.config import LONG_MAX
from barnabas.log.filesystem import IOV_MAX, Filesystem, LockedError

_PAGE: Final = 4096


class _Content:
    """What a file holds. A hole at its end takes no memory: an index that is preallocated is 10 MB of it."""

    __slots__ = ("size", "written")

    def __init__(self) -> None:
        self.written = bytearray()
        """From the beginning on; what lies between its end and `size` reads as zeros."""
        self.size = 0

    def copy(self) -> "_Content":
        content = _Content()
        content.written[:] = self.written
        content.size = self.size
        return content

    def read(self, size: int, position: int) -> bytes:
        end = min(position + size, self.size)
        return bytes(self.written[position:end]).ljust(max(0, end - position), b"\0")

    def write(self, data: bytes, position: int) -> None:
        if data:
            written = self.written
            if position > len(written):
                written.extend(bytes(position - len(written)))
            written[position : position + len(data)] = data
            self.size = max(self.size, len(written))

    def truncate(self, size: int) -> None:
        del self.written[size:]
        self.size = size


class _Inode:
    """The contents of a file, independent of its name."""

    __slots__ = ("content", "durable", "modified_ms", "pages", "pending")

    def __init__(self) -> None:
        self.content = _Content()
        self.durable = _Content()
        self.pending: list[Callable[[_Content, float], None]] = []
        """What happened since the last sync; each takes the share of it (0 to 1) that reached the disk."""
        self.pages: set[int] = set()
        """Pages that hold written data; holes take no room."""
        self.modified_ms = 0

    def sync(self) -> None:
        self.durable = self.content.copy()
        self.pending.clear()

    def crash(self, rng: random.Random) -> None:
        """Keeps the durable state, and of what came after a random prefix, possibly torn."""
        survivor = self.durable.copy()
        kept = rng.randint(0, len(self.pending))
        for change in self.pending[:kept]:
            change(survivor, 1.0)
        if kept < len(self.pending) and rng.random() < 0.5:
            self.pending[kept](survivor, rng.random())
        self.content = survivor
        self.sync()
        self.pages = {page for page in self.pages if page * _PAGE < survivor.size}


class SimulatedFile:
    """An open file on a simulated disk."""

    __slots__ = ("_disk", "_inode", "path")

    def __init__(self, disk: "SimulatedFilesystem", inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path
        disk.open_files += 1

    def __del__(self) -> None:
        self._disk.open_files -= 1

    def fileno(self) -> int:
        """There is no descriptor."""
        return -1

    def pread(self, size: int, position: int) -> bytes:
        self._disk.check(self.path, "read")
        return self._inode.content.read(size, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        """As `File.pwrite`; a full disk takes what fits and then raises ENOSPC."""
        self._disk.check(self.path, "write")
        wanted = bytes(data)
        fits = self._disk.reserve(self._inode, position, len(wanted))
        self._change(lambda target, part: target.write(wanted[:fits][: int(fits * part + 0.5)], position))
        if fits < len(wanted):
            raise OSError(errno.ENOSPC, "No space left on device", self.path)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """As `pwrite`: a full disk, or a loss of power, cuts anywhere in the vector."""
        if len(buffers) > IOV_MAX:
            raise OSError(errno.EINVAL, "Invalid argument", self.path)
        self.pwrite(b"".join(buffers), position)

    def truncate(self, size: int) -> None:
        self._disk.check(self.path, "write")
        self._change(lambda target, part: target.truncate(size) if part == 1.0 else None)
        self._inode.pages = {page for page in self._inode.pages if page * _PAGE < size}

    def size(self) -> int:
        return self._inode.content.size

    def sync(self) -> None:
        self._disk.check(self.path, "sync")
        self._disk.syncs += 1
        self._inode.sync()

    def _change(self, change: Callable[[_Content, float], None]) -> None:
        change(self._inode.content, 1.0)
        self._inode.pending.append(change)
        self._inode.modified_ms = self._disk.now_ms()

    def __repr__(self) -> str:
        return f"<SimulatedFile {self.path}>"


class SimulatedLock:
    """A lock that lives in memory."""

    __slots__ = ("_held", "_path")

    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path

    def release(self) -> None:
        self._held.discard(self._path)


class SimulatedFilesystem:
    """A `Filesystem` in memory. Errors and losses happen only where a test asks for them."""

    def __init__(
        self,
        *,
        seed: int = 0,
        capacity: int | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        ticks = itertools.count(1)
        self.now_ms: Callable[[], int] = now_ms or (lambda: next(ticks))
        self.capacity = capacity
        """Bytes in all files together; None for no bound."""
        self.descriptors: int | None = None
        """Files that may be open at once; None for no bound."""
        self.open_files = 0
        self.syncs = 0
        """How often a file was synced."""
        self.rng = random.Random(seed)
        self._files: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._directories: set[str] = {"/"}
        self._locks: set[str] = set()
        self._failing: dict[tuple[str, str], int] = {}

    # -- faults --------------------------------------------------------------------------------------

    def fail(self, prefix: str, operation: str = "write", code: int = errno.EIO) -> None:
        """From now on the operation (read, write, sync, name) raises on all paths with this prefix."""
        self._failing[prefix, operation] = code

    def heal(self) -> None:
        """Ends all failures."""
        self._failing.clear()

    def check(self, path: str, operation: str) -> None:
        """Raises if the operation was made to fail here."""
        for (prefix, failing), code in self._failing.items():
            if failing == operation and path.startswith(prefix):
                raise OSError(code, "simulated failure", path)

    def take_descriptor(self, path: str) -> None:
        """Raises when as many files are open as may be."""
        if self.descriptors is not None and self.open_files >= self.descriptors:
            raise OSError(errno.EMFILE, "Too many open files", path)

    def crash(self) -> None:
        """Loses power: open files are closed, of what was not synced a random part survives."""
        names = dict(self._durable_names)
        for path in {**self._files, **names}:
            # What happened to names since the last sync may have become durable by itself, or not.
            if self.rng.random() < 0.5:
                if path in self._files:
                    names[path] = self._files[path]
                else:
                    del names[path]
        # A rename is atomic: a file that was durable and still has a name is found under the old one, the new
        # or both.
        found = {id(inode) for inode in names.values()}
        lost = {id(inode) for inode in self._durable_names.values()} - found
        names |= {path: inode for path, inode in self._files.items() if id(inode) in lost}
        for inode in {id(inode): inode for inode in names.values()}.values():
            inode.crash(self.rng)
        self._files = names
        self._durable_names = dict(names)
        self._locks.clear()

    def release_locks(self) -> None:
        """The process that held them is dead; what it wrote is there."""
        self._locks.clear()

    def reserve(self, inode: _Inode, position: int, size: int) -> int:
        """How many bytes of a write fit on the disk; takes the pages for them."""
        fits = size
        if self.capacity is not None:
            free = self.capacity - self.used
            new = [page for page in _pages(position, size) if page not in inode.pages]
            if len(new) * _PAGE > free:
                fits = max(0, new[max(0, free) // _PAGE] * _PAGE - position)
        inode.pages.update(_pages(position, fits))
        return fits

    def names_to_sync(self) -> list[str]:
        """The files whose names a loss of power may take."""
        return [path for path in self._files if path not in self._durable_names]

    @property
    def used(self) -> int:
        """Bytes on the disk, in whole pages, without holes."""
        inodes = {id(inode): inode for inode in self._files.values()}
        return sum(len(inode.pages) for inode in inodes.values()) * _PAGE

    # -- the port ------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self.check(path, "name" if create and path not in self._files else "read")
        self.take_descriptor(path)
        if path not in self._files:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            self._require_parent(path)
            self._files[path] = _Inode()
            self._files[path].modified_ms = self.now_ms()
        return SimulatedFile(self, self._files[path], path)

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int:
        return self._inode(path).content.size

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def space(self, path: str) -> tuple[int, int]:
        self.check(path, "read")
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        total = LONG_MAX if self.capacity is None else self.capacity
        return total, max(0, total - self.used)

    def listdir(self, path: str) -> list[str]:
        self.check(path, "read")
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        below = f"{path.rstrip('/')}/"
        names = {*self._files, *self._directories}
        inside = (name.removeprefix(below) for name in names if name.startswith(below))
        return sorted({name for name in inside if name and "/" not in name})

    def mkdir(self, path: str) -> None:
        """As `Filesystem.mkdir`; directories are durable at once."""
        self.check(path, "name")
        parts = path.split("/")
        self._directories.update("/".join(parts[:count]) for count in range(2, len(parts) + 1))

    def rename(self, source: str, target: str) -> None:
        """As `Filesystem.rename`; durable once the directory of the new name is synced."""
        self.check(source, "name")
        if source in self._directories:
            self._rename_directory(source, target)
            return
        inode = self._inode(source)
        del self._files[source]
        self._files[target] = inode

    def _rename_directory(self, source: str, target: str) -> None:
        below = f"{source}/"
        for table in (self._files, self._durable_names):
            for path in [path for path in table if path.startswith(below)]:
                table[f"{target}/{path.removeprefix(below)}"] = table.pop(path)
        moved = {path for path in self._directories if path == source or path.startswith(below)}
        self._directories -= moved
        self._directories |= {target + path.removeprefix(source) for path in moved}

    def remove(self, path: str) -> None:
        """As `Filesystem.remove`; the name may come back until its directory is synced."""
        self.check(path, "name")
        self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        self.check(path, "name")
        below = f"{path}/"
        for table in (self._files, self._durable_names):
            for name in [name for name in table if name.startswith(below)]:
                del table[name]
        self._directories = {
            name for name in self._directories if name != path and not name.startswith(below)
        }

    def read(self, path: str) -> bytes:
        self.check(path, "read")
        self.take_descriptor(path)
        content = self._inode(path).content
        return content.read(content.size, 0)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        write_atomic(self, path, data, sync=sync)

    def sync_directory(self, path: str) -> None:
        self.check(path, "sync")
        self.take_descriptor(path)
        for table in (self._durable_names, self._files):
            for name in [name for name in table if name.rpartition("/")[0] == path]:
                if name in self._files:
                    self._durable_names[name] = self._files[name]
                else:
                    del self._durable_names[name]

    def lock(self, path: str) -> SimulatedLock:
        if path in self._locks:
            raise LockedError(f"{path} is locked by another process")
        self.open(path, create=True)
        self._locks.add(path)
        return SimulatedLock(self._locks, path)

    def _inode(self, path: str) -> _Inode:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._files[path]

    def _require_parent(self, path: str) -> None:
        if path.rpartition("/")[0] not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)


def write_atomic(disk: Filesystem, path: str, data: bytes, *, sync: bool) -> None:
    """`Filesystem.write_atomic` by the other operations of a disk, between which a process may die."""
    temporary = f"{path}.tmp"
    disk.remove(temporary)
    try:
        file = disk.open(temporary, create=True)
        file.pwrite(data, 0)
        if sync:
            file.sync()
        disk.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise
    if sync:
        disk.sync_directory(path.rpartition("/")[0])


def _pages(position: int, size: int) -> range:
    return range(position // _PAGE, (position + size + _PAGE - 1) // _PAGE)

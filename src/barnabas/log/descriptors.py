"""The descriptors of the log: few are held, and running out of them is no disk error.

Theory of operation
-------------------
Only the active ``.log`` of a partition keeps a descriptor of its own, and only a bounded number of those, the
latest. Indexes and older segments are opened through `DescriptorCache` at each look-up, and the least
recently used are dropped. A file closes itself when its last holder lets go, so a response that still sends a
range is never cut off.

When the process has none left all the same (sockets take them, too), `SparingFilesystem` has the log close
each file that it can open again, and tries once more. Only what fails even then is refused, with an error
that clients try again.
"""

from collections.abc import Callable
from typing import Final, ParamSpec, Protocol, TypeVar

from barnabas.core.descriptors import is_shortage
from barnabas.log.filesystem import File, Filesystem, Lock

P = ParamSpec("P")
T = TypeVar("T")

DESCRIPTORS_MAX: Final = 512
ACTIVE_MAX: Final = 1 << 16


class Resting(Protocol):
    """A holder of a descriptor that can do without it for a while."""

    def rest(self) -> None:
        """Lets go of the descriptor; the next use opens the file again."""


class DescriptorCache:
    """Open files by path, the least recently used first; and who holds an active segment's file."""

    __slots__ = ("_active", "_active_limit", "_files", "_filesystem", "_limit")

    def __init__(
        self, filesystem: Filesystem, limit: int = DESCRIPTORS_MAX, active_limit: int = ACTIVE_MAX
    ) -> None:
        self._filesystem = filesystem
        self._limit = limit
        self._active_limit = active_limit
        self._files: dict[str, File] = {}
        self._active: dict[Resting, None] = {}

    def open(self, path: str, *, create: bool = False) -> File:
        """The open file of this path; raises OSError."""
        file = self._files.pop(path, None)
        if file is None:
            while len(self._files) >= self._limit:
                del self._files[next(iter(self._files))]
            file = self._filesystem.open(path, create=create)
        self._files[path] = file  # at the end: a dict keeps the order of insertion
        return file

    def forget(self, path: str) -> None:
        self._files.pop(path, None)

    def hold(self, segment: Resting) -> None:
        """Notes that an active segment has opened its file; if too many have, the first of them lets go of
        its file.

        In the order of opening, not of use: that costs an append nothing.
        """
        self._active[segment] = None
        if len(self._active) > self._active_limit:
            next(iter(self._active)).rest()

    def let_go(self, segment: Resting) -> None:
        """Notes that a segment no longer has a file of its own."""
        self._active.pop(segment, None)

    def clear(self) -> None:
        """Lets go of all files that can be opened again."""
        self._files.clear()
        for segment in list(self._active):
            segment.rest()

    def __len__(self) -> int:
        return len(self._files)


class SparingFilesystem:
    """A `Filesystem` that has descriptors given back when there are none left, and tries once more.

    Belongs to the thread of the loop, because giving back changes what the loop uses.
    """

    __slots__ = ("_filesystem", "_give_back")

    def __init__(self, filesystem: Filesystem, give_back: Callable[[OSError], object]) -> None:
        self._filesystem = filesystem
        self._give_back = give_back

    def _sparing(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except OSError as error:
            if not is_shortage(error):
                raise
            self._give_back(error)
        return call(*args, **kwargs)

    # What needs a descriptor.

    def open(self, path: str, *, create: bool = False) -> File:
        return self._sparing(self._filesystem.open, path, create=create)

    def listdir(self, path: str) -> list[str]:
        return self._sparing(self._filesystem.listdir, path)

    def remove_tree(self, path: str) -> None:
        self._sparing(self._filesystem.remove_tree, path)

    def read(self, path: str) -> bytes:
        return self._sparing(self._filesystem.read, path)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._sparing(self._filesystem.write_atomic, path, data, sync=sync)

    def sync_directory(self, path: str) -> None:
        self._sparing(self._filesystem.sync_directory, path)

    def lock(self, path: str) -> Lock:
        return self._sparing(self._filesystem.lock, path)

    # What needs none.

    def exists(self, path: str) -> bool:
        return self._filesystem.exists(path)

    def is_directory(self, path: str) -> bool:
        return self._filesystem.is_directory(path)

    def size(self, path: str) -> int:
        return self._filesystem.size(path)

    def modified_ms(self, path: str) -> int:
        return self._filesystem.modified_ms(path)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._filesystem.set_modified_ms(path, modified_ms)

    def mkdir(self, path: str) -> None:
        self._filesystem.mkdir(path)

    def space(self, path: str) -> tuple[int, int]:
        return self._filesystem.space(path)

    def rename(self, source: str, target: str) -> None:
        self._filesystem.rename(source, target)

    def remove(self, path: str) -> None:
        self._filesystem.remove(path)

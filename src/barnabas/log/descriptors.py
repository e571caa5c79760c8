"""A bounded cache of open files, so that ten thousand segments do not need thirty thousand descriptors.

Only the active ``.log`` of a partition keeps a descriptor of its own. Indexes and older segments are opened
through here when somebody looks something up, and the least recently used are dropped. A file closes
itself when its last holder lets go, so a response that still sends a range is never cut off.
"""

from typing import Final

from barnabas.log.filesystem import File, Filesystem

DESCRIPTORS_MAX: Final = 512


class DescriptorCache:
    """Open files by path, the least recently used first."""

    __slots__ = ("_files", "_filesystem", "_limit")

    def __init__(self, filesystem: Filesystem, limit: int = DESCRIPTORS_MAX) -> None:
        self._filesystem = filesystem
        self._limit = limit
        self._files: dict[str, File] = {}

    def open(self, path: str, *, create: bool = False) -> File:
        """The open file of this path; raises OSError."""
        file = self._files.pop(path, None)
        if file is None:
            file = self._filesystem.open(path, create=create)
            if len(self._files) >= self._limit:
                del self._files[next(iter(self._files))]
        self._files[path] = file  # at the end: a dict keeps the order of insertion
        return file

    def forget(self, path: str) -> None:
        """Lets go of a file that was renamed or removed."""
        self._files.pop(path, None)

    def clear(self) -> None:
        """Lets go of all files."""
        self._files.clear()

    def __len__(self) -> int:
        return len(self._files)

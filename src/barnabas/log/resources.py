"""What all logs of a broker share: the disk, who syncs it, and who is told what happens to a log."""

from collections.abc import Callable
from typing import TypeAlias

from barnabas.core.offload import InPlace, Offload
from barnabas.log.descriptors import DescriptorCache
from barnabas.log.filesystem import Filesystem
from barnabas.log.flush import GroupCommit

OnError: TypeAlias = Callable[[str, OSError], object]
"""Called with a path, and with what its disk answered."""


class LogListener:
    """Who is told what happens to a log."""

    __slots__ = ("cut", "failed", "refused")

    def __init__(
        self,
        *,
        failed: OnError = lambda _directory, _error: None,
        refused: OnError = lambda _directory, _error: None,
        cut: Callable[[str, int, bool], object] = lambda _directory, _lowest_cut, _is_dirtier: None,
    ) -> None:
        self.failed = failed
        """The disk of the log in this directory has failed; the log is offline."""
        self.refused = refused
        """Something in this directory was refused for want of descriptors or of room."""
        self.cut = cut
        """Records at the end of the log in this directory are about to be cut off, down to this offset at the
        lowest; whether some of its clean part goes too.
        """


class LogResources:
    """What a log needs and does not own."""

    __slots__ = ("commits", "disk", "files", "filesystem", "listener", "offload")

    def __init__(
        self,
        filesystem: Filesystem,
        files: DescriptorCache,
        commits: GroupCommit,
        listener: LogListener,
        *,
        disk: Filesystem | None = None,
        offload: Offload | None = None,
    ) -> None:
        self.filesystem = filesystem
        self.files = files
        self.commits = commits
        self.listener = listener
        self.disk = disk or filesystem
        """The same disk for other threads than the loop's."""
        self.offload: Offload = offload or InPlace()
        """Where large segments are scanned."""

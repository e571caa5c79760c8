"""`OwnFolder`: the folder of a cluster that was given none. It goes with the cluster, however that ends.

A process that is killed removes nothing. So each folder has a file that its process holds locked for as long
as it lives, and who makes a folder first removes those beside it whose lock is free.
"""

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - mkdtemp makes a folder of its own in it
ROOM: Final = 64 << 20
"""Bytes that must be free in memory: a container has 64 MB there in all, unless it was asked for more."""
_PREFIX: Final = "barnabas-kafka-"
_OWNER: Final = "owner"


class OwnFolder:
    """A new folder for its own user, in memory where the machine has room for that."""

    def __init__(self, memory: Path = MEMORY) -> None:
        place = memory if _has_room(memory) else Path(tempfile.gettempdir())
        remove_left(place)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        # It gets its name when it is locked: without the name nobody takes the folder for one that was left.
        unnamed = self.path / f"{_OWNER}.new"
        lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / _OWNER)
        self._removal = weakref.finalize(self, _remove_of, os.getpid(), self.path, lock)

    def remove(self) -> None:
        """Removes it with all that is in it. Harmless when repeated."""
        self._removal()


def remove_left(place: Path) -> None:
    """Removes the folders whose processes ended without it."""
    for folder in place.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / _OWNER, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # another user's, or one that is made or removed at this moment
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
        else:
            _remove(folder, lock)


def _remove_of(owner: int, folder: Path, lock: int) -> None:
    if os.getpid() == owner:  # a forked child that ends finalizes what its parent goes on with
        _remove(folder, lock)


def _remove(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _has_room(memory: Path) -> bool:
    try:
        found = os.statvfs(memory)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= ROOM and os.access(memory, os.W_OK)

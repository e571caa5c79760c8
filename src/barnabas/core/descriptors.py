"""The file descriptors of this process: how many it may have, and how many are left.

Theory of operation
-------------------
Sockets, segments and the store all take descriptors from one limit. A connection that is refused can be tried
again; a segment that cannot be opened stops a partition. So connections leave a reserve to the files: the
server asks `Descriptors.has_room` before each connection.

Counting is cheap on Linux since 6.2 (one ``stat``); before, and elsewhere, the folder of descriptors is
listed, 0.35 us each. So they are counted again only when half of the room seen last has been given away, or
after a second, because files are opened meanwhile by others who do not ask.
"""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

from barnabas.core.clock import Clock

RESERVE: Final = 256
"""Descriptors that connections leave to files, where the limit is large enough for it."""

_COUNT_MS: Final = 1000
"""How long a count holds while there is room."""
_RECOUNT_MS: Final = 50
"""How long a count holds while there is none."""
_OPEN: Final = "/proc/self/fd"
_OPEN_ELSEWHERE: Final = "/dev/fd"


def raise_limit() -> int:
    """Raises the soft limit of descriptors to the hard one, as a JVM does at its start; the limit then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # macOS has an unlimited hard limit and refuses it as a soft one: what there is must do.
            return soft
    return hard


def soft_limit() -> int:
    """How many descriptors this process may have now; 2**31 where nothing limits them."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 if limit == resource.RLIM_INFINITY else limit


def is_shortage(error: OSError) -> bool:
    """Whether descriptors have run out, of the process or of the machine: no fault of any disk."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def open_descriptors() -> int:
    """How many descriptors this process has open."""
    try:
        size = Path(_OPEN).stat().st_size
    except OSError:
        size = 0
    if size:
        return size
    folder = _OPEN if Path(_OPEN).is_dir() else _OPEN_ELSEWHERE
    try:
        # Names are all that is wanted, ten thousand of them.
        return len(os.listdir(folder)) - 1  # noqa: PTH208
    except OSError as error:
        if is_shortage(error):
            # Not even one is left to list the others with.
            return soft_limit()
        raise


class Descriptors:
    """Says whether one more connection leaves enough descriptors to the files."""

    __slots__ = ("_clock", "_count", "_counted_until_ms", "_given", "_reserve", "_room")

    def __init__(
        self, clock: Clock, reserve: int = RESERVE, count: Callable[[], int] = open_descriptors
    ) -> None:
        self._clock = clock
        self._count = count
        self._reserve = reserve
        self._room = 0
        self._given = 0
        self._counted_until_ms = 0.0

    @property
    def limit(self) -> int:
        """The soft limit of the process, which can be changed from outside (``prlimit``)."""
        return soft_limit()

    @property
    def reserve(self) -> int:
        """How many stay free for files: of a small limit a quarter at most."""
        return min(self._reserve, self.limit // 4)

    def has_room(self) -> bool:
        """Whether a connection may be opened now; it counts as opened."""
        now = self._clock.monotonic_ms()
        if now >= self._counted_until_ms or (self._room > 0 and 2 * self._given >= self._room):
            self._room = self.limit - self.reserve - self._count()
            self._given = 0
            self._counted_until_ms = now + (_COUNT_MS if self._room > 0 else _RECOUNT_MS)
        if self._room <= 0:
            return False
        self._given += 1
        return True

    def __repr__(self) -> str:
        return f"<Descriptors open={self._count()} limit={self.limit} reserve={self.reserve}>"

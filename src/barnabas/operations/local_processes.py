"""Which process of this machine listens on a port, and what share of a core it takes; from Linux's /proc.

Elsewhere, and for processes of other users, nothing is known and nothing is raised.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_LISTEN: Final = "0A"
_UTIME: Final = 11
"""The place of utime behind the name of the process in /proc/PID/stat (field 14 there); stime follows."""


def listeners(ports: Collection[int]) -> dict[int, int]:
    """The process that listens on each of these ports, as far as this user may see it."""
    inodes = {inode: port for port, inode in _listening() if port in ports}
    found: dict[int, int] = {}
    for folder in _processes() if inodes else ():
        with suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                with suppress(OSError):
                    inode = str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]")
                    if inode in inodes:
                        found[inodes[inode]] = int(folder.name)
    return found


def _listening() -> Iterator[tuple[int, str]]:
    for table in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            for line in (PROC / table).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTEN:
                    yield int(words[1].rpartition(":")[2], 16), words[9]


def _processes() -> Iterator[Path]:
    with suppress(OSError):
        for folder in PROC.iterdir():
            if folder.name.isdigit():
                yield folder


def processor_shares(pids: Collection[int], seconds: float) -> Mapping[int, float]:
    """What share of one core each process took in the next so many seconds; blocks for these."""
    before, started = {pid: _processor_s(pid) for pid in pids}, time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - started
    found = {}
    for pid, first in before.items():
        last = _processor_s(pid)
        if first is not None and last is not None:
            found[pid] = (last - first) / took
    return found


def _processor_s(pid: int) -> float | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8")
    except OSError:
        return None
    # The name stands in parentheses and may hold any character.
    fields = text.rpartition(")")[2].split()
    return (int(fields[_UTIME]) + int(fields[_UTIME + 1])) / os.sysconf("SC_CLK_TCK")

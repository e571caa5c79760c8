"""What a process and its children have used: processor time and memory."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class ProcessorTime(NamedTuple):
    """Seconds of processor time, threads and children that ended included."""

    total_s: float
    """By the kernel's clock of a process, to the nanosecond; children that ended to a tick (10 ms)."""
    system_s: float
    """The part spent in the kernel, to a tick."""


def processor_time(pid: int) -> ProcessorTime:
    """What this process and its children have used until now."""
    total = system = 0.0
    for one in tree_of(pid):
        with contextlib.suppress(OSError):  # a child that ended between the listing and the look
            stat = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            mine, ended_user, ended_system = (int(stat[place]) * _TICK_S for place in (12, 13, 14))
            total += time.clock_gettime(~one << 3 | 2) + ended_user + ended_system
            system += mine + ended_system
    return ProcessorTime(total, system)


def resident_mb(pid: int) -> float:
    """Resident memory of this process and its children, in MB (10**6 bytes)."""
    pages = 0
    for one in tree_of(pid):
        with contextlib.suppress(OSError):
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def proportional_mb(pids: Iterable[int]) -> float:
    """Memory of these processes in MB, what several share counted once (PSS):
    forked workers share most of theirs.
    """
    total_kb = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total_kb += int(rollup.partition("\nPss:")[2].split()[0])
    return total_kb * 1024 / 1e6


def command_of(pid: int) -> list[str]:
    """The command line of a process, empty when it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]
    return []


def tree_of(pid: int) -> list[int]:
    """This process and all below it, parents first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found

"""How many processors there are for this process, and what processes have used of them."""

import os
from pathlib import Path


def cores() -> int:
    """The processors that this process may use; all of the machine where that cannot be asked (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_s(session: int) -> float:
    """Processor time of a process that leads a session, and of all that it has started; 0 where the system
    does not say it.
    """
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Behind the name: state, parent, group, session; utime, stime and those of ended children.
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")

"""How many processors there are for this process."""

import os


def cores() -> int:
    """The processors that this process may use; all of the machine where that cannot be asked (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Takes away what macOS does not have, and runs ``barnabas`` or a script: for `test_other_systems`.

python without_linux.py barnabas ARGUMENTS | script CODE
"""

import os
import select
import sys
from pathlib import Path

OF_OS = [
    *("fdatasync", "posix_fadvise", "POSIX_FADV_WILLNEED", "RWF_NOWAIT", "sched_getaffinity"),
    *("pidfd_open", "eventfd", "eventfd_read", "eventfd_write", "EFD_CLOEXEC", "EFD_NONBLOCK"),
]


def take_away(module, names):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)


take_away(os, OF_OS)
# Before the selectors of the standard library look for it.
take_away(select, [name for name in dir(select) if name.lower().startswith("epoll")])
import socket  # noqa: E402

take_away(socket, ["MSG_MORE"])

from barnabas.cluster.store import sqlite_sessions  # noqa: E402
from barnabas.core import descriptors  # noqa: E402

sqlite_sessions._DESCRIPTORS = Path("/no/such/folder")
descriptors._OPEN = "/no/such/folder"

if __name__ == "__main__":
    _, kind, *rest = sys.argv
    if kind == "script":
        exec(rest[0])
    else:
        from barnabas.cli.main import main

        sys.argv = ["barnabas", *rest]
        main()

"""`synchronise`: to the disk with a file, or with the names in a folder."""

import os
from pathlib import Path


def synchronise(path: str | Path) -> None:
    """Has the system write a file's content, or the names in a folder, to the disk (fsync); OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

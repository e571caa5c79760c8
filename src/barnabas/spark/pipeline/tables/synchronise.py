"""What has been written reaches the disk: files, and the folders that hold their names."""

import os
from collections.abc import Iterable
from pathlib import Path


def synchronise(path: Path) -> None:
    """Has the system write a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def synchronise_up(folder: Path, top: Path) -> None:
    """A folder and those above it up to `top`: each holds the name of the one below."""
    for each in (folder, *folder.parents):
        synchronise(each)
        if each == top:
            return


def synchronise_files(folder: Path, files: Iterable[str], top: Path) -> None:
    """Files of a folder, and the folders that hold their names up to `top`."""
    paths = [folder / file for file in files]
    for path in paths:
        synchronise(path)
    for parent in sorted({path.parent for path in paths}):
        synchronise_up(parent, top)

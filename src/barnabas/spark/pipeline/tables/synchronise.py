"""What has been written reaches the disk: files, and the folders that hold their names."""

from collections.abc import Iterable
from pathlib import Path

from barnabas.core.synchronise import synchronise


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

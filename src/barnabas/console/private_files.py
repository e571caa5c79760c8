"""Files of the console's own, which only their owner reads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def private(path: str, flags: int) -> int:
    """An opener of files that only the owner reads."""
    return os.open(path, flags, 0o600)


def sync_folder(folder: Path) -> None:
    """Brings a rename to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file whose content takes the place of the path's, whole or not at all: it is on the disk before it
    has the name. Raises OSError.
    """
    temporary = path.with_suffix(".tmp")
    try:
        with open(temporary, "wb", opener=private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)

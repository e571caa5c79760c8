"""`WatchedFile`: a file's content, read again when it is another one."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from barnabas.core.errors import BarnabasError

T = TypeVar("T")

BYTES_MAX: Final = 1 << 20


class UnreadableFileError(BarnabasError):
    """A file that says who may do what, or what is hidden, cannot be read: until it can, nobody may."""


class WatchedFile(Generic[T]):
    """What `parse` makes of a file. It fails closed: what was read before does not count for a file that is
    broken now.
    """

    def __init__(self, path: Path, parse: Callable[[str], T]) -> None:
        self.path = path
        self._parse = parse
        self._kept: tuple[tuple[int, int, int], T | UnreadableFileError] | None = None
        """One object: of two threads that read at once, neither leaves its value under the other's stamp."""

    def read(self) -> T:
        """The content as it is now. Raises UnreadableFileError."""
        try:
            stat = self.path.stat()
        except OSError as error:
            raise UnreadableFileError(f"{self.path.name} cannot be read: {error.strerror}") from error
        stamp = stat.st_mtime_ns, stat.st_size, stat.st_ino
        kept = self._kept
        if kept is None or stamp != kept[0]:
            kept = self._kept = stamp, self._load()
        value = kept[1]
        if isinstance(value, UnreadableFileError):
            # The same error each time: without this it would keep the frames of every one that met it.
            raise value.with_traceback(None)
        return value

    def _load(self) -> T | UnreadableFileError:
        try:
            with self.path.open("rb") as file:
                data = file.read(BYTES_MAX + 1)
            if len(data) > BYTES_MAX:
                return UnreadableFileError(f"{self.path.name} has more than {BYTES_MAX} bytes")
            return self._parse(data.decode())
        except OSError as error:
            return UnreadableFileError(f"{self.path.name} cannot be read: {error.strerror}")
        except ValueError as error:
            return UnreadableFileError(f"{self.path.name} cannot be read: {error}")

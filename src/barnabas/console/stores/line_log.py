"""`LineLog`: lines that are only appended to, in files that are bounded, read from the newest back.

``NAME.jsonl`` is the file that grows. One that is full is renamed to ``NAME-MILLISECONDS.jsonl``, and the
oldest of these go when there are too many.
"""

import errno
import os
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from barnabas.core.synchronise import synchronise
from barnabas.operations.clock import now_ms

FILE_BYTES: Final = 16 << 20
FILES_MAX: Final = 10
"""Full files that are kept, beside the one that grows."""
_BLOCK: Final = 1 << 16
_appending = threading.Lock()
"""Of all logs of this process: two must not rename the same file."""


class LineLog:
    """Of one path. The folder is made with the first line."""

    def __init__(self, path: Path, file_bytes: int = FILE_BYTES, files_max: int = FILES_MAX) -> None:
        self.path = path
        self._file_bytes = file_bytes
        self._files_max = files_max

    def append(self, *lines: str) -> None:
        """Lines without their ends, on the disk when this returns. Raises OSError."""
        text = "".join(f"{line}\n" for line in lines)
        with _appending:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._turn_over()
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                # What a kill or a full disk has cut off must not swallow this line.
                size = os.fstat(descriptor).st_size
                is_torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                data = (("\n" if is_torn else "") + text).encode(errors="replace")
                if os.write(descriptor, data) < len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not size:
                # A new file: its name is on the disk, too.
                synchronise(self.path.parent)

    def _turn_over(self) -> None:
        """Begins a new file where this one is full."""
        try:
            if self.path.stat().st_size < self._file_bytes:
                return
        except FileNotFoundError:
            return
        full = self._full_files()
        # A clock that was set back must not put it before an older one, or over one.
        at_ms = max(now_ms(), full[-1][0] + 1 if full else 0)
        self.path.rename(self.path.with_name(f"{self.path.stem}-{at_ms}{self.path.suffix}"))
        synchronise(self.path.parent)
        for _, path in full[: max(len(full) + 1 - self._files_max, 0)]:
            path.unlink(missing_ok=True)

    def _full_files(self) -> list[tuple[int, Path]]:
        """The oldest first, each with the time at which it was full."""
        found = []
        for path in self.path.parent.glob(f"{self.path.stem}-*{self.path.suffix}"):
            number = path.stem[len(self.path.stem) + 1 :]
            if number.isascii() and number.isdigit():
                found.append((int(number), path))
        return sorted(found)

    def newest(self) -> Iterator[bytes]:
        """Each line without its end, the newest first, as far as somebody reads. Raises OSError."""
        # The one that grows may be renamed while it is read: under its new name it is not read again.
        growing = yield from _backwards(self.path)
        for _, path in reversed(self._full_files()):
            yield from _backwards(path, growing)


def _backwards(path: Path, but: int | None = None) -> Generator[bytes, None, int | None]:
    """The lines of a file, unless it is the one with this number; the number of what was read."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    with file:
        number = os.fstat(file.fileno()).st_ino
        if number == but:
            return number
        at, later = file.seek(0, os.SEEK_END), [b""]
        while at:
            size = min(_BLOCK, at)
            at -= size
            file.seek(at)
            first, *rest = file.read(size).split(b"\n")
            if not rest:  # a line that is longer than a block
                later.insert(0, first)
                continue
            yield b"".join([rest.pop(), *later])
            yield from reversed(rest)
            later = [first]
        yield b"".join(later)
    return number
